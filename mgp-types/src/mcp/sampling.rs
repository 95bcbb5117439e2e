//! Sampling: a server requests a completion by the client's model (MCP sampling).

use super::{ContentBlock, Meta, ResultType, Role, TaskAugmentation, Tool};
use crate::record::{List, Number, OneOrMany, RawObject, record};

record! {
    /// A message for the model.
    pub struct SamplingMessage {
        /// The speaker of the message.
        req role: Role,
        /// The content: one block or, since 2025-11-25, a list.
        req content: OneOrMany<ContentBlock>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// A hint for the choice of the model.
    pub struct ModelHint {
        /// A part of the name of a suitable model.
        opt name: Option<String>,
    }

    /// The server's preferences for a model.
    pub struct ModelPreferences {
        /// Hints, best first.
        list hints: List<ModelHint>,
        /// The importance of low cost, from 0 to 1.
        opt cost_priority as "costPriority": Option<Number>,
        /// The importance of speed, from 0 to 1.
        opt speed_priority as "speedPriority": Option<Number>,
        /// The importance of capability, from 0 to 1.
        opt intelligence_priority as "intelligencePriority": Option<Number>,
    }

    /// The rule about the model's use of tools.
    pub struct ToolChoice {
        /// `auto`, `required` or `none`.
        opt mode: Option<String>,
    }

    /// Parameters of `sampling/createMessage`.
    pub struct CreateMessageParams {
        /// The messages of the conversation so far.
        req messages: Vec<SamplingMessage>,
        /// The server's preferences for the choice of the model.
        opt model_preferences as "modelPreferences": Option<ModelPreferences>,
        /// The system prompt.
        opt system_prompt as "systemPrompt": Option<String>,
        /// The MCP context to include in the prompt: `none`, `thisServer` or `allServers`.
        opt include_context as "includeContext": Option<String>,
        /// The sampling temperature.
        opt temperature: Option<Number>,
        /// The maximum number of tokens in the completion.
        req max_tokens as "maxTokens" read whole: u64,
        /// Texts that end the completion when the model writes one of them.
        list stop_sequences as "stopSequences": List<String>,
        /// Metadata for the provider of the model.
        opt metadata: Option<RawObject>,
        /// The tools that the model is allowed to use (MCP 2025-11-25).
        list tools: List<Tool>,
        /// The rule about the model's use of the tools.
        opt tool_choice as "toolChoice": Option<ToolChoice>,
        /// If set, the request runs as a task (MCP 2025-11-25).
        opt task: Option<TaskAugmentation>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `sampling/createMessage`.
    pub struct CreateMessageResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The speaker of the message.
        req role: Role,
        /// The content of the message.
        req content: OneOrMany<ContentBlock>,
        /// The name of the model that was used.
        req model: String,
        /// The reason why the model stopped.
        opt stop_reason as "stopReason": Option<String>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}

impl SamplingMessage {
    /// Returns the text of the message; other kinds of blocks are skipped.
    #[must_use]
    pub fn to_text(&self) -> String {
        text_of(&self.content)
    }
}

impl CreateMessageResult {
    /// Creates a message of the model that consists of one text block.
    #[must_use]
    pub fn text(text: impl Into<String>, model: impl Into<String>) -> Self {
        Self::new(Role::Assistant, ContentBlock::text(text), model)
    }

    /// Returns the text of the message; other kinds of blocks are skipped.
    #[must_use]
    pub fn to_text(&self) -> String {
        text_of(&self.content)
    }
}

fn text_of(content: &OneOrMany<ContentBlock>) -> String {
    content.as_slice().iter().filter_map(ContentBlock::as_text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_blocks_are_joined() {
        let text_of = |content: &str| {
            let text = format!(r#"{{"role":"assistant","model":"m","content":{content}}}"#);
            serde_json::from_str::<CreateMessageResult>(&text).unwrap().to_text()
        };
        assert_eq!(text_of(r#"{"type":"text","text":"one"}"#), "one");
        let use_of = r#"{"type":"tool_use","id":"1","name":"t","input":{}}"#;
        let blocks =
            format!(r#"[{{"type":"text","text":"a"}},{use_of},{{"type":"text","text":"b"}}]"#);
        assert_eq!(text_of(&blocks), "ab");
        let question = SamplingMessage::new(Role::User, ContentBlock::text("two"));
        assert_eq!(question.to_text(), "two");
    }
}
