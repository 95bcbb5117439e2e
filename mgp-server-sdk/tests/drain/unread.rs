//! A peer that reads nothing, and a server that ends all the same.

use std::time::Duration;

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::types::mgp::ShutdownReason;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::world::{World, request};

#[tokio::test(start_paused = true)]
async fn answers_that_nobody_reads_are_no_calls_to_wait_for() {
    let big = Tool::new("big", "Says much", || async {
        // Behind what came before it, and not at once.
        sleep(Duration::from_millis(10)).await;
        "x".repeat(300_000)
    });
    let mut world = World::new(Server::new("work", "1").tool(big)).await;
    for id in 0..60 {
        world.say(&request(id, "tools/call", json!({"name": "big"}))).await;
    }
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    let remaining = world.drain.begin(ShutdownReason::OperatorRequest, Duration::from_secs(25));
    assert!(remaining.calls > 10, "more than fits on the way: {remaining:?}");
    // It was to end, and has: that is no error.
    world.serving.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}
