//! Tests of servers at a URL, which may also have users other than this kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::ToolResult as _;
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::Era;
use mgp_types::method::{Initialized, KernelServers, LifecycleShutdown, Request as _};
use mgp_types::mgp::{KernelServersParams, ServerState};
use mgp_types::service::{Call, HeaderParams, Principal, gate, mock};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::world::{World, until};
use crate::route::world::{answering, build, config_of};
use crate::script::{self, Received, Response};

/// The numbers of requests of some kinds that a server has received.
#[derive(Default)]
struct Seen {
    shutdowns: AtomicUsize,
    sessions: AtomicUsize,
    ended: AtomicUsize,
}

#[derive(Deserialize, JsonSchema)]
struct Place {
    /// The region, which the client also sends in a header of the request.
    #[schemars(extend("x-mcp-header" = "Region"))]
    region: String,
}

fn server() -> Server {
    let look = |name: &str| {
        Tool::new(name, "Looks", |Args(place): Args<Place>| async move { place.region })
    };
    Server::new("far", "1").tool(look("pinned")).tool(look("other"))
}

/// Serves a server over HTTP, and returns the configuration of a kernel that uses the server.
async fn serve(server: Server, era: &str) -> String {
    let bound = server.http("127.0.0.1:0").no_auth().bind().await.unwrap();
    let url = format!("http://{}/mcp", bound.local_addr());
    tokio::spawn(bound.run());
    config(&url, era)
}

/// Returns the configuration of a kernel that uses the server at a URL.
fn config(url: &str, era: &str) -> String {
    format!(
        "[agents.ann]\npinned = ['far.pinned']\n\
         [[servers]]\nid = 'far'\nurl = '{url}'\nera = '{era}'\n\
         [servers.mgp]\ndefault_policy = 'opt-out'\nrisk = {{ pinned = 'safe', other = 'safe' }}\n"
    )
}

/// Returns the tool list of a scripted server, with its only tool.
fn list(seen: &Received) -> Response {
    let tools = json!([{ "name": "other", "inputSchema": { "type": "object" } }]);
    script::json_of(&seen.result(&json!({
        "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "private",
    })))
}

#[tokio::test]
async fn a_server_that_others_use_is_not_shut_down() {
    for era in ["modern", "legacy"] {
        let seen: Arc<Seen> = Arc::default();
        let sees = Arc::clone(&seen);
        let watched = server().layer(gate(move |call: &Call| {
            if call.method().as_str() == LifecycleShutdown::METHOD {
                sees.shutdowns.fetch_add(1, Ordering::SeqCst);
            } else if call.tells::<Initialized>() {
                sees.sessions.fetch_add(1, Ordering::SeqCst);
                let ends = Arc::clone(&sees);
                let end = move || {
                    ends.ended.fetch_add(1, Ordering::SeqCst);
                };
                call.cx().scope.on_end(end).keep();
            }
            Ok(())
        }));
        let world = World::new(&serve(watched, era).await).await;
        world.knows("far").await;
        let kernel = &world.kernel;
        let stopped = kernel.stop_server(&"far".into()).await;
        assert_eq!(stopped, Some(ServerState::Disconnected), "{era}: it is not said to drain");
        kernel.start_server(&"far".into()).await;
        assert_eq!(world.server("far").status, ServerState::Connected, "{era}: it still runs");
        let (sessions, ended) = if era == "legacy" { (2, 1) } else { (0, 0) };
        assert_eq!(seen.sessions.load(Ordering::SeqCst), sessions);
        until("the first session has ended", || seen.ended.load(Ordering::SeqCst) == ended).await;
        world.end().await;
        assert_eq!(seen.shutdowns.load(Ordering::SeqCst), 0, "{era}");
    }
}

#[tokio::test]
async fn a_server_that_must_be_public_is_not_reached_on_this_machine() {
    let server = script::Server::legacy(|_| None).await;
    let mut config = config_of(&config(&server.url, "auto"));
    config.servers[0].only_public = true;
    let kernel = build(Kernel::builder().config(config)).await;
    kernel.start_server(&"far".into()).await;
    until("the reason is shown", || {
        let far = kernel.servers().remove(0);
        let reasons = [far.error, far.last_failure].into_iter().flatten().collect::<String>();
        reasons.contains("it is an address of this machine")
    })
    .await;
    assert!(server.seen().is_empty(), "nothing is sent");
    kernel.stop().await;
}

#[tokio::test]
async fn the_event_channels_of_a_removed_server_are_not_listed() {
    let server = server().channel("model.loaded", "A model was loaded");
    let world = World::new(&serve(server, "legacy").await).await;
    world.knows("far").await;
    let operator = world.operator().await;
    let are_listed = async || {
        let channels = operator.events().channels().await.unwrap();
        channels.iter().any(|channel| channel.server_id.as_deref() == Some("far"))
    };
    mgp_testkit::until("its channels are known", async || are_listed().await).await;
    world.write("");
    world.kernel.reload().await.unwrap();
    assert!(!are_listed().await);
    world.end().await;
}

#[tokio::test]
async fn a_header_that_differs_from_its_argument_does_not_pass_the_kernel() {
    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let world = World::new(&serve(server(), "auto").await).await;
    world.knows("far").await;
    for (tool, region, expected) in [
        ("pinned", Some("eu"), None),
        ("pinned", Some("us"), Some(-32020)),
        ("pinned", None, Some(-32020)),
        ("other", Some("us"), Some(-32020)),
        // The tool is not pinned for this agent. So the agent may not know the definition, and the kernel accepts a
        // missing header.
        ("other", None, None),
    ] {
        let mut caller = mock::client(world.kernel.server().into_stack().unwrap());
        caller.cx.principal = Principal::local().agent("ann");
        let mut headers = HeaderParams::new();
        if let Some(region) = region {
            headers.push("Region", region);
        }
        caller.cx.extensions.insert(headers);
        let params = format!(r#"{{"name":"{tool}","arguments":{{"region":"eu"}},{META}}}"#);
        let refused = caller.request("tools/call", &params).await.err();
        assert_eq!(refused.map(|error| error.code().0), expected, "{tool} {region:?}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_server_without_a_description_has_tools_in_either_era() {
    for (accepts, era) in [(true, "legacy"), (false, "modern")] {
        let server = script::Server::legacy(move |seen| match seen.method() {
            "server/discover" => Some(script::refused(404, seen, -32601)),
            "initialize" if !accepts => Some(script::refused(404, seen, -32601)),
            "tools/list" => Some(list(seen)),
            _ => None,
        })
        .await;
        let world = World::new(&config(&server.url, "auto")).await;
        world.knows("far").await;
        assert_eq!(world.server("far").era.as_deref(), Some(era));
        world.agent("ann").await.call("other").await.unwrap();
        world.end().await;
    }
}

/// Starts a server of both eras. In the modern era, its tool asks for a name and returns it; in the legacy era, the
/// tool returns `legacy`. The arguments set the server's behaviour in the legacy era: whether it assigns ids to
/// sessions, whether it answers in JSON instead of event streams, and whether it has a stream for messages outside of
/// calls.
async fn in_both_eras(has_sessions: bool, is_json: bool, has_stream: bool) -> script::Server {
    let mut capabilities = json!({ "tools": {} });
    if has_stream {
        capabilities["resources"] = json!({ "subscribe": true });
    }
    let legacy = move |headers, result: Value| {
        if is_json {
            Response::Whole(200, headers, "application/json", result.to_string())
        } else {
            Response::Events(headers, vec![script::say(&result)])
        }
    };
    script::Server::start(move |seen| {
        let is_modern = seen.header("mcp-protocol-version") == Some("2026-07-28");
        match (&*seen.verb, seen.method()) {
            ("GET", _) if has_stream => script::events([script::Step::Hold]),
            ("GET", _) => script::status(405),
            ("DELETE", _) => script::status(200),
            (_, "server/discover") => script::discovered(seen, &capabilities),
            (_, "initialize") => {
                let result = json!({
                    "protocolVersion": "2025-11-25", "capabilities": capabilities,
                    "serverInfo": { "name": "script", "version": "1" },
                });
                let id = has_sessions.then(|| ("Mcp-Session-Id", "s-1".to_owned()));
                legacy(id.into_iter().collect(), seen.result(&result))
            }
            _ if seen.body.get("id").is_none() => script::status(202),
            (_, "tools/list") => list(seen),
            (_, "resources/list" | "resources/templates/list") => {
                let news = json!([{ "uri": "test://news", "name": "news" }]);
                script::json_of(&seen.result(&json!({
                    "resultType": "complete", "resources": news, "resourceTemplates": [],
                    "ttlMs": 0, "cacheScope": "private",
                })))
            }
            (_, "tools/call") if is_modern => script::json_of(&asked_in_rounds(seen)),
            (_, "tools/call") => legacy(Vec::new(), seen.text("legacy")),
            _ => legacy(Vec::new(), seen.result(&json!({}))),
        }
    })
    .await
}

/// Returns the answer to a modern tool call: a question, or the name in the answer to the question.
fn asked_in_rounds(seen: &Received) -> Value {
    if let Some(name) = seen.body["params"]["inputResponses"]["guest"]["content"]["name"].as_str() {
        return seen.text(name);
    }
    let schema = json!({
        "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"],
    });
    let params = json!({ "mode": "form", "message": "Who comes?", "requestedSchema": schema });
    seen.result(&json!({
        "resultType": "input_required", "requestState": "sealed",
        "inputRequests": { "guest": { "method": "elicitation/create", "params": params } },
    }))
}

#[tokio::test]
async fn a_legacy_host_is_asked_in_rounds_by_a_server_that_cannot_ask_in_the_legacy_era() {
    for (has_sessions, is_json, answer, eras) in [
        (false, false, "Ann", "modern"),
        (false, true, "Ann", "modern"),
        (true, true, "Ann", "modern"),
        (true, false, "legacy", "modern+legacy"),
    ] {
        let case = format!("sessions: {has_sessions}, JSON: {is_json}");
        let server = in_both_eras(has_sessions, is_json, false).await;
        let world = World::new(&config(&server.url, "auto")).await;
        world.knows("far").await;
        let host = world.connect(Principal::local().agent("ann"), answering(Era::Legacy)).await;
        for _ in 0..2 {
            assert_eq!(host.call("other").await.unwrap().to_text(), answer, "{case}");
        }
        assert_eq!(world.server("far").era.as_deref(), Some(eras), "{case}");
        assert_eq!(server.count("initialize"), 1, "{case}: what it cannot do is remembered");
        world.end().await;
    }
}

#[tokio::test]
async fn a_legacy_session_in_which_a_server_cannot_ask_still_notifies_of_resources() {
    let server = in_both_eras(true, true, true).await;
    let world = World::new(&config(&server.url, "auto")).await;
    world.knows("far").await;
    let host = world.connect(Principal::local().agent("ann"), answering(Era::Legacy)).await;
    assert_eq!(host.call("other").await.unwrap().to_text(), "Ann");
    host.subscribe("test://news").await.unwrap();
    assert_eq!(host.call("other").await.unwrap().to_text(), "Ann");
    let seen = server.seen();
    let subscribed = seen.iter().find(|seen| seen.method() == "resources/subscribe").unwrap();
    assert_eq!(subscribed.header("mcp-session-id"), Some("s-1"));
    assert!(seen.iter().all(|seen| seen.verb != "DELETE"), "the calls did not end the session");
    assert_eq!(server.count("initialize"), 1);
    world.end().await;
}

#[tokio::test]
async fn an_answered_call_ends_the_report_of_a_missing_login() {
    let calls = AtomicUsize::new(0);
    let server = script::Server::legacy(move |seen| match seen.method() {
        "tools/list" => Some(list(seen)),
        // The server refuses the pings with which the kernel checks it. So only a call that the server answers can end
        // the report about the credentials.
        "ping" => Some(script::refused(200, seen, -32601)),
        "tools/call" if calls.fetch_add(1, Ordering::SeqCst) == 0 => Some(script::status(401)),
        _ => None,
    })
    .await;
    let world = World::new(&config(&server.url, "legacy")).await;
    world.knows("far").await;
    let ann = world.agent("ann").await;
    assert_eq!(ann.call("other").await.unwrap_err().code().0, 1002);
    assert_eq!(world.server("far").status, ServerState::Error);
    ann.call("other").await.unwrap();
    let now = world.server("far");
    assert_eq!((now.status, now.error), (ServerState::Connected, None));
    world.end().await;
}

#[tokio::test]
async fn a_call_of_an_unlisted_tool_asks_for_the_missing_login() {
    for refused in ["initialize", "tools/list"] {
        let server = script::Server::legacy(move |seen| match seen.method() {
            method if method == refused => Some(script::status(401)),
            "ping" => Some(script::refused(200, seen, -32601)),
            _ => None,
        })
        .await;
        let world = World::new(&config(&server.url, "legacy")).await;
        let ann = world.agent("ann").await;
        let error = ann.call("far.other").await.unwrap_err();
        assert_eq!(error.code().0, 1002, "{refused}: {error}");
        assert!(error.message().contains("mgp servers login far"), "{refused}: {error}");
        assert!(!error.is_retryable(), "{refused}: {error}");
        world.end().await;
    }
}

#[tokio::test]
async fn a_check_that_a_proxy_refuses_once_ends_neither_the_session_nor_its_calls() {
    for status in [403, 503] {
        let (pings, done) = (AtomicUsize::new(0), Arc::new(Notify::new()));
        let is_done = Arc::clone(&done);
        let server = script::Server::legacy(move |seen| match seen.method() {
            "tools/list" => Some(list(seen)),
            "tools/call" => {
                let steps =
                    [script::Step::Until(Arc::clone(&is_done)), script::say(&seen.text("done"))];
                Some(script::events(steps))
            }
            "ping" if pings.fetch_add(1, Ordering::SeqCst) == 0 => Some(script::status(status)),
            _ => None,
        })
        .await;
        let world = World::new(&config(&server.url, "legacy")).await;
        world.knows("far").await;
        let ann = world.agent("ann").await;
        let running = tokio::spawn(async move { ann.call("other").await });
        until("the call runs", || server.count("tools/call") == 1).await;

        // When an operator requests the list of servers, the kernel checks whether they answer.
        let operator = world.operator().await;
        let params = KernelServersParams::new();
        let listed = operator.request::<KernelServers>(&params).await.unwrap();
        let refused = &listed.servers[0];
        assert_eq!(refused.status, ServerState::Connected);
        assert!(refused.error.as_ref().unwrap().contains(&format!("HTTP {status}")), "{refused:?}");
        mgp_testkit::until("the next check succeeds", async || {
            let listed = operator.request::<KernelServers>(&params).await.unwrap();
            listed.servers[0].error.is_none()
        })
        .await;
        done.notify_one();
        running.await.unwrap().unwrap();
        assert_eq!(server.count("initialize"), 1, "there is one session");
        world.end().await;
    }
}
