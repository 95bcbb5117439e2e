//! Tests of a caller that reads the chunks of its call too slowly.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mgp_testkit::until_shown;
use mgp_transport::Limits;
use tokio::time::Instant;

use super::pair::{Alive, CountingOutlet, Pair, quiet, server, text};

#[tokio::test(start_paused = true)]
async fn slows_down_its_server_and_blocks_no_other() {
    let alive = Alive::default();
    let zoo = server(&alive);
    let calls = zoo.monitor();
    let pair = Pair::join(&zoo.into_stack().unwrap(), Limits::default()).await;
    let slow =
        Arc::new(CountingOutlet { pause: Duration::from_millis(10), ..CountingOutlet::default() });
    let streaming = tokio::spawn(pair.call_with("stream", 5_000, slow.outlet()));
    until_shown(|| (slow.taken.load(Ordering::Relaxed) > 100, slow.taken.load(Ordering::Relaxed)))
        .await;
    assert!(pair.client.inbox_bytes() > 0);

    let before = Instant::now();
    let quick = Arc::new(CountingOutlet::default());
    for _ in 0..10 {
        pair.call("task", 10).await.unwrap();
        let reply = pair.call_with("stream", 100, quick.outlet()).await.unwrap();
        assert!(text(&reply).ends_with("99all 100"));
    }
    assert_eq!(before.elapsed().as_millis(), 0);
    // The text that a tool returns is sent as a chunk too, so each call has one more chunk than the tool sent.
    assert_eq!(quick.taken.load(Ordering::Relaxed), 1_010);

    assert!(!streaming.is_finished());
    let reply = streaming.await.unwrap().unwrap();
    assert!(text(&reply).ends_with("4999all 5000"));
    let sent = reply.get::<serde_json::Value>().unwrap()["_mgp"]["chunks_sent"].clone();
    assert_eq!(sent, 5_001);
    assert_eq!((slow.taken.load(Ordering::Relaxed), pair.client.dropped_items()), (5_001, 0));
    quiet(&[pair], &calls, &alive).await;
}

#[tokio::test(start_paused = true)]
async fn that_leaves_frees_what_waited() {
    let alive = Alive::default();
    let zoo = server(&alive);
    let calls = zoo.monitor();
    let pair = Pair::join(&zoo.into_stack().unwrap(), Limits::default()).await;
    let never = Arc::new(CountingOutlet {
        pause: Duration::from_secs(1_000_000),
        ..CountingOutlet::default()
    });
    let streaming = tokio::spawn(pair.call_with("stream", 200, never.outlet()));
    until_shown(|| (pair.client.inbox_bytes() > 0 && alive.now() == 0, pair.left())).await;
    streaming.abort();
    assert!(streaming.await.unwrap_err().is_cancelled());
    quiet(&[pair], &calls, &alive).await;
}

#[tokio::test]
async fn that_takes_nothing_does_not_keep_a_tool_on_the_blocking_pool() {
    let alive = Alive::default();
    let zoo = server(&alive);
    let calls = zoo.monitor();
    let pair = Pair::join(&zoo.into_stack().unwrap(), Limits::default()).await;
    let never =
        Arc::new(CountingOutlet { pause: Duration::from_hours(1), ..CountingOutlet::default() });
    let streaming = tokio::spawn(pair.call_with("pour", 100_000, never.outlet()));
    until_shown(|| (alive.ever() == 1 && alive.now() == 0, alive.now())).await;
    streaming.abort();
    quiet(&[pair], &calls, &alive).await;
}
