//! A server that answers from a script and keeps every rule, and a way to change what it sends.

#![expect(clippy::needless_pass_by_value, reason = "values are written in place")]

use mgp_validate::Target;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream};

/// A function that changes the replies of a server to a message, e.g. to break a rule.
pub(crate) type Change = fn(&Message, &mut Vec<Value>);

/// A message of the judge, with what was negotiated.
pub(crate) struct Message {
    pub(crate) value: Value,
    pub(crate) is_modern: bool,
    pub(crate) has_mgp: bool,
}

impl Message {
    pub(crate) fn method(&self) -> &str {
        self.value["method"].as_str().unwrap_or_default()
    }
}

/// Returns a scripted server whose replies are changed by the given function.
pub(crate) fn server(change: Change) -> Target {
    Target::memory(move || {
        let (judge_input, server_output) = tokio::io::duplex(1 << 16);
        let (server_input, judge_output) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve(server_input, server_output, change));
        (judge_input, judge_output)
    })
}

async fn serve(input: DuplexStream, mut output: DuplexStream, change: Change) {
    let mut lines = BufReader::new(input).lines();
    let mut legacy_mgp = false;
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(value) = serde_json::from_str::<Value>(&line) else {
            let error = json!({ "code": -32700, "message": "no JSON" });
            let reply = json!({ "jsonrpc": "2.0", "id": null, "error": error });
            let no_json =
                Message { value: json!({ "method": "no JSON" }), is_modern: false, has_mgp: false };
            let mut replies = vec![reply];
            change(&no_json, &mut replies);
            if write(&mut output, &replies).await.is_err()
                || replies.iter().any(|reply| reply["end"] == true)
            {
                return;
            }
            continue;
        };
        let capabilities = "/params/_meta/io.modelcontextprotocol~1clientCapabilities";
        let modern = value.pointer(capabilities);
        if value["method"] == "initialize" {
            legacy_mgp = is_offer(value.pointer("/params/capabilities/mgp"));
        }
        let modern_mgp =
            modern.is_some_and(|all| is_offer(all.pointer("/extensions/dev.cloto~1mgp")));
        let has_mgp = if modern.is_some() { modern_mgp } else { legacy_mgp };
        let message = Message { is_modern: modern.is_some(), has_mgp, value };
        let mut replies = good(&message);
        change(&message, &mut replies);
        if write(&mut output, &replies).await.is_err()
            || replies.iter().any(|reply| reply["end"] == true)
        {
            return;
        }
    }
}

async fn write(output: &mut DuplexStream, replies: &[Value]) -> std::io::Result<()> {
    for reply in replies.iter().filter(|reply| reply["end"] != true) {
        let text = reply
            .get("raw")
            .and_then(Value::as_str)
            .map_or_else(|| reply.to_string(), str::to_owned);
        output.write_all(format!("{text}\n").as_bytes()).await?;
    }
    output.flush().await
}

fn is_offer(offer: Option<&Value>) -> bool {
    offer.is_some_and(|offer| {
        offer["version"].as_str().is_some_and(|version| version.starts_with("0."))
    })
}

fn ok(id: &Value, result: Value) -> Vec<Value> {
    vec![json!({ "jsonrpc": "2.0", "id": id, "result": result })]
}

fn failed(id: &Value, code: i64, message: &str) -> Vec<Value> {
    vec![json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })]
}

const EXTENSIONS: [&str; 9] = [
    "security",
    "access_control",
    "audit",
    "lifecycle",
    "streaming",
    "bidirectional",
    "discovery",
    "manifest",
    "scopes",
];

/// Answers a message as every rule demands.
fn good(message: &Message) -> Vec<Value> {
    let Some(id) = message.value.get("id") else { return Vec::new() };
    if message.value.get("method").is_some_and(|method| !method.is_string()) {
        return failed(id, -32600, "no method");
    }
    let revision = message.value.pointer("/params/_meta/io.modelcontextprotocol~1protocolVersion");
    if let Some(revision) =
        revision.and_then(Value::as_str).filter(|revision| *revision != "2026-07-28")
    {
        let mut replies = failed(id, -32022, "unknown revision");
        replies[0]["error"]["data"] = json!({ "supported": ["2026-07-28"], "requested": revision });
        return replies;
    }
    let method = message.method();
    let replies = match method {
        "initialize" => initialize(message, id),
        "tools/call" => call(message, id),
        _ if method.starts_with("mgp/") && message.has_mgp => mgp(message, id),
        _ => base(message, id),
    };
    if message.is_modern { replies.into_iter().map(modern).collect() } else { replies }
}

/// Adds the members of results of the modern era.
fn modern(mut reply: Value) -> Value {
    if let Some(result) = reply.get_mut("result") {
        result["resultType"] = json!("complete");
        result["_meta"]["io.modelcontextprotocol/serverInfo"] =
            json!({ "name": "scripted", "version": "1" });
        result["ttlMs"] = json!(0);
        result["cacheScope"] = json!("private");
    }
    reply
}

fn mgp_answer(offer: &Value) -> Value {
    let offered = offer["extensions"].as_array().cloned().unwrap_or_default();
    let both = ["tool_discovery"]
        .into_iter()
        .chain(EXTENSIONS)
        .filter(|name| offered.contains(&json!(name)));
    json!({ "version": "0.3.0", "extensions": both.collect::<Vec<_>>(), "trust_level": "standard",
        "permissions_required": ["filesystem.read"] })
}

fn capabilities() -> Value {
    json!({ "tools": {}, "resources": {}, "prompts": {}, "logging": {} })
}

fn initialize(message: &Message, id: &Value) -> Vec<Value> {
    let params = &message.value["params"];
    let Some(wanted) = params["protocolVersion"].as_str() else {
        return failed(id, -32602, "`protocolVersion` is missing");
    };
    let known = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
    let revision = if known.contains(&wanted) { wanted } else { "2025-11-25" };
    let mut capabilities = capabilities();
    if message.has_mgp {
        capabilities["mgp"] = mgp_answer(&params["capabilities"]["mgp"]);
    }
    ok(
        id,
        json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "serverInfo": { "name": "scripted", "version": "1" },
        }),
    )
}

fn tools(has_mgp: bool) -> Value {
    let mut echo = json!({
        "name": "echo", "description": "Returns its text",
        "inputSchema": { "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] },
        "_meta": { "ui": { "resourceUri": PAGE, "visibility": ["model", "app"] } },
        "outputSchema": { "type": "object" },
        "annotations": { "readOnlyHint": true },
    });
    let mut now = json!({
        "name": "now", "description": "Returns the time", "inputSchema": { "type": "object" },
    });
    if has_mgp {
        for tool in [&mut echo, &mut now] {
            tool["security"] = json!({
                "risk_level": "safe", "permissions_required": ["filesystem.read", "com.example.custom"],
                "side_effects": ["filesystem"], "validator": "none", "reversible": true,
                "code_safety": { "level": "standard" },
            });
        }
    }
    json!([echo, now])
}

const PAGE: &str = "ui://echo/page";

const SKILL: &str = "skill://tea/SKILL.md";
const SKILL_TEXT: &str = "---\nname: tea\ndescription: Steeps tea\n---\n";

fn skill() -> Value {
    let digest = format!("sha256:{}", mgp_types::Sha256Hash::digest(SKILL_TEXT.as_bytes()));
    json!({ "uri": SKILL, "frontmatter": { "name": "tea", "description": "Steeps tea" },
        "resources": [{ "uri": SKILL, "digest": digest, "size": SKILL_TEXT.len() }] })
}

fn base(message: &Message, id: &Value) -> Vec<Value> {
    let params = &message.value["params"];
    if params.get("cursor").is_some() {
        return failed(id, -32602, "invalid cursor");
    }
    match message.method() {
        "server/discover" if message.is_modern => {
            let mut capabilities = capabilities();
            capabilities["extensions"]["io.modelcontextprotocol/skills"] =
                json!({ "directoryRead": true });
            let offer =
                "/_meta/io.modelcontextprotocol~1clientCapabilities/extensions/dev.cloto~1mgp";
            if let Some(offer) = params.pointer(offer) {
                capabilities["extensions"]["dev.cloto/mgp"] = mgp_answer(offer);
            }
            ok(id, json!({ "supportedVersions": ["2026-07-28"], "capabilities": capabilities }))
        }
        "ping" if !message.is_modern => ok(id, json!({})),
        "tools/list" => ok(id, json!({ "tools": tools(message.has_mgp) })),
        "resources/list" => ok(id, json!({ "resources": [{ "uri": "a:b", "name": "b" }] })),
        "resources/templates/list" => {
            ok(id, json!({ "resourceTemplates": [{ "uriTemplate": "a:{b}", "name": "b" }] }))
        }
        "resources/read" if params["uri"] == PAGE => {
            let page = json!({ "uri": PAGE, "mimeType": "text/html;profile=mcp-app", "text": "<!doctype html>" });
            ok(id, json!({ "contents": [page] }))
        }
        "resources/read" if params["uri"] == SKILL => {
            ok(id, json!({ "contents": [{ "uri": SKILL, "text": SKILL_TEXT }] }))
        }
        "resources/read" => failed(id, -32002, "unknown resource"),
        "skills/list" if message.is_modern => ok(id, json!({ "skills": [skill()] })),
        "skills/get" if params["uri"] == SKILL => ok(id, json!({ "skill": skill() })),
        "resources/directory/read" if params["uri"] == "skill://tea" => {
            ok(id, json!({ "resources": [{ "uri": SKILL, "name": "SKILL.md" }] }))
        }
        "skills/get" | "resources/directory/read" if message.is_modern => {
            failed(id, -32602, "unknown")
        }
        "prompts/list" => {
            ok(id, json!({ "prompts": [{ "name": "p", "arguments": [{ "name": "x" }] }] }))
        }
        "prompts/get" | "logging/setLevel" => failed(id, -32602, "unknown"),
        _ => failed(id, -32601, "unknown method"),
    }
}

fn call(message: &Message, id: &Value) -> Vec<Value> {
    let params = &message.value["params"];
    if params["name"].as_str().is_none_or(|name| name != "echo" && name != "now") {
        let is_named = params["name"].is_string();
        if message.has_mgp && is_named {
            let mut replies = failed(id, 4001, "unknown tool");
            replies[0]["error"]["data"]["_mgp"] =
                json!({ "category": "validation", "retryable": false });
            return replies;
        }
        return failed(id, -32602, "unknown tool");
    }
    let Some(text) = params.pointer("/arguments/text").and_then(Value::as_str) else {
        return failed(id, -32602, "`text` is missing");
    };
    let mut result = json!({
        "content": [{ "type": "text", "text": text }], "structuredContent": { "text": text }, "isError": false,
    });
    let mut replies = Vec::new();
    if let Some(token) = params.pointer("/_meta/progressToken") {
        for step in [0.5, 1.0] {
            let progress = json!({ "progressToken": token, "progress": step, "total": 1 });
            replies.push(
                json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress }),
            );
        }
    }
    if message.has_mgp && params.pointer("/_mgp/stream") == Some(&json!(true)) {
        let (first, second) = text.split_at(text.len() / 2);
        for (index, part) in [first, second].into_iter().enumerate() {
            let chunk = json!({ "request_id": id, "index": index, "done": index == 1,
                "content": { "type": "text", "text": part } });
            replies.push(json!({ "jsonrpc": "2.0", "method": "notifications/mgp.stream.chunk", "params": chunk }));
        }
        result["_mgp"] = json!({ "streamed": true, "chunks_sent": 2, "duration_ms": 1 });
    }
    if message.has_mgp && !message.is_modern {
        let event = json!({ "timestamp": "2026-01-31T12:00:00.000Z", "trace_id": "t", "event_type": "TOOL_EXECUTED",
            "actor": { "type": "agent", "id": "a" }, "target": { "tool_name": "echo" }, "result": "SUCCESS" });
        replies.push(
            json!({ "jsonrpc": "2.0", "method": "notifications/mgp.audit", "params": event }),
        );
    }
    replies.extend(ok(id, result));
    replies
}

fn mgp(message: &Message, id: &Value) -> Vec<Value> {
    let params = &message.value["params"];
    let found =
        json!({ "name": "echo", "server_id": "s", "inputSchema": {}, "relevance_score": 0.9 });
    let other =
        json!({ "name": "now", "server_id": "s", "inputSchema": {}, "relevance_score": 0.4 });
    match message.method() {
        "mgp/health/ping" => ok(
            id,
            json!({ "status": "healthy", "timestamp": "2026-01-31T12:00:00Z", "uptime_secs": 5 }),
        ),
        "mgp/health/status" => ok(
            id,
            json!({ "status": "healthy", "uptime_secs": 5, "tools_available": 2,
            "tools_total": 2, "pending_requests": 0, "resources": {}, "checks": {} }),
        ),
        "mgp/lifecycle/shutdown" if params["timeout_ms"].is_u64() => {
            let mut replies =
                ok(id, json!({ "accepted": true, "pending_requests": 0, "estimated_drain_ms": 0 }));
            replies.push(json!({ "end": true }));
            replies
        }
        "mgp/access/query" if params["agent_id"].is_string() => {
            ok(id, json!({ "permission": "deny", "source": "default_policy" }))
        }
        "mgp/stream/cancel" if params.get("request_id").is_some() => {
            ok(id, json!({ "cancelled": false, "reason": "not_active" }))
        }
        "mgp/events/subscribe"
            if params["channels"].is_array() && params.get("filter").is_none() =>
        {
            ok(
                id,
                json!({ "subscribed": [], "unsupported": params["channels"], "subscription_id": "x" }),
            )
        }
        "mgp/events/unsubscribe" => {
            ok(id, json!({ "subscription_id": params["subscription_id"], "removed": false }))
        }
        "mgp/callback/respond" => {
            ok(id, json!({ "callback_id": params["callback_id"], "status": "unknown" }))
        }
        "mgp/discovery/list" if params.get("filter").is_some() => ok(id, json!({ "servers": [] })),
        "mgp/discovery/list" => {
            ok(id, json!({ "servers": [{ "id": "s", "status": "connected" }] }))
        }
        "mgp/tools/discover" if params["query"].is_string() => {
            let tools = if params["max_results"] == 1 { vec![found] } else { vec![found, other] };
            ok(
                id,
                json!({ "tools": tools, "total_available": 2, "search_strategy": "keyword", "query_time_ms": 1 }),
            )
        }
        "mgp/tools/request" => ok(id, json!({ "status": "unavailable", "tools_loaded": [] })),
        "mgp/tools/session" => {
            ok(id, json!({ "pinned": [], "cached": [], "total_tokens": 0, "max_tokens": 8000 }))
        }
        "mgp/manifest/get" => ok(
            id,
            json!({ "manifest_version": "1", "server": { "name": "scripted", "version": "1" }, "tools": [{ "name": "echo" }] }),
        ),
        "mgp/permissions/check" => {
            let is_known = params["tool"] == "echo";
            ok(id, json!({ "allowed": is_known, "missing_scopes": [], "reason": "unknown" }))
        }
        "mgp/tools/session/evict" => ok(id, json!({ "evicted": 0 })),
        "mgp/tools/discover"
        | "mgp/lifecycle/shutdown"
        | "mgp/access/query"
        | "mgp/access/grant"
        | "mgp/stream/cancel"
        | "mgp/events/subscribe"
        | "mgp/discovery/register"
        | "mgp/discovery/deregister" => failed(id, -32602, "invalid params"),
        _ => failed(id, -32601, "unknown method"),
    }
}
