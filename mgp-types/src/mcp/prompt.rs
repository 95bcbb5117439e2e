//! Prompts (MCP prompts).

use std::collections::BTreeMap;

use super::{CacheScope, ContentBlock, Icon, InputResponses, Meta, ResultType, Role};
use crate::record::{List, record};

record! {
    /// An argument of a prompt.
    pub struct PromptArgument {
        /// The identifier.
        req name: String,
        /// The display name.
        opt title: Option<String>,
        /// A description.
        opt description: Option<String>,
        /// `true` if the argument is required.
        opt required: Option<bool>,
    }

    /// A prompt as a server lists it.
    pub struct Prompt {
        /// The identifier.
        req name: String,
        /// The display name.
        opt title: Option<String>,
        /// A description.
        opt description: Option<String>,
        /// The arguments.
        list arguments: List<PromptArgument>,
        /// The icons.
        list icons: List<Icon>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// A message of a prompt.
    pub struct PromptMessage {
        /// The speaker of a message.
        req role: Role,
        /// The content.
        req content: ContentBlock,
    }

    /// Result of `prompts/list`.
    pub struct ListPromptsResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The prompts.
        req prompts: Vec<Prompt>,
        /// The position of the next page, if there is one.
        opt next_cursor as "nextCursor": Option<String>,
        /// The time the list stays fresh, in milliseconds.
        opt ttl_ms as "ttlMs": Option<u64>,
        /// The caches that may store the result.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `prompts/get`.
    pub struct GetPromptParams {
        /// The prompt.
        req name: String,
        /// The values of the arguments, by name.
        opt arguments: Option<BTreeMap<String, String>>,
        /// Answers to the server's requests of the previous round (2026-07-28).
        opt input_responses as "inputResponses": Option<InputResponses>,
        /// The server's state of the previous round, unchanged (2026-07-28).
        opt request_state as "requestState": Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `prompts/get` when it is complete.
    pub struct GetPromptResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// A description.
        opt description: Option<String>,
        /// The messages.
        req messages: Vec<PromptMessage>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}
