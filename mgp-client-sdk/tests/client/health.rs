//! Tests that a client detects that its server is unhealthy (MGP §11.3).

use std::time::Duration;

use mgp_client_sdk::{Client, HealthReason, MonitorConfig};
use mgp_types::mgp::HealthStatus;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::script::{Script, plain};

const HOUR: Duration = Duration::from_hours(1);

fn with_lifecycle() -> Value {
    json!({ "mgp": { "version": "0.3.0", "extensions": ["lifecycle"] } })
}

/// Waits for the client's next message that is not a cancellation, and returns it.
async fn asked(script: &mut Script) -> Value {
    loop {
        let message = timeout(HOUR, script.read()).await.unwrap().unwrap();
        // Skip cancellations, which the client sends for pings that timed out.
        if message["method"] != "notifications/cancelled" {
            return message;
        }
    }
}

async fn pong(script: &mut Script, status: &str) {
    let ping = asked(script).await;
    assert_eq!(ping["method"], "mgp/health/ping", "{ping}");
    assert!(ping["params"]["timestamp"].is_string());
    script.answer(&ping, json!({ "status": status })).await;
}

#[tokio::test(start_paused = true)]
async fn the_health_of_a_ping_result_is_used() {
    let (client, mut script) = Script::legacy(Client::builder("t", "1"), with_lifecycle()).await;
    let watch = client.monitor_health(MonitorConfig::default());
    let mut changes = watch.changes();
    let begin = Instant::now();
    pong(&mut script, "healthy").await;
    assert_eq!(begin.elapsed().as_secs(), 15);
    pong(&mut script, "degraded").await;
    let change = changes.recv().await.unwrap();
    assert_eq!((change.to, change.reason), (HealthStatus::Degraded, HealthReason::Reported));
    assert_eq!(watch.status(), HealthStatus::Degraded);
    for _ in 0..2 {
        pong(&mut script, "healthy").await;
    }
    assert_eq!(changes.recv().await.unwrap().to, HealthStatus::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_gets_every_ping_and_then_counts_as_unhealthy() {
    let (client, mut script) = Script::legacy(Client::builder("t", "1"), with_lifecycle()).await;
    let watch = client.monitor_health(MonitorConfig::default());
    let mut methods = Vec::new();
    for _ in 0..5 {
        methods.push(asked(&mut script).await["method"].as_str().unwrap().to_owned());
    }
    assert_eq!(methods[0], "mgp/health/ping");
    methods.sort_unstable();
    assert_eq!(methods, ["mgp/health/ping", "mgp/health/ping", "mgp/health/ping", "ping", "ping"]);
    let change = timeout(HOUR, watch.unhealthy()).await.unwrap();
    assert_eq!(change.reason, HealthReason::NoAnswer);
    assert!(!client.is_closed(), "what follows is for others to decide");
}

#[tokio::test(start_paused = true)]
async fn a_refused_ping_and_any_other_answer_are_signs_of_life() {
    let (client, mut script) = Script::legacy(plain(), json!({})).await;
    let watch = client.monitor_health(MonitorConfig::default());
    for round in 0..8 {
        let ping = asked(&mut script).await;
        assert_eq!(ping["method"], "ping");
        if round % 2 == 0 {
            let error = json!({ "code": -32601, "message": "no such method" });
            script.refuse(&ping, error).await;
            continue;
        }
        // The server does not answer the ping, but it answers a call.
        let (answered, ()) = tokio::join!(client.call("t").send(), async {
            let call = asked(&mut script).await;
            script.answer(&call, json!({ "content": [] })).await;
        });
        answered.unwrap();
    }
    assert_eq!(watch.status(), HealthStatus::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_without_health_gets_discover_requests() {
    let (client, mut script) = Script::modern(plain(), json!({})).await;
    let watch = client.monitor_health(MonitorConfig::default());
    for _ in 0..4 {
        assert_eq!(asked(&mut script).await["method"], "server/discover");
    }
    assert_eq!(watch.status(), HealthStatus::Unhealthy);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_is_unhealthy_at_once() {
    let (client, script) = Script::legacy(plain(), json!({})).await;
    let watch = client.monitor_health(MonitorConfig::default());
    let begin = Instant::now();
    drop(script);
    assert_eq!(timeout(HOUR, watch.unhealthy()).await.unwrap().reason, HealthReason::Ended);
    assert_eq!(
        (begin.elapsed(), *watch.watch().borrow() == HealthStatus::Unhealthy),
        (Duration::ZERO, true)
    );
}

#[tokio::test(start_paused = true)]
async fn a_health_watch_does_not_keep_the_client_alive() {
    let (client, mut script) = Script::legacy(plain(), json!({})).await;
    let watch = client.monitor_health(MonitorConfig::default());
    drop(client);
    assert!(script.read().await.is_none());
    assert_eq!(timeout(HOUR, watch.unhealthy()).await.unwrap().reason, HealthReason::Ended);
}
