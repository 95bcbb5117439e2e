//! Rules about members that an example must have although the decoders do not require them.

use serde_json::Value;

use super::SpecError;
use crate::mgp;

/// A rule about one member of an example. The member is given by its path: segments are separated by `/`, and `*` means
/// every element of a list.
enum Rule {
    /// The member must be present.
    Has(&'static str),
    /// The member, if present, must be an object.
    Object(&'static str),
    /// The member, if present, must be valid security metadata, or an abbreviation such as `{"...": …}`.
    Security(&'static str),
    /// The member, if present, must be a valid MGP capability.
    Mgp(&'static str),
}

use Rule::{Has, Mgp, Object, Security};

/// Returns the rules for examples of a type. Members that §4.3 and §2.3 call optional need no rule.
fn rules(name: &str) -> &'static [Rule] {
    match name {
        "InitializeParams" | "InitializeResult" | "DiscoverResult" => &[Mgp("capabilities/mgp")],
        "PermissionRequestParams" => &[Has("policy"), Has("message")],
        "PermissionDecision" => &[Has("approved_by"), Has("expires_at")],
        "Tool" => &[Has("security"), Security("security")],
        "ListToolsResult" => &[Security("tools/*/security")],
        "AccessQueryParams" => &[Has("tool_name")],
        "AccessGrantParams" => &[Has("granted_by"), Has("justification")],
        "AuditEvent" => &[Has("trace_id"), Has("target"), Has("details"), Object("details")],
        "ToolDeclaration" => &[Has("security/code_safety")],
        "CodeRejection" => &[Has("violations"), Has("hints")],
        _ => lifecycle_rules(name),
    }
}

fn lifecycle_rules(name: &str) -> &'static [Rule] {
    match name {
        "PingParams" => &[Has("timestamp")],
        "PingResult" => &[Has("timestamp"), Has("uptime_secs"), Has("server_id")],
        "StatusResult" => &[
            Has("uptime_secs"),
            Has("tools_available"),
            Has("tools_total"),
            Has("pending_requests"),
            Has("resources"),
            Has("checks"),
        ],
        "ShutdownParams" => &[Has("reason"), Has("timeout_ms")],
        "ShutdownResult" => &[Has("pending_requests"), Has("estimated_drain_ms")],
        "LifecycleParams" => {
            &[Has("server_id"), Has("previous_state"), Has("reason"), Has("timestamp")]
        }
        "RestartConfig" => &[
            Has("restart_policy"),
            Has("max_restarts"),
            Has("restart_window_secs"),
            Has("backoff_base_ms"),
            Has("backoff_max_ms"),
        ],
        "StreamProgressParams" => &[Has("message"), Has("estimated_remaining_ms")],
        "CancelParams" | "DeregisterParams" | "EvictParams" => &[Has("reason")],
        "EventParams" => &[Has("timestamp"), Object("data")],
        "CallbackRequestParams" => {
            &[Has("request_id"), Has("message"), Has("options"), Has("timeout_ms")]
        }
        "Recovery" => &[Has("category"), Has("retryable")],
        _ => discovery_rules(name),
    }
}

fn discovery_rules(name: &str) -> &'static [Rule] {
    match name {
        "DiscoveryListResult" => &[Has("servers/*/tools")],
        "RegisterParams" => &[
            Has("command"),
            Has("args"),
            Has("transport"),
            Has("created_by"),
            Has("justification"),
        ],
        "IndexEntry" => &[
            Has("description"),
            Has("categories"),
            Has("keywords"),
            Has("security"),
            Security("security"),
        ],
        "DiscoverToolsParams" => &[Has("query")],
        "DiscoverToolsResult" => &[
            Has("total_available"),
            Has("search_strategy"),
            Has("query_time_ms"),
            Has("tools/*/description"),
            Has("tools/*/relevance_score"),
            Has("tools/*/security"),
            Security("tools/*/security"),
        ],
        "RequestToolsParams" => &[Has("reason"), Has("context"), Has("task_trace_id")],
        "RequestToolsResult" => &[
            Has("session_tools_count"),
            Has("context_tokens_added"),
            Has("tools_loaded/*/security"),
            Security("tools_loaded/*/security"),
        ],
        "SessionResult" => &[Has("total_tokens"), Has("max_tokens")],
        _ => &[],
    }
}

pub(super) fn check(name: &'static str, value: &Value) -> Result<(), SpecError> {
    // The result without a list of entries describes the decision about a single tool, and must have these members
    // instead.
    if name == "AccessQueryResult" && value.get("entries").is_none() {
        let members = ["permission", "source", "granted_by", "granted_at", "expires_at"];
        return members.iter().try_for_each(|path| apply(name, value, &Has(path)));
    }
    rules(name).iter().try_for_each(|rule| apply(name, value, rule))
}

fn apply(name: &'static str, value: &Value, rule: &Rule) -> Result<(), SpecError> {
    let (path, fits): (&str, fn(Option<&Value>) -> bool) = match rule {
        Has(path) => (path, |member| member.is_some()),
        Object(path) => (path, |member| member.is_none_or(Value::is_object)),
        Security(path) => (path, |member| {
            member.is_none_or(|member| {
                member.get("...").is_some()
                    || serde_json::from_str::<mgp::ToolSecurity>(&member.to_string()).is_ok()
            })
        }),
        Mgp(path) => (path, |member| {
            member.is_none_or(|member| {
                serde_json::from_str::<mgp::MgpCapability>(&member.to_string()).is_ok()
            })
        }),
    };
    if walk(Some(value), path, fits) {
        Ok(())
    } else {
        Err(SpecError::Missing { name, path: path.to_owned() })
    }
}

fn walk(value: Option<&Value>, path: &str, fits: fn(Option<&Value>) -> bool) -> bool {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    match first {
        "" => fits(value),
        "*" => {
            let values = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            values.iter().all(|value| walk(Some(value), rest, fits))
        }
        name => walk(value.and_then(|value| value.get(name)), rest, fits),
    }
}
