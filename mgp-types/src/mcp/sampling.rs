//! Sampling: a server asks the client's model (MCP sampling).
//!
//! Applies to: both.

use super::{ContentBlock, Meta, ResultType, Role, TaskAugmentation, Tool};
use crate::record::{List, Number, OneOrMany, RawObject, record};

record! {
    /// One message for the model.
    pub struct SamplingMessage {
        /// Who speaks.
        req role: Role,
        /// What is said: one block, or a list since 2025-11-25.
        req content: OneOrMany<ContentBlock>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// A hint at a model.
    pub struct ModelHint {
        /// Part of its name.
        opt name: Option<String>,
    }

    /// Which model the server would like.
    pub struct ModelPreferences {
        /// Hints, best first.
        list hints: List<ModelHint>,
        /// How much cost matters, 0 to 1.
        opt cost_priority as "costPriority": Option<Number>,
        /// How much speed matters, 0 to 1.
        opt speed_priority as "speedPriority": Option<Number>,
        /// How much intelligence matters, 0 to 1.
        opt intelligence_priority as "intelligencePriority": Option<Number>,
    }

    /// Whether the model may use tools.
    pub struct ToolChoice {
        /// `auto`, `required` or `none`.
        opt mode: Option<String>,
    }

    /// Parameters of `sampling/createMessage`.
    pub struct CreateMessageParams {
        /// The conversation.
        req messages: Vec<SamplingMessage>,
        /// Which model.
        opt model_preferences as "modelPreferences": Option<ModelPreferences>,
        /// What the model is told first.
        opt system_prompt as "systemPrompt": Option<String>,
        /// `none`, `thisServer` or `allServers`.
        opt include_context as "includeContext": Option<String>,
        /// How much chance.
        opt temperature: Option<Number>,
        /// How many tokens at most.
        req max_tokens as "maxTokens": u64,
        /// Where to stop.
        list stop_sequences as "stopSequences": List<String>,
        /// For the provider.
        opt metadata: Option<RawObject>,
        /// Tools the model may use (2025-11-25).
        list tools: List<Tool>,
        /// Whether it must use them.
        opt tool_choice as "toolChoice": Option<ToolChoice>,
        /// Run it as a task (2025-11-25).
        opt task: Option<TaskAugmentation>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `sampling/createMessage`.
    pub struct CreateMessageResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// Who speaks.
        req role: Role,
        /// What is said.
        req content: OneOrMany<ContentBlock>,
        /// The model that spoke.
        req model: String,
        /// Why it stopped.
        opt stop_reason as "stopReason": Option<String>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }
}

impl CreateMessageResult {
    /// What the model said in text; blocks of other kinds are left out.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.content.as_slice().iter().filter_map(ContentBlock::as_text).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_says_in_text_is_joined() {
        let said = |content: &str| {
            let text = format!(r#"{{"role":"assistant","model":"m","content":{content}}}"#);
            serde_json::from_str::<CreateMessageResult>(&text).unwrap().to_text()
        };
        assert_eq!(said(r#"{"type":"text","text":"one"}"#), "one");
        let use_of = r#"{"type":"tool_use","id":"1","name":"t","input":{}}"#;
        let blocks =
            format!(r#"[{{"type":"text","text":"a"}},{use_of},{{"type":"text","text":"b"}}]"#);
        assert_eq!(said(&blocks), "ab");
    }
}
