//! Tests of health, shutdown and cancellation through a kernel: as methods with a `server_id`, and as tools (MGP §11,
//! §12.7).

use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::{Client, ToolResult as _};
use mgp_discovery::GovernanceConfig;
use mgp_kernel::Kernel;
use mgp_lifecycle::EraChoice;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::Era;
use mgp_types::method::{HealthPing, HealthStatusGet, LifecycleShutdown};
use mgp_types::mgp::{
    AccessGrantParams, HealthStatus, LifecycleParams, PingParams, ServerState, ShutdownParams,
    StatusParams, StatusResult,
};
use mgp_types::service::{Call, Principal, ServerId, gate};
use mgp_types::sync::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::world::{
    NotifyOnDrop, PAIRS, build_with_tools, grant, host, host_as, host_of, kernel_with, limit_era,
    open, until,
};

/// Starts a kernel with the MGP server `new` and the plain server `old`.
async fn world(era: Era) -> Kernel {
    let now = |name: &str| Tool::new(name.to_owned(), "The time", || async { "noon" });
    let new = move || limit_era(Server::new("new", "1").tool(now("new_time")), era);
    let old = move || limit_era(Server::new("old", "1").tool(now("old_time")).without_mgp(), era);
    let builder = Kernel::builder().local_with("new", open(&["new_time"]), new).local_with(
        "old",
        open(&["old_time"]),
        old,
    );
    build_with_tools(builder, [("new", 1), ("old", 1)]).await
}

fn ping_of(server: &str) -> PingParams {
    let mut params = PingParams::new();
    params.server_id = Some(server.to_owned());
    params
}

async fn status_of(host: &Client, server: Option<&str>) -> StatusResult {
    let mut params = StatusParams::new();
    params.server_id = server.map(str::to_owned);
    host.request::<HealthStatusGet>(&params).await.unwrap()
}

/// Calls a tool and returns its structured content.
async fn structured(host: &Client, tool: &str, arguments: Value) -> Value {
    let result = host.call(tool).args(arguments).await.unwrap();
    serde_json::from_str(result.structured_content.unwrap().as_str()).unwrap()
}

#[tokio::test]
async fn a_plain_server_and_a_resting_one_are_pinged_without_an_error() {
    for (above, below) in PAIRS {
        let kernel = world(below).await;
        let host = host(&kernel, "ada", host_of(above)).await;
        for server in ["new", "old"] {
            let answer = host.request::<HealthPing>(&ping_of(server)).await.unwrap();
            assert_eq!(answer.status, HealthStatus::Healthy, "{server} {answer:?}");
            assert_eq!(answer.server_id.as_deref(), Some(server), "{answer:?}");
            let status = status_of(&host, Some(server)).await;
            assert_eq!(status.tools_total, Some(1), "{server}");
            assert_eq!(status.server_id.as_deref(), Some(server), "{status:?}");
            assert!(status.pending_requests.is_some(), "{status:?}");
        }
        // After an operator has stopped the server, a ping does not start it. The answer to the ping reports the state
        // of the server.
        kernel.stop_server(&ServerId::from("new")).await.unwrap();
        let answer = host.request::<HealthPing>(&ping_of("new")).await.unwrap();
        assert_eq!(answer.status, HealthStatus::Degraded, "{answer:?}");
        assert_eq!(answer.state, Some(ServerState::Disconnected), "{answer:?}");
    }
}

#[tokio::test]
async fn the_status_of_a_kernel_counts_the_tools_behind_it() {
    let kernel = world(Era::Legacy).await;
    let host = host(&kernel, "ada", host_of(Era::Legacy)).await;
    let status = status_of(&host, None).await;
    assert_eq!((status.tools_total, status.tools_available), (Some(2), Some(2)), "{status:?}");
    kernel.stop_server(&ServerId::from("new")).await.unwrap();
    let status = status_of(&host, None).await;
    assert_eq!((status.tools_total, status.tools_available), (Some(2), Some(1)), "{status:?}");
    // The kernel must not count the tools of a server to which the caller has no access.
    grant(&kernel, AccessGrantParams::deny("ada", "old")).await;
    let status = status_of(&host, None).await;
    assert_eq!((status.tools_total, status.tools_available), (Some(1), Some(0)), "{status:?}");
    let add = |client| kernel.clients().add(client, mgp_kernel::ClientTransport::Socket);
    let (_present, _foreign) = (add(Principal::local()), add(Principal::new("acme", "eve")));
    let resources = status_of(&host, None).await.resources.unwrap();
    assert_eq!(resources.get("open_connections").unwrap().as_str(), "1");
}

#[tokio::test]
async fn health_is_a_tool_of_the_kernel_in_every_spelling() {
    let kernel = world(Era::Legacy).await;
    for era in [Era::Legacy, Era::Modern] {
        let host = host(&kernel, "ada", host_of(era).without_mgp()).await;
        for name in ["mgp.health.ping", "mgp_health_ping", "mgp/health/ping"] {
            let answer = structured(&host, name, json!({ "server_id": "old" })).await;
            assert_eq!(answer["status"], "healthy", "{answer}");
            assert_eq!(answer["server_id"], "old", "{answer}");
        }
        let answer = structured(&host, "mgp.health.status", json!({})).await;
        assert_eq!(answer["tools_total"], 2, "{answer}");
    }
}

#[tokio::test]
async fn only_an_operator_shuts_a_server_down_by_a_tool() {
    let kernel = world(Era::Legacy).await;
    let host = host(&kernel, "ada", host_of(Era::Legacy)).await;
    for arguments in [json!({}), json!({ "server_id": "new" })] {
        let refused = host.call("mgp.lifecycle.shutdown").args(arguments).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::PERMISSION_DENIED, "{refused}");
    }
    // The refused calls must not have shut the kernel down.
    assert_eq!(host.call("new_time").await.unwrap().to_text(), "noon");
}

/// Starts a kernel with a server whose tool `waits` never answers. Also returns two handles that are notified when a
/// call begins and when it ends.
async fn world_that_waits() -> (Kernel, Arc<Notify>, Arc<Notify>) {
    let (begun, ended) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let parts = (Arc::clone(&begun), Arc::clone(&ended));
    let make = move || {
        let (begun, ended) = (Arc::clone(&parts.0), Arc::clone(&parts.1));
        let waits = Tool::new("waits", "Waits", move || {
            let (begun, ended) = (Arc::clone(&begun), Arc::clone(&ended));
            async move {
                let _end = NotifyOnDrop(ended);
                begun.notify_one();
                std::future::pending::<()>().await;
                "never"
            }
        });
        Server::new("w", "1").tool(waits)
    };
    let kernel = kernel_with("w", open(&["waits"]), 1, make).await;
    (kernel, begun, ended)
}

#[tokio::test]
async fn a_shutdown_of_a_server_ends_its_calls_after_the_timeout_of_the_request() {
    let (kernel, begun, ended) = world_that_waits().await;
    let caller = host(&kernel, "ada", host_of(Era::Legacy)).await;
    let waiting = tokio::spawn(async move { caller.call("waits").await });
    begun.notified().await;
    let operator = host_as(&kernel, Principal::local().operator(), host_of(Era::Legacy)).await;
    let mut params = ShutdownParams::new();
    params.server_id = Some("w".to_owned());
    params.timeout_ms = Some(100);
    let result = operator.mgp().lifecycle_shutdown(&params).await.unwrap();
    assert_eq!((result.accepted, result.pending_requests), (true, Some(1)));
    assert_eq!(result.estimated_drain_ms, Some(100));
    // The kernel must end the server within this time. With its default time limit, the drain would wait for the call
    // for 30 s.
    let limit = Duration::from_secs(10);
    tokio::time::timeout(limit, ended.notified()).await.unwrap();
    assert!(tokio::time::timeout(limit, waiting).await.unwrap().unwrap().is_err());
    operator.close().await;
}

/// Regression test: the server received the kernel's own time limit, e.g. 30 s, whatever the request contained.
#[tokio::test]
async fn the_timeout_of_a_shutdown_reaches_the_server() {
    let received: Arc<Mutex<Option<ShutdownParams>>> = Arc::default();
    let sees = Arc::clone(&received);
    let make = move || {
        let sees = Arc::clone(&sees);
        let now = Tool::new("now", "The time", || async { "noon" });
        Server::new("w", "1").tool(now).around(gate(move |call: &Call| {
            if call.is::<LifecycleShutdown>() {
                *sees.lock() = Some(call.params().get()?);
            }
            Ok(())
        }))
    };
    let kernel = kernel_with("w", open(&["now"]), 1, make).await;
    let operator = host_as(&kernel, Principal::local().operator(), host_of(Era::Legacy)).await;
    let mut params = ShutdownParams::new();
    params.server_id = Some("w".to_owned());
    params.timeout_ms = Some(1234);
    assert!(operator.mgp().lifecycle_shutdown(&params).await.unwrap().accepted);
    until("the server is asked to stop", async || received.lock().is_some()).await;
    let received = received.lock().take().unwrap();
    assert_eq!((received.timeout_ms, received.server_id), (Some(1234), None));
    operator.close().await;
}

#[tokio::test]
async fn a_call_is_cancelled_by_a_tool() {
    let (kernel, begun, ended) = world_that_waits().await;
    let host = host(&kernel, "ada", host_of(Era::Legacy)).await;
    let unknown = structured(&host, "mgp.stream.cancel", json!({ "request_id": 4711 })).await;
    assert_eq!(unknown, json!({ "cancelled": false, "reason": "not_active" }));
    let caller = host.clone();
    let waiting = tokio::spawn(async move { caller.call("waits").await });
    begun.notified().await;
    // Try the first ids of this connection, because the test does not know the id of the call.
    until("the call is cancelled", async || {
        for id in 1..20 {
            let answer = structured(&host, "mgp.stream.cancel", json!({ "request_id": id })).await;
            if answer["cancelled"] == true {
                return true;
            }
        }
        false
    })
    .await;
    ended.notified().await;
    let _ = waiting.await;
}

/// Regression test: the kernel did not announce the states of its servers, so a host only noticed that calls failed.
#[tokio::test]
async fn a_state_of_a_server_behind_is_announced_to_those_who_see_it() {
    let seen =
        || Server::new("seen", "1").tool(Tool::new("seen_time", "The time", || async { "noon" }));
    let hidden = || {
        Server::new("hidden", "1").tool(Tool::new("other_time", "The time", || async { "noon" }))
    };
    let builder = Kernel::builder();
    let builder = builder.local_with("seen", open(&["seen_time"]), seen);
    let builder = builder.local_with("hidden", GovernanceConfig::default(), hidden);
    let kernel = build_with_tools(builder, [("seen", 1), ("hidden", 1)]).await;
    let (send, mut states) = tokio::sync::mpsc::unbounded_channel();
    let told = move |change: &LifecycleParams| drop(send.send(change.clone()));
    let plain = Client::builder("plain", "1")
        .era(EraChoice::Legacy)
        .without_mgp()
        .on_lifecycle(|_| panic!("plain"));
    let plain = host(&kernel, "bob", plain).await;
    let host = host(&kernel, "ada", host_of(Era::Legacy).on_lifecycle(told)).await;
    host.list_tools().await.unwrap();
    kernel.stop_server(&ServerId::from("hidden")).await.unwrap();
    kernel.stop_server(&ServerId::from("seen")).await.unwrap();
    let mut heard = Vec::new();
    while heard.last() != Some(&ServerState::Disconnected) {
        let change =
            tokio::time::timeout(Duration::from_secs(10), states.recv()).await.unwrap().unwrap();
        assert_eq!(change.server_id.as_deref(), Some("seen"), "{change:?}");
        assert!(change.previous_state.is_some() && change.timestamp.is_some(), "{change:?}");
        heard.push(change.new_state);
    }
    assert!(heard.contains(&ServerState::Draining), "{heard:?}");
    plain.ping().await.unwrap();
}

#[tokio::test]
async fn a_result_of_the_kernels_own_tool_names_its_source_to_mgp_peers_only() {
    for era in [Era::Legacy, Era::Modern] {
        let kernel = world(era).await;
        for (builder, expected) in [(host_of(era), true), (host_of(era).without_mgp(), false)] {
            let host = host(&kernel, "ada", builder).await;
            let own = host.call("mgp.health.ping").args(json!({})).await.unwrap();
            let text = serde_json::to_string(&own).unwrap();
            assert_eq!(text.contains(r#""_mgp":{"source":"kernel"}"#), expected, "{text}");
            // The result of another server's tool must not name the kernel as its source.
            let other = host.call("new.new_time").await.unwrap();
            let text = serde_json::to_string(&other).unwrap();
            assert!(!text.contains(r#""source""#), "{text}");
            host.close().await;
        }
    }
}
