//! Prompts (MCP prompts).
//!
//! Applies to: both.

use std::collections::BTreeMap;

use super::{CacheScope, ContentBlock, Icon, InputResponses, Meta, ResultType, Role};
use crate::record::{List, record};

record! {
    /// An argument of a prompt.
    pub struct PromptArgument {
        /// Name for programs.
        req name: String,
        /// Name for people.
        opt title: Option<String>,
        /// What it is.
        opt description: Option<String>,
        /// Whether it must be given.
        opt required: Option<bool>,
    }

    /// A prompt as a server lists it.
    pub struct Prompt {
        /// Name for programs.
        req name: String,
        /// Name for people.
        opt title: Option<String>,
        /// What it is for.
        opt description: Option<String>,
        /// Its arguments.
        list arguments: List<PromptArgument>,
        /// Pictures.
        list icons: List<Icon>,
        /// Beside the prompt.
        opt meta as "_meta": Option<Meta>,
    }

    /// One message of a prompt.
    pub struct PromptMessage {
        /// Who speaks.
        req role: Role,
        /// What is said.
        req content: ContentBlock,
    }

    /// Result of `prompts/list`.
    pub struct ListPromptsResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// The prompts.
        req prompts: Vec<Prompt>,
        /// Where to go on.
        opt next_cursor as "nextCursor": Option<String>,
        /// How long the list holds, in milliseconds.
        opt ttl_ms as "ttlMs": Option<u64>,
        /// Who may keep it.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `prompts/get`.
    pub struct GetPromptParams {
        /// The prompt.
        req name: String,
        /// Its arguments.
        opt arguments: Option<BTreeMap<String, String>>,
        /// What the server asked for in the round before (2026-07-28).
        opt input_responses as "inputResponses": Option<InputResponses>,
        /// What the server wants back as it was (2026-07-28).
        opt request_state as "requestState": Option<String>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `prompts/get` when it is complete.
    pub struct GetPromptResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// What it is for.
        opt description: Option<String>,
        /// The messages.
        req messages: Vec<PromptMessage>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }
}
