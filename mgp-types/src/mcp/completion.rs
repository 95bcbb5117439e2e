//! Completion of arguments while they are typed (MCP completion).
//!
//! Applies to: both.

use std::collections::BTreeMap;

use super::{Meta, ResultType};
use crate::record::{record, tagged};

record! {
    /// A prompt whose argument is typed.
    pub struct PromptReference tagged "type" = "ref/prompt" {
        /// The prompt.
        req name: String,
        /// Name for people.
        opt title: Option<String>,
    }

    /// A resource template whose variable is typed.
    pub struct ResourceReference tagged "type" = "ref/resource" {
        /// The template.
        req uri: String,
    }

    /// The argument that is typed.
    pub struct CompleteArgument {
        /// Its name.
        req name: String,
        /// What was typed so far.
        req value: String,
    }

    /// The arguments that are already known.
    pub struct CompleteContext {
        /// By name.
        opt arguments: Option<BTreeMap<String, String>>,
    }

    /// Parameters of `completion/complete`.
    pub struct CompleteParams {
        /// What it belongs to.
        req reference as "ref": CompleteReference,
        /// The argument.
        req argument: CompleteArgument,
        /// The other arguments.
        opt context: Option<CompleteContext>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Proposals.
    pub struct Completion {
        /// At most 100 of them.
        req values: Vec<String>,
        /// How many there are.
        opt total: Option<u64>,
        /// Whether there are more.
        opt has_more as "hasMore": Option<bool>,
    }

    /// Result of `completion/complete`.
    pub struct CompleteResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// The proposals.
        req completion: Completion,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }
}

tagged! {
    /// What a completion belongs to.
    pub enum CompleteReference by "type" {
        /// A prompt.
        "ref/prompt" => Prompt(PromptReference),
        /// A resource template.
        "ref/resource" => Resource(ResourceReference),
    }
}
