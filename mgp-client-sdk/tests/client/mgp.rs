//! Tests of the typed methods: the client sends a method if it is negotiated, and refuses it otherwise.

use std::sync::{Arc, Mutex};

use mgp_client_sdk::{Client, Error, TestClient};
use mgp_server_sdk::Server;
use mgp_types::mcp::{
    CompleteReference, LogLevel, PromptReference, SubscribeParams, SubscriptionFilter, TaskStatus,
};
use mgp_types::method::{LifecycleNotification, ResourcesSubscribe, methods};
use mgp_types::mgp::{
    AccessQueryParams, CancelParams, DiscoverToolsParams, DiscoveryListParams, SessionParams,
};
use mgp_types::service::{Call, Kind, Method, Params};
use mgp_types::{ErrorCode, Id, RpcError};
use serde_json::json;

use crate::script::{Script, plain};

#[tokio::test]
async fn methods_that_are_not_negotiated_are_refused_locally() {
    for client in [
        TestClient::new(Server::new("s", "1").without_mgp()).await,
        TestClient::with_builder(Server::new("s", "1"), plain()).await,
    ] {
        let mgp = client.mgp();
        let refused = [
            (mgp.health_ping().await.map(drop), "lifecycle"),
            (mgp.health_status().await.map(drop), "lifecycle"),
            (mgp.stream_cancel(&CancelParams::new(Id::Number(1))).await.map(drop), "streaming"),
            (mgp.access_query(&AccessQueryParams::new("a", "s")).await.map(drop), "access_control"),
            (mgp.discovery_list(&DiscoveryListParams::new()).await.map(drop), "discovery"),
            (mgp.tools_session(&SessionParams::new()).await.map(drop), "tool_discovery"),
        ];
        for (outcome, extension) in refused {
            let error = outcome.unwrap_err();
            assert_eq!(error.code(), ErrorCode::METHOD_NOT_FOUND);
            let says =
                format!("needs the extension `{extension}`, which the server did not negotiate");
            assert!(error.message().ends_with(&says), "{error}");
        }
        assert_eq!(client.monitor().pending(), 0);
    }
}

/// Sends every method and notification of MGP in both directions over a connection that negotiated none of them.
#[tokio::test]
async fn a_plain_connection_carries_nothing_of_mgp() {
    for modern in [false, true] {
        let builder = || Client::builder("c", "1");
        let (client, mut script) = if modern {
            Script::modern(builder(), json!({})).await
        } else {
            Script::legacy(builder(), json!({})).await
        };
        // Leave out the methods that a kernel serves for its operators: they belong to no extension and are always
        // sent.
        for info in methods().filter(|info| info.is_mgp() && !info.is_kernel_only()) {
            let (method, cx) = (Method::from_static(info.name), client.context());
            let call = match info.kind {
                Kind::Request => Call::request(method, Params::none(), cx),
                Kind::Notification => Call::notification(method, Params::none(), cx),
            };
            let outcome = client.stack().send(call).await;
            match info.kind {
                Kind::Request => assert_eq!(outcome.unwrap_err().code().0, -32601, "{}", info.name),
                Kind::Notification => assert!(outcome.is_ok(), "{}", info.name),
            }
            let mut message = json!({ "jsonrpc": "2.0", "method": info.name, "params": {} });
            if info.kind == Kind::Request {
                message["id"] = json!(info.name);
            }
            script.write(&message).await;
            if info.kind == Kind::Request {
                // The client's first message must be this answer, so it has sent neither the call nor the notification.
                let answer = script.read().await.unwrap();
                assert_eq!(answer["id"], info.name, "{answer}");
                assert_eq!(answer["error"]["code"], -32601);
                assert!(answer["error"]["data"].is_null(), "{answer}");
            }
        }
        client.close().await;
        assert!(script.read().await.is_none());
    }
}

#[tokio::test]
async fn a_finished_call_cannot_be_cancelled() {
    for client in [
        TestClient::legacy(Server::new("s", "1")).await,
        TestClient::modern(Server::new("s", "1")).await,
    ] {
        let cancelled = client.mgp().stream_cancel(&CancelParams::new(Id::Number(1))).await;
        assert!(!cancelled.unwrap().cancelled);
    }
}

#[tokio::test]
async fn all_of_mgp_goes_over_the_wire_and_back() {
    let states = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&states);
    let builder = Client::builder("c", "1")
        .on::<LifecycleNotification>(move |params| hook.lock().unwrap().push(params.new_state));
    let all = ["access_control", "lifecycle", "streaming", "discovery", "tool_discovery"];
    let capabilities = json!({ "mgp": { "version": "0.3.0", "extensions": all } });
    let (client, mut script) = Script::legacy(builder, capabilities).await;
    let server = tokio::spawn(async move {
        let ping = script.serve("mgp/health/ping", json!({ "status": "healthy" })).await;
        assert!(ping["params"]["timestamp"].is_string());
        script.serve("mgp/health/status", json!({ "status": "degraded" })).await;
        let found = json!({ "tools": [], "total_available": 0, "query_time_ms": 1, "search_strategy": "keyword" });
        script.serve("mgp/tools/discover", found).await;
        // The server sends a request of its own, and notifications.
        script.send("mgp/health/ping", json!({})).await;
        assert_eq!(script.read().await.unwrap()["result"]["status"], "healthy");
        script.notify("notifications/mgp.lifecycle", json!({ "new_state": "draining" })).await;
        script.notify("notifications/mgp.audit", json!({})).await;
        script.serve("ping", json!({})).await;
    });
    assert!(client.mgp().health_ping().await.is_ok());
    assert!(client.mgp().health_status().await.is_ok());
    let found = client.mgp().tools_discover(&DiscoverToolsParams::new()).await;
    assert!(found.is_ok(), "{found:?}");
    client.ping().await.unwrap();
    server.await.unwrap();
    assert_eq!(states.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn the_rest_of_mcp_is_typed() {
    let (client, mut script) = Script::legacy(plain(), json!({})).await;
    let task = json!({ "taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z" });
    let server = tokio::spawn(async move {
        script
            .serve("resources/read", json!({ "contents": [{ "uri": "a:b", "text": "x" }] }))
            .await;
        script.serve("resources/subscribe", json!({})).await;
        script.serve("resources/unsubscribe", json!({})).await;
        let prompt = script.serve("prompts/get", json!({ "messages": [] })).await;
        assert_eq!(prompt["params"]["arguments"], json!({ "a": "b" }));
        let typed = script
            .serve("completion/complete", json!({ "completion": { "values": ["paris"] } }))
            .await;
        assert_eq!(typed["params"]["ref"], json!({ "type": "ref/prompt", "name": "p" }));
        let level = script.serve("logging/setLevel", json!({})).await;
        assert_eq!(level["params"]["level"], "warning");
        script.serve("tasks/get", task).await;
        script.serve("tasks/cancel", json!({})).await;
        assert_eq!(script.read().await.unwrap()["method"], "notifications/roots/list_changed");
    });
    assert_eq!(client.read_resource("a:b").await.unwrap().contents[0].text.as_deref(), Some("x"));
    client.subscribe("a:b").await.unwrap();
    client.unsubscribe("a:b").await.unwrap();
    assert!(client.get_prompt("p", [("a", "b")]).await.unwrap().messages.is_empty());
    let reference = CompleteReference::Prompt(PromptReference::new("p"));
    let known: [(&str, &str); 0] = [];
    let completion = client.complete(reference, "city", "pa", known).await.unwrap();
    assert_eq!(completion.values, ["paris"]);
    client.set_level(LogLevel::Warning).await.unwrap();
    assert_eq!(client.get_task("t").await.unwrap().status, TaskStatus::Working);
    client.cancel_task("t").await.unwrap();
    client.roots_changed().await.unwrap();
    server.await.unwrap();
}

#[tokio::test]
async fn a_method_of_the_other_era_is_not_sent() {
    let modern = TestClient::modern(Server::new("s", "1")).await;
    let legacy = TestClient::legacy(Server::new("s", "1")).await;
    let refused = [
        modern.request::<ResourcesSubscribe>(&SubscribeParams::new("a:b")).await.map(drop),
        modern.set_level(LogLevel::Info).await,
        legacy.listen(SubscriptionFilter::new()).await.map(drop),
        legacy.update_task("t", mgp_types::Object::new()).await,
    ];
    for outcome in refused {
        let error: Error = outcome.unwrap_err();
        assert_eq!(error.code(), ErrorCode::METHOD_NOT_FOUND);
        assert!(error.message().contains("is not part of revision"), "{error}");
    }
    // Ping is available in both eras.
    modern.ping().await.unwrap();
}

/// The table of methods and the typed calls of the client must grow together.
#[test]
fn every_method_to_a_server_has_a_typed_call() {
    use mgp_types::method::Direction;
    let source = concat!(
        include_str!("../../src/client/mgp.rs"),
        include_str!("../../src/client/mcp.rs"),
        include_str!("../../src/client/lists.rs"),
        include_str!("../../src/call/mod.rs"),
        include_str!("../../src/client/skills.rs"),
        include_str!("../../src/client/tasks.rs"),
        include_str!("../../src/events/mod.rs"),
    );
    let to_server = methods().filter(|info| {
        info.kind == Kind::Request
            && info.direction != Direction::ToClient
            && info.marker != "Initialize"
            && !info.is_kernel_only()
            // Leave out methods that begin with `mgp/tx/`, which are other names of `transaction/*`.
            && !info.name.starts_with("mgp/tx/")
    });
    for info in to_server {
        assert!(source.contains(info.marker), "`{}` has no typed call", info.name);
    }
}

/// Regression test: if the client could not read one hint of a server, it replaced all of them by the default hints of
/// the error code, which allow a retry.
#[tokio::test]
async fn a_server_that_forbids_a_retry_is_obeyed_although_another_hint_cannot_be_read() {
    let mgp = json!({ "mgp": { "version": "0.1.0", "extensions": ["lifecycle"] } });
    let (client, mut script) = Script::legacy(Client::builder("c", "1"), mgp).await;
    let refusing = async {
        let request = script.asked("tools/call").await;
        let hints = json!({ "retryable": false, "retry_after_ms": -1, "details": "busy" });
        let error = json!({ "code": 3000, "message": "no", "data": { "_mgp": hints } });
        script.refuse(&request, error).await;
    };
    let (refused, ()) = tokio::join!(client.call("t").into_future(), refusing);
    let error = RpcError::from(refused.unwrap_err());
    let hints = error.as_recovery().unwrap();
    assert_eq!((hints.retryable, hints.retry_after_ms), (Some(false), None));
}
