//! Tests of MGP members in lists and calls of a kernel: the server of a tool, the session handle of a request, and the
//! security metadata of tools (MGP §4.2, §16.5, §16.7).

use mgp_client_sdk::ToolResult;
use mgp_kernel::Kernel;
use mgp_server_sdk::Resource;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::{Era, ToolAnnotations, UiResourceMeta};
use mgp_types::method::ToolsList;
use mgp_types::mgp::{Extension, ExtensionSet, RiskLevel};
use mgp_types::service::{
    Call, CredentialGrant, Principal, Reply, Scope, ScopeKind, Stack, around, mock,
};
use mgp_types::{ErrorCode, Payload, Recovery, RpcError};
use serde_json::{Value, json};

use super::world::{
    build_with_tools, config_of, host, host_of, kernel_with, limit_era, open, search,
};

fn server(id: &'static str) -> impl Fn() -> Server + Send + Sync + 'static {
    move || {
        let which = Tool::new("which", "Returns its server", move || async move { id })
            .risk(RiskLevel::Moderate);
        let own = Tool::new(format!("{id}_time"), "Returns the time of a day", || async { "noon" });
        Server::new(id, "1").tool(which).tool(own)
    }
}

async fn world() -> Kernel {
    let builder = Kernel::builder()
        .config(search())
        .local_with("a", open(&["which", "a_time"]), server("a"))
        .local_with("b", open(&["which", "b_time"]), server("b"));
    build_with_tools(builder, [("a", 2), ("b", 2)]).await
}

/// A modern client whose requests each have a separate scope, as over HTTP.
struct Requests(mock::Client);

impl Requests {
    fn new(kernel: &Kernel) -> Self {
        let mut client = mock::client(kernel.server().into_stack().unwrap());
        client.cx.principal = Principal::local().agent("ada");
        Self(client)
    }

    async fn ask(&mut self, method: &str, mut params: Value) -> Result<Value, RpcError> {
        let mgp = json!({ "version": "0.3.0", "extensions": ["tool_discovery", "streaming"] });
        params["_meta"] =
            mgp_testkit::modern_meta(&json!({ "extensions": { "dev.cloto/mgp": mgp } }));
        self.0.cx.scope = Scope::new(ScopeKind::Request);
        let answer = self.0.request(method, &params.to_string()).await?;
        Ok(serde_json::from_str(answer.as_str()).unwrap())
    }

    async fn request_tools(&mut self, capability: &str) -> Value {
        let wish = json!({ "requirements": { "capabilities": [capability] } });
        let mut answer = self.ask("mgp/tools/request", wish.clone()).await;
        // Repeat the request: the first one builds the tokenizer, which can exceed the time limit on a busy machine.
        for _ in 0..10 {
            if answer.is_ok() {
                break;
            }
            answer = self.ask("mgp/tools/request", wish.clone()).await;
        }
        answer.unwrap()
    }
}

#[tokio::test]
async fn a_call_names_its_server_in_mgp() {
    let kernel = world().await;
    let mut client = Requests::new(&kernel);
    let call = |server: Value| json!({ "name": "which", "arguments": {}, "_mgp": { "server_id": server } });
    for server in ["a", "b"] {
        let answer = client.ask("tools/call", call(json!(server))).await.unwrap();
        assert_eq!(answer["content"][0]["text"], server, "{answer}");
    }
    let unknown = client.ask("tools/call", call(json!("c"))).await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::TOOL_NOT_FOUND);
    // Two servers have a tool with this name. So the kernel refuses a call that does not name the server.
    let ambiguous = json!({ "name": "which", "arguments": {} });
    let refused = client.ask("tools/call", ambiguous).await.unwrap_err();
    assert_eq!(refused.code().0, 4003, "{refused}");
}

#[tokio::test]
async fn a_name_of_several_servers_means_the_one_used_last_in_the_session() {
    let kernel = world().await;
    let host = host(&kernel, "ada", host_of(Era::Modern)).await;
    let refused = host.call("which").await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::TOOL_NAME_CONFLICT);
    for server in ["b", "a"] {
        assert_eq!(host.call(format!("{server}.which")).await.unwrap().to_text(), server);
        assert_eq!(host.call("which").await.unwrap().to_text(), server);
        let forwarded = host.call("mgp_tools_call").args(json!({ "name": "which" })).await;
        assert_eq!(forwarded.unwrap().to_text(), server);
    }
    // In another session, neither of the two tools was used, so the name is ambiguous there.
    let other = self::host(&kernel, "ada", host_of(Era::Modern)).await;
    assert_eq!(other.call("which").await.unwrap_err().code(), ErrorCode::TOOL_NAME_CONFLICT);
}

/// Regression test: clients built with smolagents, `LlamaIndex` and other frameworks could not use `mgp_tools_call`,
/// because they write each member of its schema.
#[tokio::test]
async fn a_call_with_an_empty_server_id_names_no_server() {
    let kernel = world().await;
    let mut client = Requests::new(&kernel);
    for server in [json!(null), json!("")] {
        let forwarded = |name: &str| json!({ "name": name, "server_id": server, "arguments": {} });
        let found = json!({ "name": "mgp_tools_call", "arguments": forwarded("a.which") });
        let answer = client.ask("tools/call", found).await.unwrap();
        assert_eq!(answer["content"][0]["text"], "a", "{answer}");
        let unknown = json!({ "name": "mgp_tools_call", "arguments": forwarded("whihc") });
        let refused = client.ask("tools/call", unknown).await.unwrap_err();
        assert!(refused.message().contains("unknown tool `whihc`; did you mean"), "{refused}");
    }
}

#[tokio::test]
async fn refused_names_and_arguments_come_with_what_was_probably_meant() {
    let kernel = world().await;
    let mut client = Requests::new(&kernel);
    let forwarded = |arguments: Value| json!({ "name": "mgp_tools_call", "arguments": arguments });
    let similar = "did you mean `a.which` or `b.which`?";
    for (params, expected) in [
        (json!({ "name": "whihc" }), similar),
        (json!({ "name": "a.whihc" }), similar),
        (
            forwarded(json!({ "name": "which", "server_id": "c", "arguments": {} })),
            "unknown tool `c.which`; did you mean `a.which` or `b.which`?",
        ),
        (
            forwarded(json!({ "name": "a.which", "args": {} })),
            "unknown member `args`; the arguments of the tool belong in `arguments`",
        ),
        (
            forwarded(json!({ "name": "a.which", "arguments": "{}" })),
            "`arguments`: expected an object",
        ),
    ] {
        let refused = client.ask("tools/call", params).await.unwrap_err();
        assert!(refused.message().contains(expected), "{refused}");
    }
}

#[tokio::test]
async fn a_session_handle_counts_for_lists_and_calls() {
    let kernel = world().await;
    let mut client = Requests::new(&kernel);
    let listed = |answer: Value| {
        let tools = answer["tools"].as_array().unwrap();
        tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let answer = client.request_tools("the time of a day").await;
    let handle = answer["session_handle"].clone();
    assert!(handle.is_string(), "{answer}");
    let with = json!({ "_mgp": { "session_handle": handle } });
    let before = listed(client.ask("tools/list", json!({})).await.unwrap());
    let loaded = listed(client.ask("tools/list", with.clone()).await.unwrap());
    assert!(loaded.len() > before.len(), "{before:?} {loaded:?}");
    // A call of a tool adds the tool to the session.
    let call = |handle: &Value| json!({ "name": "a.which", "arguments": {}, "_mgp": { "session_handle": handle } });
    let answer = client.ask("tools/call", call(&handle)).await.unwrap();
    assert_eq!(answer["content"][0]["text"], "a", "{answer}");
    let used = listed(client.ask("tools/list", with).await.unwrap());
    assert!(used.contains(&"a.which".to_owned()), "{used:?}");
    // The kernel must refuse an invented session handle before the tool runs.
    for method in ["tools/list", "tools/call"] {
        let refused = client.ask(method, call(&json!("0123456789abcdef"))).await.unwrap_err();
        assert!(refused.message().contains("unknown `session_handle`"), "{refused}");
    }
    // The session handle of a batch applies to each of its calls.
    let calls = json!({ "calls": [{ "name": "b.which", "arguments": {} }] });
    let batch = |handle: &Value| {
        let mgp = json!({ "session_handle": handle });
        json!({ "name": "mgp_tools_call_many", "arguments": calls, "_mgp": mgp })
    };
    let refused = client.ask("tools/call", batch(&json!("0123456789abcdef"))).await.unwrap_err();
    assert!(refused.message().contains("unknown `session_handle`"), "{refused}");
    client.ask("tools/call", batch(&handle)).await.unwrap();
    let used = client.ask("tools/list", json!({ "_mgp": { "session_handle": handle } })).await;
    let used = listed(used.unwrap());
    assert!(used.contains(&"b.which".to_owned()), "{used:?}");
}

#[tokio::test]
async fn tools_are_listed_with_their_security_to_callers_that_negotiated_it() {
    let kernel = world().await;
    for era in [Era::Legacy, Era::Modern] {
        let security = ExtensionSet::EMPTY.with(Extension::ToolSecurity);
        for (builder, is_shown) in [
            (host_of(era).mgp(security), true),
            (host_of(era).mgp(ExtensionSet::EMPTY.with(Extension::Streaming)), false),
            (host_of(era).without_mgp(), false),
        ] {
            let host = host(&kernel, "ada", builder).await;
            host.call("a.which").await.unwrap();
            let tools = host.list_tools().await.unwrap();
            let text = serde_json::to_string(&tools).unwrap();
            assert_eq!(text.contains("\"security\""), is_shown, "{era:?} {text}");
            if is_shown {
                let tool = tools.iter().find(|tool| tool.name == "a.which").unwrap();
                let tool: Value = serde_json::to_value(tool).unwrap();
                assert_eq!(tool["security"]["effective_risk_level"], "safe", "{tool}");
                assert_eq!(tool["security"], tool["_meta"]["dev.cloto/mgp"]["security"]);
            }
            host.close().await;
        }
    }
}

/// Regression test: a caller that speaks plain MCP received the counts of chunks that an MGP server adds to each
/// result.
#[tokio::test]
async fn a_plain_caller_receives_no_member_of_mgp_in_the_result_of_a_server() {
    const RESULT: &str =
        r#"{"content":[],"_mgp":{"streamed":true,"chunks_sent":3,"x":1},"kept":1}"#;
    let make = || {
        let tool = Tool::new("w_time", "Returns the time of a day", || async { "noon" });
        Server::new("w", "1").tool(tool).layer(around(|call: Call, next: Stack| async move {
            if call.tool().is_some() {
                return Ok(Reply::raw(Payload::parse(RESULT)?));
            }
            next.send(call).await
        }))
    };
    let kernel = kernel_with("w", open(&["w_time"]), 1, make).await;
    for era in [Era::Legacy, Era::Modern] {
        for (client, expected) in [(host_of(era), true), (host_of(era).without_mgp(), false)] {
            let host = host(&kernel, "ada", client).await;
            let result = serde_json::to_value(host.call("w_time").await.unwrap()).unwrap();
            assert_eq!(result["_mgp"]["x"] == 1, expected, "{result}");
            assert_eq!(result["_mgp"].is_object(), expected, "{result}");
            assert_eq!(result["kept"], 1, "{result}");
            host.close().await;
        }
    }
}

#[tokio::test]
async fn an_error_that_its_server_sent_without_hints_has_the_default_ones() {
    let make = || {
        let tool = Tool::new("w_time", "Returns the time of a day", || async { "noon" });
        Server::new("w", "1").tool(tool).layer(around(|call: Call, next: Stack| async move {
            if call.tool().is_some() {
                let error = RpcError::new(ErrorCode::UPSTREAM_UNAVAILABLE, "no connection");
                return Err(error.without_recovery());
            }
            next.send(call).await
        }))
    };
    let kernel = kernel_with("w", open(&["w_time"]), 1, make).await;
    let host = host(&kernel, "ada", host_of(Era::Legacy)).await;
    let error = RpcError::from(host.call("w_time").await.unwrap_err());
    assert_eq!(error.as_recovery(), Recovery::default_for(error.code()).as_ref());
}

/// Regression test: an escape in the name of the member hid it from the kernel, so the server's member counted as the
/// kernel's own assessment.
#[tokio::test]
async fn a_server_cannot_set_the_effective_risk_of_its_tools() {
    const TOOLS: &str = concat!(
        r#"{"tools":[{"name":"wipe","description":"Removes a folder","inputSchema":{"type":"object"},"#,
        r#""security":{"risk_level":"dangerous","effective\u005frisk_level":"safe"}}]}"#,
    );
    let make = || {
        let server = Server::new("w", "1").tool(Tool::new("wipe", "Removes", || async { "done" }));
        let lists = around(|call: Call, next: Stack| async move {
            if call.is::<ToolsList>() {
                return Ok(Reply::raw(Payload::parse(TOOLS)?));
            }
            next.send(call).await
        });
        limit_era(server.layer(lists), Era::Legacy)
    };
    let kernel = kernel_with("w", open(&[]), 1, make).await;
    let security = ExtensionSet::EMPTY.with(Extension::ToolSecurity);
    let host = host(&kernel, "ada", host_of(Era::Legacy).mgp(security)).await;
    for (highest, is_found) in [("safe", false), ("dangerous", true)] {
        let wanted = json!({ "query": "remove a folder", "filter": { "risk_level_max": highest } });
        let found = host.call("mgp_tools_discover").args(wanted).await.unwrap().to_text();
        assert_eq!(found.contains("wipe"), is_found, "{found}");
    }
    let tools = host.list_tools().await.unwrap();
    let tool = tools.iter().find(|tool| tool.name == "wipe").unwrap();
    let tool = serde_json::to_value(tool).unwrap();
    assert_eq!(tool["security"]["effective_risk_level"], "dangerous", "{tool}");
    kernel.stop().await;
}

/// Regression test: hosts called dangerous tools without asking, because the servers of these tools claim that they
/// only read. The hosts also received all members that a server puts into the definitions of tools with a page.
#[tokio::test]
async fn a_tool_that_the_kernel_assessed_as_dangerous_has_no_harmless_hints() {
    const PAGE: &str = "ui://n/page.html";
    let make = || {
        let mut hints = ToolAnnotations::new();
        hints.read_only_hint = Some(true);
        hints.destructive_hint = Some(false);
        let tool = |name: &'static str| {
            Tool::new(name, "Does it", || async { "done" }).annotations(hints.clone())
        };
        Server::new("n", "1")
            .resource(Resource::app(PAGE, "page", "<!doctype html>", &UiResourceMeta::new()))
            .tool(tool("get_page").app(PAGE))
            .tool(tool("get_time"))
            .tool(tool("get_place"))
    };
    let mut mgp = open(&[]);
    for name in ["get_page", "get_place"] {
        mgp.risk.insert(name.to_owned(), RiskLevel::Dangerous);
    }
    for (surface, names) in
        [("direct", &["get_page", "get_place", "get_time"][..]), ("search", &["get_page"])]
    {
        let config = format!("[kernel]\nsurface = '{surface}'");
        let config = config_of(&config);
        let builder = Kernel::builder().config(config).local_with("n", mgp.clone(), make);
        let kernel = build_with_tools(builder, [("n", 3)]).await;
        for era in [Era::Legacy, Era::Modern] {
            let host = host(&kernel, "ada", host_of(era).without_mgp().apps()).await;
            let mut tools = host.list_tools().await.unwrap();
            tools.retain(|tool| !tool.name.starts_with("mgp"));
            tools.sort_by(|one, other| one.name.cmp(&other.name));
            assert_eq!(tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>(), names);
            for tool in &tools {
                let hints = tool.annotations.as_ref().unwrap();
                let is_safe = tool.name == "get_time";
                let (reads, destroys) = (hints.read_only_hint, hints.destructive_hint);
                assert_eq!((reads, destroys), (Some(is_safe), Some(!is_safe)), "{tool:?}");
                assert!(tool.security.is_none(), "not negotiated: {tool:?}");
            }
            host.close().await;
        }
    }
}

#[tokio::test]
async fn the_tools_of_the_kernel_have_security_metadata() {
    let kernel = world().await;
    let security = ExtensionSet::EMPTY.with(Extension::ToolSecurity);
    for era in [Era::Legacy, Era::Modern] {
        for (builder, risks) in [
            (host_of(era).mgp(security), [json!("safe"), json!("dangerous")]),
            (host_of(era).without_mgp(), [Value::Null, Value::Null]),
        ] {
            let host = host(&kernel, "ada", builder).await;
            let mut tools = host.list_tools().await.unwrap();
            tools.retain(|tool| ["mgp_tools_discover", "mgp_tools_call"].contains(&&*tool.name));
            let found: Vec<_> =
                tools.iter().map(|tool| json!(tool)["security"]["risk_level"].clone()).collect();
            assert_eq!(found, risks, "{era:?}");
            host.close().await;
        }
    }
}

/// Regression test: a request for tools counted as fulfilled by a tool that the caller's key permits to see but not to
/// call.
#[tokio::test]
async fn a_request_loads_only_tools_that_the_key_permits_to_call() {
    let make = |id: &'static str, name: &'static str| {
        let clock = move || Tool::new(name, "Returns the time of a day", || async { "noon" });
        move || Server::new(id, "1").tool(clock())
    };
    let builder = Kernel::builder()
        .config(search())
        .local_with("one", open(&["clock_one"]), make("one", "clock_one"))
        .local_with("two", open(&["clock_two"]), make("two", "clock_two"));
    let kernel = build_with_tools(builder, [("one", 1), ("two", 1)]).await;
    let mut client = Requests::new(&kernel);
    for (words, status, loaded) in [
        (&["tools.list"][..], "pending_approval", &[][..]),
        (&["tools.list", "tools.call:clock_two"], "fulfilled", &["clock_two"]),
    ] {
        client.0.cx.extensions.insert(CredentialGrant::new(words.iter().copied(), || true));
        let answer = client.request_tools("the time of a day").await;
        assert_eq!(answer["status"], status, "{answer}");
        let tools = answer["tools_loaded"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names: Vec<_> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        assert_eq!(names, loaded, "{answer}");
    }
}
