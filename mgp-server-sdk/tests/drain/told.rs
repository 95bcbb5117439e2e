//! Notifications of the server's states to clients that negotiated them, in both eras.

use std::time::Duration;

use mgp_types::mgp::ShutdownReason;
use serde_json::{Value, json};

use crate::world::{Began, World, call, request, server};

fn meta(extensions: &[&str]) -> Value {
    let mgp = json!({"version": "0.3.0", "extensions": extensions});
    json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {"dev.cloto/mgp": mgp}},
    })
}

fn listens(id: u64, extensions: &[&str]) -> Value {
    let params = json!({"notifications": {}, "_meta": meta(extensions)});
    request(id, "subscriptions/listen", params)
}

#[tokio::test]
async fn a_modern_stream_carries_the_states_and_is_completed() {
    let mut world = World::without_hands(server(&Began::default()));
    world.say(&listens(1, &["lifecycle"])).await;
    let acknowledged = world.hear().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    world.say(&listens(2, &["streaming"])).await;
    world.hear().await.unwrap();

    world.drain.begin(ShutdownReason::ResourceLimit, Duration::from_secs(30));
    let mut heard = Vec::new();
    while let Some(message) = world.hear().await {
        heard.push(message);
    }
    world.serving.await.unwrap().unwrap();
    let id = "io.modelcontextprotocol/subscriptionId";
    let states: Vec<_> = heard.iter().filter(|one| one["method"].is_string()).collect();
    assert_eq!(states.len(), 2, "{heard:?}");
    for (change, (from, to)) in
        states.iter().zip([("connected", "draining"), ("draining", "disconnected")])
    {
        let params = &change["params"];
        assert_eq!((&params["previous_state"], &params["new_state"]), (&from.into(), &to.into()));
        assert_eq!(params["reason"], "resource_limit");
        assert!(params["timestamp"].is_string());
        assert_eq!(params["_meta"][id], 1, "{change}");
    }
    let mut ended: Vec<_> = heard.iter().filter(|one| one["id"].is_u64()).collect();
    ended.sort_by_key(|one| one["id"].as_u64());
    assert_eq!(ended.len(), 2, "both streams are completed: {heard:?}");
    for (answer, number) in ended.into_iter().zip(1..) {
        assert_eq!(answer["result"]["resultType"], "complete");
        assert_eq!(answer["result"]["_meta"][id], number);
    }
    let last = heard.iter().position(|one| one["id"].is_u64()).unwrap();
    assert!(heard[..last].iter().filter(|one| one["method"].is_string()).count() == 2, "{heard:?}");
}

#[tokio::test]
async fn the_server_sends_its_own_id() {
    let server = server(&Began::default()).offer(|offer| {
        offer.mgp.as_mut().unwrap().server_id = Some("mind.cerebras".to_owned());
    });
    let mut world = World::new(server).await;
    world.say(&call(1, "sleep", 20)).await;
    let shutdown = json!({"server_id": "mind.cerebras", "timeout_ms": 5_000});
    world.say(&request(2, "mgp/lifecycle/shutdown", shutdown)).await;
    let other = json!({"server_id": "tool.terminal"});
    world.say(&request(3, "mgp/lifecycle/shutdown", other)).await;
    let mut heard = Vec::new();
    while let Some(message) = world.hear().await {
        heard.push(message);
    }
    let of = |id: u64| &heard.iter().find(|one| one["id"] == id).unwrap()["result"];
    assert_eq!((&of(2)["accepted"], &of(2)["pending_requests"]), (&true.into(), &1.into()));
    assert_eq!(
        (&of(3)["status"], &of(3)["server_id"]),
        (&"not_found".into(), &"tool.terminal".into())
    );
    let change = heard.iter().find(|one| one["method"].is_string()).unwrap();
    assert_eq!(change["params"]["server_id"], "mind.cerebras");
    assert_eq!(change["params"]["reason"], "operator_request");
}

#[tokio::test]
async fn a_server_that_drains_is_degraded() {
    let mut world = World::new(server(&Began::default())).await;
    world.say(&call(1, "sleep", 200)).await;
    world.say(&request(2, "mgp/health/ping", json!({}))).await;
    assert_eq!(world.hear().await.unwrap()["result"]["status"], "healthy");
    world.say(&request(3, "mgp/lifecycle/shutdown", json!({}))).await;
    world.say(&request(4, "mgp/health/ping", json!({}))).await;
    let heard = world.rest().await;
    assert_eq!(heard.answers[&4]["result"]["status"], "degraded", "{heard:?}");
}
