//! Tests that a server without running calls ends immediately when it is drained.

use std::time::Duration;

use mgp_types::mgp::ShutdownReason;
use tokio::time::Instant;

use crate::load::say_figure;
use crate::world::{Began, World, rest, server};
use crate::{at_once, drains};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_server_is_gone_at_once() {
    let mut times = Vec::new();
    for _ in 0..drains() {
        let World { mut from, serving, drain, to: _to } =
            World::new(server(&Began::default())).await;
        let begun = Instant::now();
        let remaining = drain.begin(ShutdownReason::IdleTimeout, Duration::from_secs(30));
        assert_eq!((remaining.calls, remaining.estimate), (0, Duration::ZERO));
        let received = rest(&mut from).await;
        serving.await.unwrap().unwrap();
        times.push(begun.elapsed());
        assert_eq!(received.states, ["draining", "disconnected"]);
    }
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    say_figure(&format!("idle: p50 {:?}, p99 {:?}, worst {:?}", at(50), at(99), at(100)));
    assert!(at(99) < at_once(), "{:?}", at(99));
}
