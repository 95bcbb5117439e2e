//! Tests of servers that serve both eras but can ask questions only in the legacy era, like servers built with several
//! other SDKs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, ServerChange, ToolResult};
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ContextExt, Resource};
use mgp_types::mcp::{Era, ResourceUpdatedParams};
use mgp_types::method::{Request as _, ResourcesSubscribe, ResourcesUpdated, ToolsList};
use mgp_types::service::{Call, Reply, Stack, around, mock};
use mgp_types::{Payload, RawObject};
use serde_json::{Value, json};

use super::world::{
    Guest, PAIRS, answering, host, host_of, kernel_with, limit_era, open, until, wait_for_tools,
};

const TOOLS: [&str; 4] = ["form", "era", "asks", "touch"];

/// Returns a server of both eras that asks no questions of callers in the modern era.
fn apart() -> Server {
    let server = Server::new("a", "1").offer(|offer| {
        if let Some(mgp) = &mut offer.mgp {
            mgp.asks_in_rounds = false;
        }
    });
    let resources = server.resources();
    let form = Tool::new("form", "Asks", |cx: Context| async move {
        if cx.caller.era == Era::Modern {
            return Err(RpcError::internal("no back-channel"));
        }
        let guest = cx.elicit::<Guest>("Who comes?").await?.accepted();
        Ok(guest.map_or_else(|| "declined".to_owned(), |guest| guest.name))
    });
    let era = Tool::new("era", "Names the era", |cx: Context| async move {
        if cx.caller.era == Era::Modern { "modern" } else { "legacy" }
    });
    let asks = Tool::new("asks", "Names what it may ask", |cx: Context| async move {
        let asks = cx.caller.accepts;
        format!("{} {} {}", asks.elicitation, asks.sampling, asks.roots)
    });
    let touch = Tool::new("touch", "Changes the news", move || {
        resources.updated("test://news");
        async { "done" }
    });
    let news = Resource::text("test://news", "news", "none");
    server.tool(form).tool(era).tool(asks).tool(touch).resource(news)
}

/// Returns a server whose tool `touch` has structured content that is not an object. Like servers with the SDK for
/// TypeScript, it wraps this content and its schema for legacy peers, as the member `result` of an object. A call of
/// `asks` adds a tool.
fn wrapping() -> Server {
    async fn numbers() -> CallToolResult {
        let mut result = CallToolResult::new(Vec::new());
        result.structured_content = Some(Payload::from_trusted("[1,2]"));
        result
    }
    let wraps = around(|call: Call, inner: Stack| async move {
        let is_legacy = call.cx().caller.era == Era::Legacy;
        let is_list = is_legacy && call.is::<ToolsList>();
        let is_touch = is_legacy && call.tool().is_some_and(|tool| tool.name == "touch");
        let reply = inner.send(call).await?;
        if !is_list && !is_touch {
            return Ok(reply);
        }
        let mut result: Value = reply.get()?;
        if is_touch {
            result["structuredContent"] = json!({ "result": [1, 2] });
        }
        let tools = result.get_mut("tools").and_then(Value::as_array_mut);
        for tool in tools.into_iter().flatten().filter(|tool| tool["name"] == "touch") {
            let properties = json!({ "result": { "type": "array" } });
            let required = json!(["result"]);
            tool["outputSchema"] =
                json!({ "type": "object", "properties": properties, "required": required });
        }
        Reply::of(&result)
    });
    let server = apart();
    let tools = server.tools();
    let adds = Tool::new("asks", "Adds a tool", move || {
        tools.add(Tool::new("late", "Nothing", || async { "done" }));
        async { "done" }
    });
    let schema = RawObject::of(&json!({ "type": "array" })).unwrap();
    let touch = Tool::new("touch", "Lists numbers", numbers).output_schema(schema);
    server.replace(touch).replace(adds).layer(wraps)
}

/// Starts a kernel with a server. Also returns a counter of the starts of the server.
async fn world(create: fn() -> Server) -> (Kernel, Arc<AtomicUsize>) {
    let starts: Arc<AtomicUsize> = Arc::default();
    let counts = Arc::clone(&starts);
    let counted = move || {
        counts.fetch_add(1, Ordering::SeqCst);
        create()
    };
    (kernel_with("a", open(&TOOLS), TOOLS.len(), counted).await, starts)
}

async fn text(host: &Client, tool: &str) -> String {
    host.call(tool).await.unwrap().to_text()
}

#[tokio::test]
async fn a_legacy_host_is_not_cut_off_from_a_server_that_asks_in_the_legacy_era_only() {
    let (kernel, starts) = world(apart).await;
    let modern = host(&kernel, "bob", answering(Era::Modern)).await;
    assert_eq!(text(&modern, "era").await, "modern");
    assert_eq!(starts.load(Ordering::SeqCst), 1, "no second session before it is needed");

    let legacy = host(&kernel, "ann", answering(Era::Legacy)).await;
    assert_eq!(text(&legacy, "form").await, "Ann");
    assert_eq!(text(&legacy, "era").await, "legacy");
    assert_eq!(text(&modern, "era").await, "modern", "each caller keeps its era");
    assert_eq!(starts.load(Ordering::SeqCst), 2, "one session for each era");
    let servers = kernel.servers();
    assert_eq!((servers.len(), servers[0].era.as_deref()), (1, Some("modern+legacy")));

    kernel.stop_server(&"a".into()).await;
    assert_eq!(kernel.servers()[0].era, None, "both sessions end");
    assert!(legacy.call("form").await.is_err(), "and no call starts one");
    kernel.start_server(&"a".into()).await;
    assert_eq!(text(&legacy, "form").await, "Ann");
}

#[tokio::test]
async fn the_form_of_structured_content_in_the_legacy_era_is_no_change_of_the_tool() {
    let (kernel, _) = world(wrapping).await;
    let modern = host(&kernel, "bob", answering(Era::Modern)).await;
    let legacy = host(&kernel, "ann", answering(Era::Legacy)).await;
    let content = async |host: &Client| {
        let result = host.call("touch").await.unwrap();
        result.structured_content.map(|content| content.as_str().to_owned())
    };
    for is_read_in_legacy_session in [false, true] {
        if is_read_in_legacy_session {
            assert_eq!(text(&legacy, "asks").await, "done");
            wait_for_tools(&kernel, "a", TOOLS.len() + 1).await;
        }
        assert_eq!(content(&legacy).await.as_deref(), Some(r#"{"result":[1,2]}"#));
        assert_eq!(content(&modern).await.as_deref(), Some("[1,2]"));
        let tools = modern.tools().await.unwrap();
        let touch = tools.iter().find(|tool| tool.name == "touch").unwrap();
        let schema = touch.output_schema.as_ref().unwrap().as_payload();
        assert_eq!(schema.as_str(), r#"{"type":"array"}"#);
    }
}

#[tokio::test]
async fn a_server_that_asks_modern_callers_has_one_session() {
    let both = || {
        let form = Tool::new("form", "Asks", |cx: Context| async move {
            let guest = cx.elicit::<Guest>("Who comes?").await?.accepted();
            Ok::<_, RpcError>(guest.map_or_else(|| "declined".to_owned(), |guest| guest.name))
        });
        let more = TOOLS[1..].iter().map(|&name| Tool::new(name, "Nothing", || async { "done" }));
        more.fold(Server::new("b", "1").tool(form), Server::tool)
    };
    let (kernel, starts) = world(both).await;
    for era in [Era::Legacy, Era::Modern] {
        let host = host(&kernel, "ann", answering(era)).await;
        assert_eq!(text(&host, "form").await, "Ann", "{era:?}");
    }
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    assert_eq!(kernel.servers()[0].era.as_deref(), Some("modern"));
}

#[tokio::test]
async fn a_modern_server_that_refuses_the_legacy_era_serves_legacy_hosts() {
    let (kernel, starts) = world(|| limit_era(apart(), Era::Modern)).await;
    let legacy = host(&kernel, "ann", answering(Era::Legacy)).await;
    assert_eq!(text(&legacy, "era").await, "modern");
    let tried = starts.load(Ordering::SeqCst);
    assert_eq!(text(&legacy, "era").await, "modern");
    assert_eq!(starts.load(Ordering::SeqCst), tried, "the refusal is remembered");
    assert_eq!(kernel.servers()[0].restarts, 0, "a refusal is not a failure to retry");
}

#[tokio::test]
async fn a_server_is_told_only_what_its_caller_can_answer() {
    let (kernel, _) = world(apart).await;
    for (era, asks) in [
        (Era::Modern, "true false false"),
        // Several hosts may share the legacy session. So the kernel declares capabilities in it that this host lacks.
        // It declares no roots, because the server would keep the roots of one host for all.
        (Era::Legacy, "true true false"),
    ] {
        let able = host(&kernel, "ann", answering(era)).await;
        assert_eq!(text(&able, "asks").await, asks, "{era:?}");
        let unable = host(&kernel, "bob", host_of(era)).await;
        assert_eq!(text(&unable, "asks").await, "false false false", "{era:?}");
    }
}

#[tokio::test]
async fn a_legacy_host_is_notified_of_resources_in_its_own_era() {
    let (kernel, starts) = world(apart).await;
    let updates: Arc<AtomicUsize> = Arc::default();
    let counts = Arc::clone(&updates);
    let builder = answering(Era::Legacy).on_change(move |what| {
        if *what == ServerChange::Resource("test://news".to_owned()) {
            counts.fetch_add(1, Ordering::SeqCst);
        }
    });
    let host = host(&kernel, "ann", builder).await;
    host.subscribe("test://news").await.unwrap();
    assert_eq!(starts.load(Ordering::SeqCst), 2);
    // The tool runs in the process of the legacy session, so the notification comes from that process.
    assert_eq!(text(&host, "touch").await, "done");
    until("the host is notified", || async { updates.load(Ordering::SeqCst) > 0 }).await;
    kernel.stop_server(&"a".into()).await;
    kernel.start_server(&"a".into()).await;
    let before = updates.load(Ordering::SeqCst);
    until("it is notified after a restart", || async {
        let _ = host.call("touch").await;
        updates.load(Ordering::SeqCst) > before + 1
    })
    .await;
}

#[tokio::test]
async fn a_legacy_host_is_notified_by_a_server_with_subscriptions_in_the_modern_era_only() {
    let server = || {
        // The tool announces the change in the session of its caller. No client is subscribed in this session.
        let touch = Tool::new("touch", "Changes the news", |cx: Context| async move {
            let changed = ResourceUpdatedParams::new("test://news");
            let call = Call::tell::<ResourcesUpdated>(&changed, cx.peer.context(&cx.scope))?;
            cx.peer.send(call).await?;
            Ok::<_, RpcError>("done")
        });
        let refuses = around(|call: Call, inner: Stack| async move {
            if call.is::<ResourcesSubscribe>() {
                return Err(RpcError::method_not_found(ResourcesSubscribe::METHOD));
            }
            inner.send(call).await
        });
        apart().replace(touch).layer(refuses)
    };
    let (kernel, _) = world(server).await;
    let updates: Arc<AtomicUsize> = Arc::default();
    let counts = Arc::clone(&updates);
    let builder = answering(Era::Legacy).on_change(move |what| {
        if *what == ServerChange::Resource("test://news".to_owned()) {
            counts.fetch_add(1, Ordering::SeqCst);
        }
    });
    let host = host(&kernel, "ann", builder).await;
    host.subscribe("test://news").await.unwrap();
    assert_eq!(text(&host, "era").await, "legacy");
    assert_eq!(text(&host, "touch").await, "done");
    until("the host is notified", || async { updates.load(Ordering::SeqCst) > 0 }).await;
}

#[tokio::test]
async fn a_question_keeps_its_key_while_nothing_else_has_it() {
    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
    for (_, below) in PAIRS.into_iter().filter(|(above, _)| *above == Era::Modern) {
        let create = move || {
            let form = Tool::new("form", "Asks", |cx: Context| async move {
                let ask = cx.elicit::<Guest>("Who comes?").key("user_name");
                Ok::<_, RpcError>(ask.await?.accepted().map_or_else(String::new, |one| one.name))
            });
            limit_era(Server::new("a", "1").tool(form), below)
        };
        let kernel = kernel_with("a", open(&TOOLS), 1, create).await;
        let mut caller = mock::client(kernel.server().into_stack().unwrap());
        let params = format!(r#"{{"name":"form",{META}}}"#);
        let reply = caller.call("tools/call", &params).await.unwrap();
        let Reply::InputRequired(needed) = reply else { panic!("{reply:?}") };
        let key = needed.asks[0].0.as_str();
        // A legacy server sends no keys with its questions, so the kernel generates the key.
        assert!(key == "user_name" || below == Era::Legacy && !key.contains("user_name"), "{key}");
        // Drop the kernel without `stop`, which would wait for the call, because its question stays unanswered.
    }
}
