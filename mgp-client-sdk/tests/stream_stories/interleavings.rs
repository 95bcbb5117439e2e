//! Tests of streams that are produced, read, cancelled and disconnected in random orders.

use std::time::Duration;

use futures_util::StreamExt as _;
use mgp_testkit::{Random, until_shown};
use serde_json::json;
use tokio::runtime::Handle;

use crate::world::{Alive, Received, cells, server, words};

/// The maximum number of tasks of the HTTP connections for notifications; each connection has a task at both ends.
const MAX_CONNECTION_TASKS: usize = 6;

/// A guard that prints the seed of a run if the run fails.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed with STREAM_SEED={}", self.0);
        }
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Plays a story with the seed in the environment variable `STREAM_SEED`. Without it, plays the story once for each of
/// the seeds 0, 1, …; `STREAM_SEEDS`, or else `default`, is their number. Each story gets a runtime of its own, and
/// must end within `limit`.
pub(crate) fn play<F: Future<Output = ()>>(
    default: u64,
    limit: Duration,
    story: impl Fn(Random) -> F,
) {
    let seeds = match number("STREAM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("STREAM_SEEDS").unwrap_or(default),
    };
    for seed in seeds {
        let _seed = Seed(seed);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1 + usize::try_from(seed % 2).unwrap())
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let run = Box::pin(story(Random(seed)));
            tokio::time::timeout(limit, run).await.expect("an end");
        });
    }
}

#[test]
fn every_order_leaves_a_prefix_and_nothing_else() {
    play(80, Duration::from_secs(20), one);
}

async fn one(mut dice: Random) {
    let all: Vec<_> = cells().collect();
    let cell = all[usize::try_from(dice.below(all.len() as u64)).unwrap()];
    let alive = Alive::default();
    let connected = cell.connect(server(&alive)).await;
    connected.client.call("plain").await.unwrap();
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let before = tasks();

    let n = usize::try_from(dice.below(400)).unwrap();
    let arguments =
        json!({ "n": n, "yields": dice.below(2) == 0, "every_ms": dice.below(40) / 38 });
    let mut stream = connected.client.call("words").args(arguments).stream();
    let mut received = Received::default();
    let is_over = read_some(&mut dice, &mut stream, &mut received).await;
    let whole = words(n);
    let end = dice.below(4);
    println!("{cell:?} {n} words, {} read, over: {is_over}, end {end}", received.blocks.len());
    match end {
        _ if is_over => assert_eq!(received.result_text(), whole),
        0 => {
            let cancelled = stream.cancel().await.unwrap();
            if let Some(partial) = cancelled.partial_result {
                let blocks = partial.content.into_blocks();
                let text: String = blocks.iter().filter_map(|block| block.as_text()).collect();
                assert!(whole.starts_with(&text) && text.len() >= received.text().len());
            }
        }
        1 => drop(stream),
        2 => {
            connected.client.close().await;
            while let Some(item) = stream.next().await {
                received.add(item);
            }
        }
        _ => {
            while let Some(item) = stream.next().await {
                received.add(item);
            }
            assert_eq!(received.result_text(), whole, "{cell:?}");
        }
    }
    assert!(whole.starts_with(&received.text()), "{cell:?}: {}", received.text());
    let left = || {
        let (server, client) = (&connected.monitor, connected.client.monitor());
        let spawned = tasks().saturating_sub(before + MAX_CONNECTION_TASKS);
        let held = server.kept_bytes() + client.inbox_bytes();
        (alive.now(), server.running(), client.pending(), held, spawned)
    };
    // The numbers of tools, calls, requests, bytes and tasks that `left` counts must all become zero.
    until_shown(|| (left() == (0, 0, 0, 0, 0), (cell, left()))).await;
}

/// Reads some items with random pauses; returns whether the stream ended.
async fn read_some(
    dice: &mut Random,
    stream: &mut mgp_client_sdk::ToolStream,
    received: &mut Received,
) -> bool {
    for _ in 0..dice.below(60) {
        match dice.below(20) {
            0 => tokio::time::sleep(Duration::from_millis(1)).await,
            1 => {
                let _ = stream.pace(u32::try_from(dice.below(3) * 5_000).unwrap()).await;
                stream.pace(100_000).await.unwrap_or_default();
            }
            _ => tokio::task::yield_now().await,
        }
        match stream.next().await {
            Some(item) => received.add(item),
            None => return true,
        }
    }
    false
}
