//! Completion of arguments while they are typed (MCP completion).

use std::collections::BTreeMap;

use super::{Meta, ResultType};
use crate::record::{record, tagged};

record! {
    /// A reference to a prompt.
    pub struct PromptReference tagged "type" = "ref/prompt" {
        /// The prompt.
        req name: String,
        /// The display name.
        opt title: Option<String>,
    }

    /// A reference to a resource template.
    pub struct ResourceReference tagged "type" = "ref/resource" {
        /// The template.
        req uri: String,
    }

    /// The argument to complete.
    pub struct CompleteArgument {
        /// The name.
        req name: String,
        /// The text typed so far.
        req value: String,
    }

    /// The context of a completion.
    pub struct CompleteContext {
        /// The values, by argument name.
        opt arguments: Option<BTreeMap<String, String>>,
    }

    /// Parameters of `completion/complete`.
    pub struct CompleteParams {
        /// The prompt or template that is completed.
        req reference as "ref": CompleteReference,
        /// The argument.
        req argument: CompleteArgument,
        /// The other arguments.
        opt context: Option<CompleteContext>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Completions of an argument.
    pub struct Completion {
        /// The values, at most 100.
        req values: Vec<String>,
        /// The total number.
        opt total: Option<u64>,
        /// `true` if there are more.
        opt has_more as "hasMore": Option<bool>,
    }

    /// Result of `completion/complete`.
    pub struct CompleteResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The proposals.
        req completion: Completion,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}

tagged! {
    /// The subject of a completion.
    pub enum CompleteReference by "type" {
        /// A prompt.
        "ref/prompt" => Prompt(PromptReference),
        /// A resource template.
        "ref/resource" => Resource(ResourceReference),
    }
}
