//! Tests of servers at a URL, which may also have users other than this kernel.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_server_sdk::prelude::*;
use mgp_types::method::{Initialized, KernelServers, LifecycleShutdown, Request as _};
use mgp_types::mgp::{KernelServersParams, ServerState};
use mgp_types::service::{Call, HeaderParams, Principal, gate, mock};
use serde_json::json;
use tokio::sync::Notify;

use super::world::{World, until};
use crate::script::{self, Received, Response};

/// Counts of some kinds of requests that a server has received.
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

/// Serves over HTTP, and returns the configuration of a kernel that uses the server.
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

/// Creates the list of a scripted server's only tool.
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
        // An agent without a pin may not have seen the definition, so a missing header is accepted.
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

#[tokio::test]
async fn an_answered_call_ends_the_report_of_a_missing_login() {
    let calls = AtomicUsize::new(0);
    let server = script::Server::legacy(move |seen| match seen.method() {
        "tools/list" => Some(list(seen)),
        // The server refuses the ping with which the kernel checks it. So only the answered call can end the report.
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

        // A request for the list of servers makes the kernel check whether they answer.
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
