//! Tools: the list and the call (MCP tools, MGP §4.2, §12.3, §12.5).
//!
//! Applies to: both.

use super::{
    CacheScope, ContentBlock, Icon, InputResponses, Meta, ResultType, TaskAugmentation, key,
};
use crate::Payload;
use crate::mgp::{CallExtension, ResultExtension, ToolSecurity};
use crate::record::{Lenient, List, RawObject, decode, open_enum, record};

open_enum! {
    /// Whether a tool may run as a task (2025-11-25).
    pub enum TaskSupport {
        /// It must not.
        Forbidden = "forbidden",
        /// The caller chooses.
        Optional = "optional",
        /// It must.
        Required = "required",
    }
}

record! {
    /// Hints on what a tool does; they come from the server and are not to be trusted.
    pub struct ToolAnnotations {
        /// Name for people.
        opt title: Option<String>,
        /// It changes nothing.
        opt read_only_hint as "readOnlyHint": Option<bool>,
        /// It may destroy.
        opt destructive_hint as "destructiveHint": Option<bool>,
        /// Twice is the same as once.
        opt idempotent_hint as "idempotentHint": Option<bool>,
        /// It reaches into the world outside.
        opt open_world_hint as "openWorldHint": Option<bool>,
    }

    /// How a tool runs (2025-11-25).
    pub struct ToolExecution {
        /// Whether it may run as a task.
        opt task_support as "taskSupport": Option<TaskSupport>,
    }

    /// A tool as a server lists it (§4.2).
    pub struct Tool {
        /// Name for programs.
        req name: String,
        /// Name for people.
        opt title: Option<String>,
        /// What it does.
        opt description: Option<String>,
        /// JSON Schema of the arguments.
        req input_schema as "inputSchema": RawObject,
        /// JSON Schema of the structured content.
        opt output_schema as "outputSchema": Option<RawObject>,
        /// Hints.
        opt annotations: Option<ToolAnnotations>,
        /// How it runs.
        opt execution: Option<ToolExecution>,
        /// Pictures.
        list icons: List<Icon>,
        /// What it does to the world (MGP); malformed counts as absent, which counts as dangerous.
        opt security: Option<Lenient<ToolSecurity>>,
        /// Beside the tool.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `tools/list`.
    pub struct ListToolsResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// The tools.
        req tools: Vec<Tool>,
        /// Where to go on.
        opt next_cursor as "nextCursor": Option<String>,
        /// How long the list holds, in milliseconds.
        opt ttl_ms as "ttlMs": Option<u64>,
        /// Who may keep it.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `tools/call`.
    pub struct CallToolParams {
        /// The tool.
        req name: String,
        /// Its arguments.
        opt arguments: Option<RawObject>,
        /// Run it as a task (2025-11-25).
        opt task: Option<TaskAugmentation>,
        /// What the server asked for in the round before (2026-07-28).
        opt input_responses as "inputResponses": Option<InputResponses>,
        /// What the server wants back as it was (2026-07-28).
        opt request_state as "requestState": Option<String>,
        /// The trace of the call (§6.5).
        opt trace_id: Option<String>,
        /// MGP members (§12.3).
        opt mgp as "_mgp": Option<CallExtension>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `tools/call` when it is complete.
    pub struct CallToolResult {
        /// How to read the result.
        opt result_type as "resultType": Option<ResultType>,
        /// What the tool says.
        req content: Vec<ContentBlock>,
        /// The same as data.
        opt structured_content as "structuredContent": Option<Payload>,
        /// Whether the tool failed.
        opt is_error as "isError": Option<bool>,
        /// MGP members (§12.5).
        opt mgp as "_mgp": Option<ResultExtension>,
        /// Beside the message.
        opt meta as "_meta": Option<Meta>,
    }
}

impl Tool {
    /// The security metadata: `security`, else its mirror `_meta["dev.cloto/mgp"].security`.
    #[must_use]
    pub fn find_security(&self) -> Option<Lenient<ToolSecurity>> {
        if self.security.is_some() {
            return self.security.clone();
        }
        let mirror = self.meta.as_ref()?.get(key::MGP)?;
        let mirror: crate::Extras = decode::<_, serde_json::Error>(mirror).ok()?;
        decode::<_, serde_json::Error>(mirror.get("security")?).ok()
    }
}

impl CallToolResult {
    /// Makes a result of one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![ContentBlock::text(text)])
    }

    /// Makes a failed result of one text.
    #[must_use]
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: Some(true), ..Self::text(text) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mgp::RiskLevel;

    #[track_caller]
    fn check(rest: &str, expected: Option<&RiskLevel>) {
        let text = format!(r#"{{"name":"t","inputSchema":{{}}{rest}}}"#);
        let tool: Tool = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&tool).unwrap(), text);
        let found = tool.find_security();
        let found = found.as_ref().and_then(Lenient::valid);
        assert_eq!(found.map(|security| &security.risk_level), expected, "{text}");
    }

    #[test]
    fn security_is_found_in_two_places() {
        check("", None);
        check(r#","security":{"risk_level":"safe"}"#, Some(&RiskLevel::Safe));
        let mirror = r#","_meta":{"dev.cloto/mgp":{"security":{"risk_level":"moderate"}}}"#;
        check(mirror, Some(&RiskLevel::Moderate));
        // What is malformed is not replaced by a milder mirror.
        check(&format!(r#","security":{{}}{mirror}"#), None);
    }
}
