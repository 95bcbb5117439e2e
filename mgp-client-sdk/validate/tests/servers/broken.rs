//! Tests of servers that break a single rule: the judge must name that rule and no other.

#![expect(clippy::semicolon_if_nothing_returned, reason = "one assignment a row")]
#![expect(clippy::needless_pass_by_value, reason = "values are written in place")]

use std::collections::HashSet;
use std::future::ready;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use mgp_validate::rules;
use serde_json::{Value, json};

use crate::extensions::EXTENSIONS;
use crate::scripted::{Change, Message, server};
use crate::{broken_rules, judged, options};

/// A rule, further rules that the same fault breaks, and the fault.
pub(crate) type Row = (&'static str, &'static [&'static str], Change);

/// Changes the result of a method in the legacy era.
pub(crate) fn legacy(
    message: &Message,
    replies: &mut [Value],
    method: &str,
    change: impl FnOnce(&mut Value),
) {
    if message.method() == method && !message.is_modern {
        with_result(replies, change);
    }
}

/// Changes the result of a method in the modern era.
pub(crate) fn modern(
    message: &Message,
    replies: &mut [Value],
    method: &str,
    change: impl FnOnce(&mut Value),
) {
    if message.method() == method && message.is_modern {
        with_result(replies, change);
    }
}

/// Changes the result of a method of MGP, or of a method of MCP with MGP, in the legacy era.
fn with_mgp(
    message: &Message,
    replies: &mut [Value],
    method: &str,
    change: impl FnOnce(&mut Value),
) {
    if message.has_mgp {
        legacy(message, replies, method, change);
    }
}

fn with_result(replies: &mut [Value], change: impl FnOnce(&mut Value)) {
    if let Some(result) = replies.iter_mut().find_map(|reply| reply.get_mut("result")) {
        change(result);
    }
}

/// Answers with a result in place of an error.
pub(crate) fn succeed(message: &Message, replies: &mut Vec<Value>, result: Value) {
    *replies = vec![json!({ "jsonrpc": "2.0", "id": message.value["id"], "result": result })];
}

fn param<'a>(message: &'a Message, pointer: &str) -> Option<&'a Value> {
    message.value["params"].pointer(pointer)
}

/// Sets the members at a path, e.g. `tools.1.name`; `*` is every item of a list.
pub(crate) fn set(value: &mut Value, path: &str, new: &Value) {
    let (name, rest) = path.split_once('.').unwrap_or((path, ""));
    match name.parse::<usize>() {
        _ if name.is_empty() => *value = new.clone(),
        _ if name == "*" => {
            for item in value.as_array_mut().into_iter().flatten() {
                set(item, rest, new);
            }
        }
        Ok(at) => set(&mut value[at], rest, new),
        Err(_) => set(&mut value[name], rest, new),
    }
}

/// Creates the row of a server that sets members of the result of a method.
macro_rules! sets {
    ($rule:literal, $when:ident $method:literal $path:literal = $($value:tt)+) => {
        ($rule, &[], |m, r| {
            $when(m, r, $method, |x| $crate::broken::set(x, $path, &serde_json::json!($($value)+)));
        })
    };
}
pub(crate) use sets;

pub(crate) fn is_unknown_tool(message: &Message) -> bool {
    message.method() == "tools/call" && param(message, "/name") == Some(&json!("no_such_tool_7f3a"))
}

fn streams(message: &Message) -> bool {
    message.method() == "tools/call" && param(message, "/_mgp/stream") == Some(&json!(true))
}

const BASE: &[Row] = &[
    sets!("mcp.initialize.result", legacy "initialize" "serverInfo.version" = 1),
    ("mcp.initialize.older", &[], |m, r| {
        if param(m, "/protocolVersion") == Some(&json!("2025-03-26")) {
            legacy(m, r, "initialize", |x| x["protocolVersion"] = json!("2025-03-27"));
        }
    }),
    ("mcp.initialize.unknown", &[], |m, r| {
        if param(m, "/protocolVersion") == Some(&json!("1999-01-01")) {
            legacy(m, r, "initialize", |x| x["protocolVersion"] = json!("1999-01-01"));
        }
    }),
    ("mcp.initialize.no_revision", &[], |m, r| {
        if m.method() == "initialize" && param(m, "/protocolVersion").is_none() {
            succeed(m, r, json!({}));
        }
    }),
    ("mcp.initialize.modern", &[], |m, r| {
        if param(m, "/protocolVersion") == Some(&json!("2026-07-28")) {
            legacy(m, r, "initialize", |x| x["protocolVersion"] = json!("2026-07-28"));
        }
    }),
    ("mcp.ping", &[], |m, r| legacy(m, r, "ping", |x| *x = json!({ "pong": true }))),
    ("mcp.ping", &[], |m, r| {
        if m.method() == "ping" && !m.is_modern {
            let error = json!({ "code": -32601, "message": "unknown" });
            r[0] = json!({ "jsonrpc": "2.0", "id": m.value["id"], "error": error });
        }
    }),
    ("mcp.method.unknown", &[], |m, r| {
        if m.method() == "does/not/exist" && !m.is_modern && !m.has_mgp {
            r[0]["error"]["code"] = json!(-32603);
        }
    }),
    // The Python SDK 1 answers every unknown method with this code.
    ("mcp.method.unknown", &[], |m, r| {
        let is_unknown = m.method() == "does/not/exist" || m.method().starts_with("mgp/");
        if is_unknown && !m.is_modern && !m.has_mgp {
            r[0]["error"]["code"] = json!(-32602);
        }
    }),
    ("mcp.method.unknown", &["mgp.silence.methods"], |m, r| {
        if m.is_modern || m.has_mgp {
            return;
        }
        if m.method() == "mgp/tools/discover" && param(m, "/query").is_some_and(Value::is_string) {
            succeed(m, r, json!({ "tools": [] }));
        } else if m.method() == "does/not/exist" || m.method().starts_with("mgp/") {
            r[0]["error"]["code"] = json!(-32602);
        }
    }),
    ("mcp.notification.silent", &[], |m, r| {
        if m.method() == "notifications/does/not/exist" {
            r.push(json!({ "jsonrpc": "2.0", "id": null, "error": { "code": -32601, "message": "unknown" } }));
        }
    }),
    ("mcp.request.invalid", &[], |m, r| {
        if m.value.get("id") == Some(&json!(4711)) {
            r[0]["error"]["code"] = json!(-32603);
        }
    }),
    ("mcp.parse_error", &[], |m, r| {
        if m.method() == "no JSON" {
            r.push(json!({ "end": true }));
        }
    }),
    ("mcp.tools.list", &[], |m, r| {
        if !m.has_mgp {
            legacy(m, r, "tools/list", |x| {
                x["tools"][1]["inputSchema"] = json!({ "type": "array" })
            });
        }
    }),
    ("mcp.tools.unique", &[], |m, r| {
        legacy(m, r, "tools/list", |x| {
            let again = x["tools"][0].clone();
            x["tools"].as_array_mut().unwrap().push(again);
        });
    }),
    sets!("mcp.tools.names", legacy "tools/list" "tools.1.name" = "what time"),
    sets!("mcp.tools.described", legacy "tools/list" "tools.1.description" = ""),
    sets!("mcp.tools.required", legacy "tools/list" "tools.0.inputSchema.required" = ["text", "tone"]),
    sets!("mcp.tools.annotations", legacy "tools/list" "tools.0.annotations.readOnlyHint" = "yes"),
    ("mcp.tools.stable", &[], |m, r| {
        if m.value["id"].as_i64().is_some_and(|id| id % 2 == 0) {
            legacy(m, r, "tools/list", |x| x["tools"][1]["title"] = json!("Now"));
        }
    }),
    ("mcp.id.text", &[], |m, r| {
        if m.value["id"].is_string() && m.method() == "ping" {
            r[0]["id"] = json!(1);
        }
    }),
    sets!("mcp.tools.output_schema", legacy "tools/list" "tools.1.outputSchema" = "text"),
    ("mcp.tools.cursor", &[], |m, r| {
        if param(m, "/cursor").is_some() && m.method() == "tools/list" {
            succeed(m, r, json!({ "tools": [] }));
        }
    }),
    ("mcp.tools.call.unknown", &[], |m, r| {
        if is_unknown_tool(m) && !m.is_modern && !m.has_mgp {
            succeed(m, r, json!({ "content": [] }));
        }
    }),
    ("mcp.tools.call.no_name", &[], |m, r| {
        if m.method() == "tools/call" && param(m, "/name").is_none() {
            r[0]["error"]["code"] = json!(-32603);
        }
    }),
    ("mcp.tools.call.arguments", &[], |m, r| {
        if param(m, "/name") == Some(&json!("echo")) && param(m, "/arguments") == Some(&json!({})) {
            succeed(m, r, json!({ "content": [] }));
        }
    }),
    ("mcp.tools.call.result", &[], |m, r| {
        if !m.has_mgp {
            legacy(m, r, "tools/call", |x| x["content"] = json!([{ "text": "no type" }]));
        }
    }),
    ("mcp.progress", &[], |m, r| {
        let progress = r.iter_mut().filter(|reply| reply["method"] == "notifications/progress");
        progress.for_each(|reply| reply["params"]["progress"] = json!(0.5));
        let _ = m;
    }),
    ("mcp.resources.capability", &["mcp.resources.list", "mcp.resources.read.unknown"], |m, r| {
        if m.method() == "resources/list" {
            *r = vec![json!({ "jsonrpc": "2.0", "id": m.value["id"],
                "error": { "code": -32601, "message": "unknown" } })];
        }
    }),
    sets!("mcp.resources.list", legacy "resources/list" "resources" = [{ "uri": "a:b" }]),
    sets!("mcp.resources.templates", legacy "resources/templates/list" "resourceTemplates" = [{ "name": "b" }]),
    ("mcp.resources.read.unknown", &[], |m, r| {
        if m.method() == "resources/read" && r[0].get("error").is_some() {
            succeed(m, r, json!({ "contents": [] }));
        }
    }),
    sets!("mcp.prompts.list", legacy "prompts/list" "prompts.0.arguments" = [{}]),
    ("mcp.prompts.get.unknown", &[], |m, r| {
        if m.method() == "prompts/get" {
            succeed(m, r, json!({ "messages": [] }));
        }
    }),
    ("mcp.logging.level", &[], |m, r| {
        if m.method() == "logging/setLevel" {
            succeed(m, r, json!({}));
        }
    }),
    ("mcp.output.json", &[], |m, r| {
        if m.method() == "prompts/list" {
            r.insert(0, json!({ "raw": "Listing prompts …" }));
        }
    }),
    ("mcp.output.jsonrpc", &[], |m, r| {
        if m.method() == "prompts/list" && !m.is_modern {
            r[0]["jsonrpc"] = json!("1.0");
        }
    }),
    sets!("modern.discover", modern "server/discover" "supportedVersions" = []),
    sets!("modern.discover.cache", modern "tools/list" "cacheScope" = "all"),
    sets!("modern.result_type", modern "tools/list" "resultType" = "done"),
    sets!("modern.server_info", modern "server/discover" "_meta" = {}),
    ("modern.version.unknown", &[], |m, r| {
        if r.first().is_some_and(|reply| reply["error"]["code"] == -32022) {
            r[0]["error"]["data"] = json!({});
        }
        let _ = m;
    }),
    ("modern.method.unknown", &[], |m, r| {
        if m.method() == "does/not/exist" && m.is_modern {
            r[0]["error"]["code"] = json!(-32603);
        }
    }),
    sets!("modern.tools.list", modern "tools/list" "tools.1.inputSchema" = "any"),
    ("modern.tools.call.unknown.code", &[], |m, r| {
        if is_unknown_tool(m) && m.is_modern {
            r[0]["error"]["code"] = json!(-32603);
        }
    }),
    sets!("modern.tools.call.result", modern "tools/call" "resultType" = "partial"),
    ("modern.no_requests", &[], |m, r| {
        if m.method() == "tools/list" && m.is_modern {
            r.push(json!({ "jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {} }));
        }
    }),
];

const MGP: &[Row] = &[
    ("mgp.silence.initialize", &[], |m, r| {
        if param(m, "/capabilities") == Some(&json!({}))
            && param(m, "/protocolVersion") == Some(&json!("2025-11-25"))
        {
            legacy(m, r, "initialize", |x| {
                x["capabilities"]["mgp"] = json!({ "version": "0.3.0", "extensions": [] })
            });
        }
    }),
    ("mgp.silence.methods", &[], |m, r| {
        if m.method() == "mgp/health/ping" && !m.has_mgp {
            succeed(m, r, json!({ "status": "healthy" }));
        }
    }),
    ("mgp.silence.tools", &[], |m, r| {
        if !m.has_mgp {
            legacy(m, r, "tools/list", |x| {
                set(x, "tools.*.security", &json!({ "risk_level": "safe" }));
            });
        }
    }),
    ("mgp.silence.notifications", &[], |m, r| {
        if m.method() == "prompts/list" && !m.has_mgp && !m.is_modern {
            r.push(json!({ "jsonrpc": "2.0", "method": "notifications/mgp.event", "params": {} }));
        }
    }),
    ("mgp.silence.modern", &[], |m, r| {
        if !m.has_mgp {
            modern(m, r, "server/discover", |x| {
                x["capabilities"]["extensions"]["dev.cloto/mgp"] = json!({})
            });
        }
    }),
    ("mgp.answer.version", &["mgp.modern.answer"], |m, r| {
        if m.has_mgp && (m.method() == "initialize" || m.method() == "server/discover") {
            with_result(r, |x| {
                let at = if m.is_modern {
                    "/capabilities/extensions/dev.cloto~1mgp"
                } else {
                    "/capabilities/mgp"
                };
                x.pointer_mut(at).unwrap()["version"] = json!("1.0");
            });
        }
    }),
    ("mgp.answer.extensions", &["mgp.answer.subset", "mgp.extensions.unknown"], |m, r| {
        with_mgp(m, r, "initialize", |x| {
            let all = x["capabilities"]["mgp"]["extensions"].as_array_mut().unwrap();
            all.push(json!("telepathy"));
        });
    }),
    sets!("mgp.answer.permissions", with_mgp "initialize" "capabilities.mgp.permissions_required" = [5]),
    sets!("mgp.answer.trust", with_mgp "initialize" "capabilities.mgp.trust_level" = "holy"),
    ("mgp.version.major", &[], |m, r| {
        if param(m, "/capabilities/mgp/version") == Some(&json!("9.0.0")) {
            legacy(m, r, "initialize", |x| {
                x["capabilities"]["mgp"] = json!({ "version": "0.3.0", "extensions": [] })
            });
        }
    }),
    ("mgp.version.minor", &[], |m, r| {
        if param(m, "/capabilities/mgp/version") == Some(&json!("0.1.0")) {
            legacy(m, r, "initialize", |x| x["capabilities"]["mgp"] = Value::Null);
        }
    }),
    ("mgp.malformed", &[], |m, r| {
        if param(m, "/capabilities/mgp") == Some(&json!("yes")) {
            legacy(m, r, "initialize", |x| {
                x["capabilities"]["mgp"] = json!({ "version": "0.3.0", "extensions": [] })
            });
        }
    }),
    ("mgp.modern.answer", &[], |m, r| {
        if m.has_mgp {
            modern(m, r, "server/discover", |x| {
                x["capabilities"]["extensions"]["dev.cloto/mgp"]["extensions"] =
                    json!(["lifecycle", "telepathy"]);
            });
        }
    }),
    ("mgp.tools.security", &[], |m, r| {
        with_mgp(m, r, "tools/list", |x| {
            x["tools"][1].as_object_mut().unwrap().remove("security");
        });
    }),
    sets!("mgp.tools.risk", with_mgp "tools/list" "tools.*.security.risk_level" = "none"),
    sets!("mgp.tools.permissions", with_mgp "tools/list" "tools.*.security.permissions_required" = ["shell"]),
    sets!("mgp.tools.side_effects", with_mgp "tools/list" "tools.*.security.side_effects" = ["magic"]),
    sets!("mgp.tools.validator", with_mgp "tools/list" "tools.*.security.validator" = "prayer"),
    sets!("mgp.tools.switches", with_mgp "tools/list" "tools.*.security.reversible" = "yes"),
    sets!("mgp.tools.code_safety", with_mgp "tools/list" "tools.*.security.code_safety.level" = "high"),
    sets!("mgp.access.query", with_mgp "mgp/access/query" "permission" = "maybe"),
    ("mgp.access.unspecific", &[], |m, r| {
        if m.method() == "mgp/access/query" && param(m, "/agent_id") == Some(&json!(5)) && m.has_mgp
        {
            succeed(m, r, json!({ "permission": "allow", "source": "tool_grant" }));
        }
    }),
    ("mgp.access.grant", &[], |m, r| {
        if m.method() == "mgp/access/grant" {
            succeed(m, r, json!({ "status": "granted" }));
        }
    }),
    ("mgp.audit.format", &[], |m, r| {
        let event = r.iter_mut().find(|reply| reply["method"] == "notifications/mgp.audit");
        if let Some(event) = event {
            event["params"]["timestamp"] = json!("yesterday");
        }
        let _ = m;
    }),
    ("mgp.health.ping", &["mgp.health.ping.modern"], |m, r| {
        if m.method() == "mgp/health/ping" && m.has_mgp {
            with_result(r, |x| x["status"] = json!("fine"));
        }
    }),
    sets!("mgp.health.ping.modern", modern "mgp/health/ping" "uptime_secs" = "long"),
    sets!("mgp.health.status", with_mgp "mgp/health/status" "tools_available" = 9),
    ("mgp.lifecycle.shutdown", &[], |m, r| {
        with_mgp(m, r, "mgp/lifecycle/shutdown", |x| {
            x.as_object_mut().unwrap().remove("pending_requests");
        });
    }),
    ("mgp.lifecycle.shutdown.reason", &[], |m, r| {
        if m.method() == "mgp/lifecycle/shutdown" && param(m, "/timeout_ms") == Some(&json!("soon"))
        {
            succeed(m, r, json!({ "accepted": false }));
        }
    }),
    ("mgp.stream.unwanted", &[], |m, r| {
        if m.method() == "tools/call"
            && m.has_mgp
            && !streams(m)
            && r.iter().any(|reply| reply.get("result").is_some())
        {
            r.insert(0, json!({ "jsonrpc": "2.0", "method": "notifications/mgp.stream.chunk", "params": {} }));
        }
    }),
    ("mgp.stream.chunks", &[], |m, r| {
        if streams(m) {
            r[1]["params"]["index"] = json!(5);
        }
    }),
    ("mgp.stream.whole", &[], |m, r| {
        if streams(m) {
            with_result(r, |x| x["content"][0]["text"] = json!("to"));
        }
    }),
    ("mgp.stream.totals", &[], |m, r| {
        if streams(m) {
            with_result(r, |x| x["_mgp"]["chunks_sent"] = json!(1));
        }
    }),
    sets!("mgp.stream.cancel.unknown", with_mgp "mgp/stream/cancel" "cancelled" = true),
    ("mgp.stream.cancel.params", &[], |m, r| {
        if m.method() == "mgp/stream/cancel" && param(m, "/request_id").is_none() {
            succeed(m, r, json!({ "cancelled": false }));
        }
    }),
    sets!("mgp.events.subscribe", with_mgp "mgp/events/subscribe" "unsupported" = []),
    ("mgp.events.filter", &[], |m, r| {
        if m.method() == "mgp/events/subscribe" && param(m, "/filter").is_some() {
            succeed(m, r, json!({ "subscribed": [], "unsupported": [], "subscription_id": "x" }));
        }
    }),
    sets!("mgp.events.unsubscribe", with_mgp "mgp/events/unsubscribe" "removed" = true),
    ("mgp.events.params", &[], |m, r| {
        if m.method() == "mgp/events/subscribe" && param(m, "/channels") == Some(&json!(7)) {
            succeed(m, r, json!({ "subscribed": [], "unsupported": [], "subscription_id": "x" }));
        }
    }),
    sets!("mgp.callback.unknown", with_mgp "mgp/callback/respond" "status" = "accepted"),
    ("mgp.errors.unknown_tool", &[], |m, r| {
        if is_unknown_tool(m) && m.has_mgp && !m.is_modern {
            r[0]["error"]["code"] = json!(4002);
        }
    }),
    ("mgp.errors.recovery", &[], |m, r| {
        if is_unknown_tool(m) && m.has_mgp {
            r[0]["error"]["data"]["_mgp"]["retryable"] = json!(true);
        }
    }),
    ("mgp.errors.category", &[], |m, r| {
        if is_unknown_tool(m) && m.has_mgp {
            r[0]["error"]["data"]["_mgp"]["category"] = json!("external");
        }
    }),
    ("mgp.errors.codes", &[], |m, r| {
        if m.method() == "does/not/exist" && m.has_mgp {
            r[0]["error"]["code"] = json!(4001);
        }
    }),
    ("mgp.errors.params", &[], |m, r| {
        if param(m, "/arguments").is_some_and(Value::is_array) {
            succeed(m, r, json!({ "content": [] }));
        }
    }),
    ("mgp.errors.params", &[], |m, r| {
        if param(m, "/arguments").is_some_and(Value::is_array) {
            r[0]["error"]["code"] = json!(4001);
        }
    }),
    ("mgp.discovery.list", &[], |m, r| {
        if param(m, "/filter").is_none() {
            with_mgp(m, r, "mgp/discovery/list", |x| {
                x["servers"] = json!([{ "status": "connected" }])
            });
        }
    }),
    ("mgp.discovery.filter", &[], |m, r| {
        if param(m, "/filter").is_some() {
            with_mgp(m, r, "mgp/discovery/list", |x| {
                x["servers"] = json!([{ "id": "s", "status": "connected" }])
            });
        }
    }),
    ("mgp.discovery.register", &[], |m, r| {
        if m.method() == "mgp/discovery/register" {
            succeed(m, r, json!({ "id": "judge", "status": "connected" }));
        }
    }),
    ("mgp.discovery.deregister", &[], |m, r| {
        if m.method() == "mgp/discovery/deregister" {
            succeed(m, r, json!({ "id": "judge", "status": "deregistered" }));
        }
    }),
    ("mgp.tools.discover", &[], |m, r| {
        with_mgp(m, r, "mgp/tools/discover", |x| {
            x.as_object_mut().unwrap().remove("total_available");
        });
    }),
    ("mgp.tools.discover.max", &[], |m, r| {
        if param(m, "/max_results").is_some() {
            with_mgp(m, r, "mgp/tools/discover", |x| {
                let again = x["tools"][0].clone();
                x["tools"].as_array_mut().unwrap().push(again);
            });
        }
    }),
    ("mgp.tools.discover.order", &[], |m, r| {
        with_mgp(m, r, "mgp/tools/discover", |x| x["tools"].as_array_mut().unwrap().reverse());
    }),
    ("mgp.tools.discover.params", &[], |m, r| {
        if m.method() == "mgp/tools/discover" && param(m, "/query") == Some(&json!(7)) {
            succeed(m, r, json!({ "tools": [] }));
        }
    }),
    sets!("mgp.tools.request", with_mgp "mgp/tools/request" "status" = "perhaps"),
    sets!("mgp.tools.session", with_mgp "mgp/tools/session" "max_tokens" = "many"),
    sets!("mgp.tools.evict", with_mgp "mgp/tools/session/evict" "evicted" = 1),
];

/// The rules that no single changed reply can break alone. Some of them need a slow server, or a server that does not
/// end. After a violation of any other of them, no further rule is checked.
const UNBROKEN: &[&str] =
    &["mcp.connect", "mcp.close", "mgp.health.ping.busy", "mgp.lifecycle.ends"];

#[tokio::test]
async fn a_server_that_breaks_one_rule_fails_exactly_that_one() {
    let rows: Vec<_> = BASE.iter().chain(EXTENSIONS).chain(MGP).collect();
    let broken: HashSet<_> =
        rows.iter().flat_map(|(rule, also, _)| also.iter().chain([rule])).collect();
    let whole: Vec<_> = rules().map(|rule| rule.id).filter(|rule| !broken.contains(rule)).collect();
    assert_eq!(whole, UNBROKEN, "each rule has a row");
    let judged_rows = rows.into_iter().map(|(rule, also, change)| async move {
        let report = judged(server(*change), &options()).await;
        let found = broken_rules(&report);
        let mut names: Vec<_> = found.iter().map(|(name, _)| *name).collect();
        let mut expected: Vec<_> = also.iter().chain([rule]).copied().collect();
        names.sort_unstable();
        expected.sort_unstable();
        (names != expected).then(|| format!("a server that breaks {expected:?}: {found:?}"))
    });
    let wrong: Vec<_> = stream::iter(judged_rows).buffered(32).filter_map(ready).collect().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_request_without_an_answer_is_not_shown_with_an_earlier_answer() {
    let silent: Change = |message, replies| {
        if message.value.get("id") == Some(&json!(4711)) {
            replies.clear();
        }
    };
    let mut options = options();
    options.timeout = Duration::from_secs(2);
    options.only = vec!["mcp.request.invalid".to_owned()];
    let report = judged(server(silent), &options).await;
    let mut results = report.results.iter();
    let result = results.find(|result| result.rule.id == "mcp.request.invalid").unwrap();
    assert!(result.sent.contains("4711") && result.received.is_empty(), "{result:?}");
}
