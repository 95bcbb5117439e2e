//! Tests that the server notifies clients of its states if they negotiated this, in both eras.

use std::time::Duration;

use mgp_types::mgp::ShutdownReason;
use serde_json::{Value, json};

use crate::world::{Began, World, call, request, server};

fn meta(extensions: &[&str]) -> Value {
    let mgp = json!({"version": "0.3.0", "extensions": extensions});
    mgp_testkit::modern_meta(&json!({"extensions": {"dev.cloto/mgp": mgp}}))
}

fn listens(id: u64, extensions: &[&str]) -> Value {
    let params = json!({"notifications": {}, "_meta": meta(extensions)});
    request(id, "subscriptions/listen", params)
}

#[tokio::test]
async fn a_modern_stream_carries_the_states_and_is_completed() {
    let mut world = World::without_handshake(server(&Began::default()));
    world.write(&listens(1, &["lifecycle"])).await;
    let acknowledged = world.receive().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    world.write(&listens(2, &["streaming"])).await;
    world.receive().await.unwrap();

    world.drain.begin(ShutdownReason::ResourceLimit, Duration::from_secs(30));
    let mut received = Vec::new();
    while let Some(message) = world.receive().await {
        received.push(message);
    }
    world.serving.await.unwrap().unwrap();
    let id = "io.modelcontextprotocol/subscriptionId";
    let states: Vec<_> = received.iter().filter(|one| one["method"].is_string()).collect();
    assert_eq!(states.len(), 2, "{received:?}");
    for (change, (from, to)) in
        states.iter().zip([("connected", "draining"), ("draining", "disconnected")])
    {
        let params = &change["params"];
        assert_eq!((&params["previous_state"], &params["new_state"]), (&from.into(), &to.into()));
        assert_eq!(params["reason"], "resource_limit");
        assert!(params["timestamp"].is_string());
        assert_eq!(params["_meta"][id], 1, "{change}");
    }
    let mut ended: Vec<_> = received.iter().filter(|one| one["id"].is_u64()).collect();
    ended.sort_by_key(|one| one["id"].as_u64());
    assert_eq!(ended.len(), 2, "both streams are completed: {received:?}");
    for (answer, number) in ended.into_iter().zip(1..) {
        assert_eq!(answer["result"]["resultType"], "complete");
        assert_eq!(answer["result"]["_meta"][id], number);
    }
    let last = received.iter().position(|one| one["id"].is_u64()).unwrap();
    assert!(
        received[..last].iter().filter(|one| one["method"].is_string()).count() == 2,
        "{received:?}"
    );
}

#[tokio::test]
async fn the_server_sends_its_own_id() {
    let server = server(&Began::default()).offer(|offer| {
        offer.mgp.as_mut().unwrap().server_id = Some("mind.cerebras".to_owned());
    });
    let mut world = World::new(server).await;
    world.write(&call(1, "sleep", 20)).await;
    let shutdown = json!({"server_id": "mind.cerebras", "timeout_ms": 5_000});
    world.write(&request(2, "mgp/lifecycle/shutdown", shutdown)).await;
    let other = json!({"server_id": "tool.terminal"});
    world.write(&request(3, "mgp/lifecycle/shutdown", other)).await;
    let mut received = Vec::new();
    while let Some(message) = world.receive().await {
        received.push(message);
    }
    let of = |id: u64| &received.iter().find(|one| one["id"] == id).unwrap()["result"];
    assert_eq!((&of(2)["accepted"], &of(2)["pending_requests"]), (&true.into(), &1.into()));
    assert_eq!(
        (&of(3)["status"], &of(3)["server_id"]),
        (&"not_found".into(), &"tool.terminal".into())
    );
    let change = received.iter().find(|one| one["method"].is_string()).unwrap();
    assert_eq!(change["params"]["server_id"], "mind.cerebras");
    assert_eq!(change["params"]["reason"], "operator_request");
}

#[tokio::test]
async fn a_server_that_drains_is_degraded() {
    let mut world = World::new(server(&Began::default())).await;
    world.write(&call(1, "sleep", 200)).await;
    world.write(&request(2, "mgp/health/ping", json!({}))).await;
    assert_eq!(world.receive().await.unwrap()["result"]["status"], "healthy");
    world.write(&request(3, "mgp/lifecycle/shutdown", json!({}))).await;
    world.write(&request(4, "mgp/health/ping", json!({}))).await;
    let received = world.rest().await;
    assert_eq!(received.answers[&4]["result"]["status"], "degraded", "{received:?}");
}
