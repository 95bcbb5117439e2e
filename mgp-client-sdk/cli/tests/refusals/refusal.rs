//! Reads refusals as a caller receives them: as an error response, or as a tool result marked as an error.

use mgp_client_sdk::{Error, ToolResult};
use mgp_types::mcp::CallToolResult;
use serde_json::Value;

/// A refusal: its code, its reason and its details.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) code: i32,
    pub(crate) reason: String,
    pub(crate) details: Value,
}

impl Refused {
    #[track_caller]
    pub(crate) fn of(answer: Result<CallToolResult, Error>) -> Self {
        let error = answer.and_then(ToolResult::into_result).expect_err("the call is refused");
        let (mut code, reason) = (error.code().0, error.message().into_owned());
        let details = if let Some(result) = error.as_tool_result() {
            // A host without MGP gets the refusal as text for its model. Unless the tool has an output schema, the host
            // also gets the refusal as structured content.
            let content = result.structured_content.as_ref();
            let reply: Value = content.map_or(Value::Null, |content| content.get().unwrap());
            if content.is_none() {
                let (_, number) = reason.trim_end_matches(')').rsplit_once('(').unwrap();
                code = number.parse().unwrap();
            }
            assert!(reason.contains(&code.to_string()), "{reason}");
            assert!(reason.contains(reply["reason"].as_str().unwrap_or_default()), "{reply}");
            reply["details"].clone()
        } else {
            let recovery = error.recovery().cloned().unwrap_or_default();
            serde_json::to_value(recovery.details).unwrap()
        };
        Self { code, reason, details }
    }

    #[track_caller]
    pub(crate) fn remedy(&self) -> &str {
        self.details["remedy"].as_str().unwrap_or_else(|| panic!("no remedy: {self:?}"))
    }

    /// Checks that the refusal contains no `mgp` command: the caller may be a model with a shell, which could run it.
    #[track_caller]
    pub(crate) fn names_no_command(&self) {
        assert!(!format!("{self:?}").contains("`mgp "), "{self:?}");
    }
}
