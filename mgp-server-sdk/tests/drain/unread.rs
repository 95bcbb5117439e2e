//! Tests that a peer that never reads cannot prevent a server from ending.

use std::time::Duration;

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::types::mgp::ShutdownReason;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::world::{World, request};

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_answers_that_are_never_read() {
    let big = Tool::new("big", "Says much", || async {
        // Waits until the handshake is complete.
        sleep(Duration::from_millis(10)).await;
        "x".repeat(300_000)
    });
    let mut world = World::new(Server::new("work", "1").tool(big)).await;
    for id in 0..60 {
        world.write(&request(id, "tools/call", json!({"name": "big"}))).await;
    }
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    let remaining = world.drain.begin(ShutdownReason::OperatorRequest, Duration::from_secs(25));
    assert!(remaining.calls > 10, "more than fits on the way: {remaining:?}");
    // The shutdown was requested, so serving returns no error.
    world.serving.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
