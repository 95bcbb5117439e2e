//! Completion of arguments while they are typed (MCP completion).

use std::collections::BTreeMap;

use super::{Meta, ResultType};
use crate::record::{record, tagged};

record! {
    /// A reference to a prompt.
    pub struct PromptReference tagged "type" = "ref/prompt" {
        /// The name of the prompt.
        req name: String,
        /// The display name of the prompt.
        opt title: Option<String>,
    }

    /// A reference to a resource template.
    pub struct ResourceReference tagged "type" = "ref/resource" {
        /// The URI of the resource, or its URI template.
        req uri: String,
    }

    /// The argument to complete, with the text typed so far.
    pub struct CompleteArgument {
        /// The name of the argument.
        req name: String,
        /// The text typed so far.
        req value: String,
    }

    /// Arguments that already have a value.
    pub struct CompleteContext {
        /// The values, by argument name.
        opt arguments: Option<BTreeMap<String, String>>,
    }

    /// Parameters of `completion/complete`.
    pub struct CompleteParams {
        /// The prompt or resource template whose argument is completed.
        req reference as "ref": CompleteReference,
        /// The argument to complete.
        req argument: CompleteArgument,
        /// The arguments that already have a value.
        opt context: Option<CompleteContext>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Completions of an argument.
    pub struct Completion {
        /// The proposed values, at most 100.
        req values read nullable: Vec<String>,
        /// The total number of matching values.
        opt total read whole: Option<u64>,
        /// `true` if there are more values than those in `values`.
        opt has_more as "hasMore": Option<bool>,
    }

    /// Result of `completion/complete`.
    pub struct CompleteResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The proposed completions.
        req completion: Completion,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}

tagged! {
    /// The prompt or resource template whose argument is completed.
    pub enum CompleteReference by "type" {
        /// A prompt.
        "ref/prompt" => Prompt(PromptReference),
        /// A resource template.
        "ref/resource" => Resource(ResourceReference),
    }
}

impl CompleteReference {
    /// Creates a reference to the prompt `name`.
    #[must_use]
    pub fn prompt(name: impl Into<String>) -> Self {
        Self::Prompt(PromptReference::new(name))
    }

    /// Creates a reference to a resource template, or to a resource, by its URI.
    #[must_use]
    pub fn resource(uri: impl Into<String>) -> Self {
        Self::Resource(ResourceReference::new(uri))
    }
}
