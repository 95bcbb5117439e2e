//! Tests that calls leave nothing behind if their callers drop them at random points.
//!
//! The environment variable `CALLS` sets the number of calls; the default is 2,500.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_testkit::{Random, until_shown};
use mgp_transport::{CloseReason, Limits};
use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, Outlet, Reply};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;

use super::pair::{Alive, CountingOutlet, Pair, quiet, server};

const CONNECTIONS: usize = 4;
const CONCURRENT: usize = 100;

fn calls_in_a_test() -> usize {
    std::env::var("CALLS").ok().and_then(|count| count.parse().ok()).unwrap_or(2_500)
}

/// The moment at which a caller drops its call.
#[derive(Clone, Copy, Debug)]
enum DropPoint {
    BeforeIt,
    AfterOnePoll,
    AfterTurns(u64),
    After(Duration),
    Never,
}

type Pending = BoxFuture<'static, Result<Reply, RpcError>>;

/// Makes a call and drops it at a point; returns `true` if the call was answered before.
async fn make(mut call: Pending, drop_point: DropPoint) -> bool {
    match drop_point {
        DropPoint::BeforeIt => false,
        DropPoint::AfterOnePoll => {
            tokio::select! { biased; _ = &mut call => true, () = std::future::ready(()) => false }
        }
        DropPoint::AfterTurns(turns) => {
            let wait = async {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! { biased; _ = &mut call => true, () = wait => false }
        }
        DropPoint::After(time) => tokio::time::timeout(time, call).await.is_ok(),
        DropPoint::Never => {
            call.await.unwrap();
            true
        }
    }
}

fn one(random: &mut Random, pair: &Pair, counter: &Arc<CountingOutlet>) -> (Pending, DropPoint) {
    let tool = ["now", "task", "sleep", "stream", "hang", "block"]
        [usize::try_from(random.below(6)).unwrap()];
    let (n, outlet) = match tool {
        "sleep" => (random.below(4), Outlet::none()),
        "stream" => (random.below(300), counter.outlet()),
        _ => (random.below(2_000), Outlet::none()),
    };
    let drop_point = match random.below(5) {
        0 => DropPoint::BeforeIt,
        1 => DropPoint::AfterOnePoll,
        2 => DropPoint::AfterTurns(random.below(30)),
        3 => DropPoint::After(Duration::from_micros(random.below(3_000))),
        _ if tool == "hang" => DropPoint::After(Duration::from_millis(1)),
        _ => DropPoint::Never,
    };
    (pair.call_with(tool, n, outlet), drop_point)
}

async fn dropped_calls_leave_nothing(seed: u64) {
    let (count, alive) = (calls_in_a_test(), Alive::default());
    let zoo = server(&alive);
    let calls = zoo.monitor();
    let served = zoo.into_stack().unwrap();
    let baseline = Handle::current().metrics().num_alive_tasks();
    let mut pairs = Vec::new();
    for _ in 0..CONNECTIONS {
        pairs.push(Pair::join(&served, Limits::default()).await);
    }
    let ends = Arc::new(AtomicUsize::new(0));
    for pair in &pairs {
        for scope in [&pair.cx.scope, &pair.server_scope] {
            let ends = Arc::clone(&ends);
            let end = move || {
                ends.fetch_add(1, Ordering::SeqCst);
            };
            scope.on_end(end).keep();
        }
    }

    let (mut random, counter) = (Random(seed), Arc::new(CountingOutlet::default()));
    let mut answered = 0;
    let mut running = JoinSet::new();
    for number in 0..count {
        let (call, drop_point) = one(&mut random, &pairs[number % CONNECTIONS], &counter);
        running.spawn(make(call, drop_point));
        if running.len() == CONCURRENT {
            answered += usize::from(running.join_next().await.unwrap().unwrap());
        }
    }
    while let Some(done) = running.join_next().await {
        answered += usize::from(done.unwrap());
    }
    // Both answered and dropped calls must be frequent, because the test would otherwise cover too little.
    assert!(
        answered > count / 10 && answered < count * 9 / 10,
        "{answered} of {count} were answered"
    );
    assert!(alive.ever() > count / 4, "only {} tools ran", alive.ever());
    quiet(&pairs, &calls, &alive).await;
    assert_eq!(ends.load(Ordering::SeqCst), 0);
    // All connections must still work afterwards.
    for pair in &pairs {
        pair.call("now", 0).await.unwrap();
        assert_eq!((pair.client.shed(), pair.server.shed(), pair.server.dropped()), (0, 0, 0));
    }

    // End the connections in every possible way while calls are running on them.
    let hanging: Vec<_> = pairs.iter().map(|pair| tokio::spawn(pair.call("hang", 0))).collect();
    until_shown(|| (alive.now() == CONNECTIONS, alive.now())).await;
    pairs[0].cx.peer.close("enough");
    pairs[1].client_run.abort();
    pairs[2].server_run.abort();
    pairs[3].client_run.abort();
    pairs[3].server_run.abort();
    for call in hanging {
        assert_eq!(call.await.unwrap().unwrap_err().code().0, 2000);
    }
    let [first, ..] = pairs.as_mut_slice() else { panic!("there are pairs") };
    assert!(matches!((&mut first.client_run).await.unwrap(), CloseReason::Local));
    for pair in &mut pairs {
        until_shown(|| (pair.client_run.is_finished() && pair.server_run.is_finished(), ())).await;
    }
    quiet(&pairs, &calls, &alive).await;
    assert_eq!(ends.load(Ordering::SeqCst), 2 * CONNECTIONS);
    let tasks = || Handle::current().metrics().num_alive_tasks();
    until_shown(|| (tasks() == baseline, (tasks(), baseline))).await;
}

#[test]
fn on_one_thread() {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(dropped_calls_leave_nothing(1));
}

#[test]
fn on_several_threads() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(dropped_calls_leave_nothing(2));
}
