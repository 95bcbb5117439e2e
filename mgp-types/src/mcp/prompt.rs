//! Prompts (MCP prompts).

use std::collections::BTreeMap;

use super::{CacheScope, ContentBlock, Icon, InputResponses, Meta, ResultType, Role};
use crate::record::{List, record};

record! {
    /// An argument of a prompt.
    pub struct PromptArgument {
        /// The name that identifies the argument.
        req name: String,
        /// The display name of the argument.
        opt title: Option<String>,
        /// A description of the argument.
        opt description: Option<String>,
        /// `true` if the argument is required.
        opt required: Option<bool>,
    }

    /// A prompt as a server lists it.
    pub struct Prompt {
        /// The name that identifies the prompt.
        req name: String,
        /// The display name of the prompt.
        opt title: Option<String>,
        /// A description of the prompt.
        opt description: Option<String>,
        /// The arguments of the prompt.
        list arguments: List<PromptArgument>,
        /// The icons of the prompt.
        list icons: List<Icon>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// A message of a prompt.
    pub struct PromptMessage {
        /// The speaker of the message.
        req role: Role,
        /// The content of the message.
        req content: ContentBlock,
    }

    /// Result of `prompts/list`.
    pub struct ListPromptsResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The prompts.
        req prompts read nullable: Vec<Prompt>,
        /// The cursor with which to request the next page; absent on the last page.
        opt next_cursor as "nextCursor" read cursor: Option<String>,
        /// The time for which the list stays fresh, in milliseconds.
        opt ttl_ms as "ttlMs" read whole: Option<u64>,
        /// The caches that are allowed to store the result.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `prompts/get`.
    pub struct GetPromptParams {
        /// The name of the prompt.
        req name: String,
        /// The values of the arguments, by name.
        opt arguments: Option<BTreeMap<String, String>>,
        /// The client's answers to the requests for input in the server's previous result (MCP 2026-07-28).
        opt input_responses as "inputResponses": Option<InputResponses>,
        /// The `requestState` of the server's previous result, unchanged (MCP 2026-07-28).
        opt request_state as "requestState": Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `prompts/get` when it is complete.
    pub struct GetPromptResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// A description of the prompt.
        opt description: Option<String>,
        /// The messages of the prompt.
        req messages read nullable: Vec<PromptMessage>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}

impl PromptMessage {
    /// Creates a message of the user that consists of text.
    ///
    /// ```
    /// use mgp_types::mcp::{PromptMessage, Role};
    ///
    /// let messages = [PromptMessage::user("2 + 2?"), PromptMessage::assistant("4")];
    /// assert_eq!(messages.map(|message| message.role), [Role::User, Role::Assistant]);
    /// ```
    #[must_use]
    pub fn user(text: impl Into<String>) -> Self {
        Self::new(Role::User, ContentBlock::text(text))
    }

    /// Creates a message of the model that consists of text.
    #[must_use]
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::new(Role::Assistant, ContentBlock::text(text))
    }
}
