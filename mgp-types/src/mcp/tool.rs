//! Tools: the list and the call (MCP tools, MGP §4.2, §12.3, §12.5).

use super::{
    CacheScope, ContentBlock, Icon, InputResponses, Meta, ResultType, TaskAugmentation, key,
};
use crate::Payload;
use crate::mgp::{CallExtension, ResultExtension, ToolSecurity};
use crate::record::{Lenient, List, RawObject, decode, open_enum, record};

open_enum! {
    /// The rule about running a tool as a task (MCP 2025-11-25).
    pub enum TaskSupport {
        /// The tool must not run as a task.
        Forbidden = "forbidden",
        /// The caller decides whether the tool runs as a task.
        Optional = "optional",
        /// The tool must run as a task.
        Required = "required",
    }

    /// The effect that a tool declares for a repeated call with the same arguments: `_meta.idempotency`.
    pub enum ToolIdempotency {
        /// A repeated call has no further effect.
        Yes = "yes",
        /// A repeated call has a further effect.
        No = "no",
        /// A repeated call has a further effect in some cases; the tool does not declare in which cases.
        Partial = "partial",
    }
}

record! {
    /// Hints on the behaviour of a tool. They come from the server, so they must not loosen a rule unless the operator
    /// trusts the server.
    pub struct ToolAnnotations {
        /// The display name of the tool.
        opt title: Option<String>,
        /// `true` if the tool does not change its environment.
        opt read_only_hint as "readOnlyHint" read flag: Option<bool>,
        /// `true` if the tool can destroy data.
        opt destructive_hint as "destructiveHint" read flag: Option<bool>,
        /// `true` if a repeated call has no further effect.
        opt idempotent_hint as "idempotentHint" read flag: Option<bool>,
        /// `true` if the tool interacts with external systems.
        opt open_world_hint as "openWorldHint" read flag: Option<bool>,
    }

    /// The way a tool runs (MCP 2025-11-25).
    pub struct ToolExecution {
        /// The tool's support for tasks.
        opt task_support as "taskSupport": Option<TaskSupport>,
    }

    /// A tool as a server lists it (§4.2).
    pub struct Tool {
        /// The name that identifies the tool.
        req name: String,
        /// The display name of the tool.
        opt title: Option<String>,
        /// A description of the tool.
        opt description: Option<String>,
        /// JSON Schema of the arguments.
        req input_schema as "inputSchema" read schema: RawObject,
        /// JSON Schema of the structured content.
        opt output_schema as "outputSchema" read schema: Option<RawObject>,
        /// Hints on the behaviour of the tool.
        opt annotations read object: Option<ToolAnnotations>,
        /// The way the tool runs.
        opt execution read object: Option<ToolExecution>,
        /// The icons of the tool.
        list icons: List<Icon>,
        /// The security metadata (MGP). A tool with a malformed value is dangerous. A tool without a value is dangerous
        /// too, unless its annotations declare a lower risk and the operator trusts the server.
        opt security: Option<Lenient<ToolSecurity>>,
        /// The `_meta` member.
        opt meta as "_meta" read object: Option<Meta>,
    }

    /// Result of `tools/list`.
    pub struct ListToolsResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// The tools.
        req tools read nullable: Vec<Tool>,
        /// The cursor with which to request the next page; absent on the last page.
        opt next_cursor as "nextCursor" read cursor: Option<String>,
        /// The time for which the list stays fresh, in milliseconds.
        opt ttl_ms as "ttlMs" read whole: Option<u64>,
        /// The caches that are allowed to store the result.
        opt cache_scope as "cacheScope": Option<CacheScope>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `tools/call`.
    pub struct CallToolParams {
        /// The name of the tool.
        req name: String,
        /// The arguments of the call.
        opt arguments read object: Option<RawObject>,
        /// If set, the request runs as a task (MCP 2025-11-25).
        opt task: Option<TaskAugmentation>,
        /// The client's answers to the requests for input in the server's previous result (MCP 2026-07-28).
        opt input_responses as "inputResponses": Option<InputResponses>,
        /// The `requestState` of the server's previous result, unchanged (MCP 2026-07-28).
        opt request_state as "requestState": Option<String>,
        /// The trace id of the call (§6.5).
        opt trace_id: Option<String>,
        /// MGP members (§12.3).
        opt mgp as "_mgp": Option<CallExtension>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Parameters of `tools/validate` (an addition to MCP).
    pub struct ValidateToolParams {
        /// The name of the tool.
        req name: String,
        /// The arguments to check.
        opt arguments: Option<RawObject>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// One reason why arguments do not fit the input schema of a tool.
    pub struct ArgumentError {
        /// The path of the wrong argument, with dots between names; empty if the arguments as a whole are wrong.
        req field: String,
        /// The keyword of the JSON Schema that the argument violates, e.g. `required`.
        req error_type: String,
        /// The reason why the argument does not fit.
        req message: String,
    }

    /// Result of `tools/validate`.
    pub struct ValidateToolResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        /// `true` if the arguments fit the input schema of the tool.
        req valid: bool,
        /// All reasons why the arguments do not fit.
        req errors: Vec<ArgumentError>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }

    /// Result of `tools/call` when it is complete.
    pub struct CallToolResult {
        /// The kind of result.
        opt result_type as "resultType": Option<ResultType>,
        // Some servers send only structured content, without the member `content`, so an absent member is read as an
        // empty list.
        /// The content blocks, for the model.
        seq content: Vec<ContentBlock>,
        /// The result as JSON, as described by the tool's `outputSchema`.
        opt structured_content as "structuredContent": Option<Payload>,
        /// `true` if the tool failed.
        opt is_error as "isError": Option<bool>,
        /// MGP members (§12.5).
        opt mgp as "_mgp": Option<ResultExtension>,
        /// The `_meta` member.
        opt meta as "_meta": Option<Meta>,
    }
}

impl Tool {
    /// Sets the description.
    ///
    /// ```
    /// use mgp_types::RawObject;
    /// use mgp_types::mcp::Tool;
    ///
    /// let tool = Tool::new("now", RawObject::empty()).description("The time");
    /// assert_eq!(tool.description.as_deref(), Some("The time"));
    /// ```
    #[must_use]
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Returns the security metadata: the member `security` or, if it is absent, `_meta["dev.cloto/mgp"].security`.
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
    /// Creates a result that consists of one text block.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::new(vec![ContentBlock::text(text)])
    }

    /// Creates a failed result that consists of one text block.
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
    fn a_result_with_structured_content_only_is_read() {
        for text in [
            r#"{"structuredContent":{"a":1}}"#,
            r#"{"content":null,"structuredContent":{"a":1},"isError":null}"#,
        ] {
            let result: CallToolResult = serde_json::from_str(text).unwrap();
            assert!(result.content.is_empty(), "{text}");
            assert_eq!(result.structured_content.unwrap().as_str(), r#"{"a":1}"#);
        }
    }

    #[test]
    fn a_tool_whose_empty_objects_are_lists_and_whose_flags_are_numbers_is_read() {
        let text = r#"{"name":"t","inputSchema":[],"outputSchema":null,
            "annotations":{"readOnlyHint":1,"destructiveHint":0},"_meta":[]}"#;
        let tool: Tool = serde_json::from_str(text).unwrap();
        let hints = r#"{"readOnlyHint":true,"destructiveHint":false}"#;
        assert_eq!(
            serde_json::to_string(&tool).unwrap(),
            format!(r#"{{"name":"t","inputSchema":{{}},"annotations":{hints},"_meta":{{}}}}"#)
        );
        for (schema, fitted) in [
            (
                r#"{"properties":{"a":{"properties":[]},"b":[],"c":{"default":[]}},"required":[]}"#,
                r#"{"properties":{"a":{"properties":{}},"b":{},"c":{"default":[]}},"required":[]}"#,
            ),
            (
                r#"{"type":"object","$defs":null,"properties":{"default":null,"a":{"default":null,"items": null}}}"#,
                r#"{"type":"object","properties":{"default":{},"a":{"default":null}}}"#,
            ),
            ("{\"properties\" :\n[]}", r#"{"properties":{}}"#),
        ] {
            let text = format!(r#"{{"name":"t","inputSchema":{schema},"outputSchema":{schema}}}"#);
            let tool: Tool = serde_json::from_str(&text).unwrap();
            let expected: serde_json::Value = serde_json::from_str(fitted).unwrap();
            for read in [&tool.input_schema, tool.output_schema.as_ref().unwrap()] {
                assert_eq!(read.get::<serde_json::Value>().unwrap(), expected);
            }
        }
        for wrong in [
            r#"{"name":"t"}"#,
            r#"{"name":"t","inputSchema":null}"#,
            r#"{"name":"t","inputSchema":[1]}"#,
            r#"{"name":"t","inputSchema":{},"annotations":[1]}"#,
            r#"{"name":"t","inputSchema":{},"annotations":{"readOnlyHint":2}}"#,
        ] {
            assert!(serde_json::from_str::<Tool>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn security_is_found_in_two_places() {
        check("", None);
        check(r#","security":{"risk_level":"safe"}"#, Some(&RiskLevel::Safe));
        let mirror = r#","_meta":{"dev.cloto/mgp":{"security":{"risk_level":"moderate"}}}"#;
        check(mirror, Some(&RiskLevel::Moderate));
        // A malformed `security` is not replaced by its copy in `_meta`, because the copy may declare a lower risk.
        check(&format!(r#","security":{{}}{mirror}"#), None);
    }
}
