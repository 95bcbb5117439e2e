//! Tests of the concurrency limit through its layer.

use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_types::service::{Deadline, Principal, Stack, mock};
use mgp_types::sync::Mutex;
use tokio::time::{Duration, sleep};
use tower_layer::Layer;

use super::*;

const CALL: &str = r#"{"name":"a"}"#;

fn config(running: usize, waiting: usize) -> LimitConfig {
    LimitConfig { max_running: running, max_waiting: waiting, ..LimitConfig::default() }
}

/// A tool that counts its running calls, and records the order of their callers.
#[derive(Clone, Default)]
struct Recorder {
    running: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
    order: Arc<Mutex<Vec<String>>>,
}

struct RunningGuard(Arc<AtomicUsize>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Recorder {
    /// Returns a stack of tools that take ten milliseconds.
    fn tools(&self) -> Stack {
        let recorder = self.clone();
        Stack::from_fn(move |call: Call| {
            let recorder = recorder.clone();
            async move {
                recorder.order.lock().push(call.cx().principal.subject().to_string());
                let now = recorder.running.fetch_add(1, Ordering::SeqCst) + 1;
                let _guard = RunningGuard(Arc::clone(&recorder.running));
                recorder.peak.fetch_max(now, Ordering::SeqCst);
                sleep(Duration::from_millis(10)).await;
                Ok(Reply::empty())
            }
        })
    }

    fn order(&self) -> String {
        self.order.lock().join(" ")
    }
}

fn client(layer: &ConcurrencyLimitLayer, recorder: &Recorder, subject: &str) -> mock::Client {
    let mut client = mock::client(Stack::new(layer.layer(recorder.tools())));
    client.cx.principal = Principal::new("t", subject);
    client
}

#[tokio::test(start_paused = true)]
async fn calls_wait_for_a_permit_and_leave_when_dropped() {
    let (recorder, layer) = (Recorder::default(), ConcurrencyLimitLayer::new(config(2, 8)));
    let mut client = client(&layer, &recorder, "ann");
    let calls: Vec<_> = (0..6).map(|_| tokio::spawn(client.call("tools/call", CALL))).collect();
    tokio::task::yield_now().await;
    assert_eq!((layer.running(), layer.waiting()), (2, 4));
    calls[5].abort();
    let mut answered = 0;
    for call in calls {
        answered += usize::from(call.await.is_ok_and(|outcome| outcome.is_ok()));
    }
    assert_eq!((answered, recorder.peak.load(Ordering::SeqCst)), (5, 2));
    assert_eq!((layer.running(), layer.waiting()), (0, 0));
}

#[tokio::test]
async fn other_methods_pass_a_full_limit() {
    let (recorder, layer) = (Recorder::default(), ConcurrencyLimitLayer::new(config(0, 0)));
    let mut client = client(&layer, &recorder, "ann");
    let refused = client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(refused.code().0, 3001);
    tokio::time::pause();
    assert!(client.request("tools/list", "{}").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_thousand_calls_of_one_caller_delay_another_by_one_turn() {
    let (recorder, layer) = (Recorder::default(), ConcurrencyLimitLayer::new(config(1, 1024)));
    let (mut ann, mut bob) = (client(&layer, &recorder, "ann"), client(&layer, &recorder, "bob"));
    let flood: Vec<_> = (0..1_000).map(|_| tokio::spawn(ann.call("tools/call", CALL))).collect();
    tokio::task::yield_now().await;
    assert_eq!(layer.waiting(), 999);
    bob.request("tools/call", CALL).await.unwrap();
    assert_eq!(recorder.order(), "ann ann bob");
    for call in &flood {
        call.abort();
    }
    for call in flood {
        let _ = call.await;
    }
    assert_eq!((layer.running(), layer.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_caller_with_the_most_waiting_calls_is_evicted_for_others() {
    let (recorder, layer) = (Recorder::default(), ConcurrencyLimitLayer::new(config(1, 4)));
    let (mut ann, mut bob) = (client(&layer, &recorder, "ann"), client(&layer, &recorder, "bob"));
    let flood: Vec<_> = (0..5).map(|_| tokio::spawn(ann.call("tools/call", CALL))).collect();
    tokio::task::yield_now().await;
    let refused = ann.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(refused.code().0, 3001, "its own calls are not evicted for its own");
    let others: Vec<_> = (0..2).map(|_| tokio::spawn(bob.call("tools/call", CALL))).collect();
    tokio::task::yield_now().await;
    assert_eq!(layer.waiting(), 4);
    let third = bob.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(third.code().0, 3001, "both have as many");
    let mut codes = Vec::new();
    for call in flood.into_iter().chain(others) {
        codes.push(call.await.unwrap().map_or_else(|error| error.code().0, |_| 0));
    }
    assert_eq!(codes, [0, 0, 0, 3001, 3001, 0, 0], "its newest were evicted");
    assert_eq!(recorder.order(), "ann ann bob ann bob");
}

#[tokio::test(start_paused = true)]
async fn one_caller_gets_its_share_and_no_more() {
    let mut bounds = config(8, 8);
    (bounds.running_per_caller, bounds.waiting_per_caller) = (Some(2), Some(1));
    let (recorder, layer) = (Recorder::default(), ConcurrencyLimitLayer::new(bounds));
    let (mut ann, mut bob) = (client(&layer, &recorder, "ann"), client(&layer, &recorder, "bob"));
    let anns: Vec<_> = (0..4).map(|_| tokio::spawn(ann.call("tools/call", CALL))).collect();
    tokio::task::yield_now().await;
    assert_eq!((layer.running(), layer.waiting()), (2, 1));
    // Bob's call does not wait for Ann's calls, which wait because of Ann's own limit.
    bob.request("tools/call", CALL).await.unwrap();
    let mut codes = Vec::new();
    for call in anns {
        codes.push(call.await.unwrap().map_or_else(|error| error.code().0, |_| 0));
    }
    assert_eq!(codes, [0, 0, 0, 3001]);
    assert_eq!((layer.running(), layer.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn the_users_of_an_agent_can_be_one_caller() {
    let mut bounds = config(8, 8);
    (bounds.running_per_caller, bounds.by_agent) = (Some(1), true);
    let (recorder, layer) = (Recorder::default(), ConcurrencyLimitLayer::new(bounds.clone()));
    let mut calls = Vec::new();
    for (user, agent) in [("ann", "x"), ("bob", "x"), ("bob", "y")] {
        let mut client = client(&layer, &recorder, user);
        client.cx.principal = client.cx.principal.agent(agent);
        calls.push(tokio::spawn(client.call("tools/call", CALL)));
    }
    tokio::task::yield_now().await;
    assert_eq!((layer.running(), layer.waiting()), (2, 1));
    let running =
        |user: &str, agent: &str| layer.running_of(&Principal::new("t", user).agent(agent));
    assert_eq!((running("bob", "x"), running("cyd", "y"), running("bob", "z")), (1, 1, 0));
    for call in calls {
        call.await.unwrap().unwrap();
    }
    // A caller without an agent is counted by its subject.
    let (mut ann, mut bob) = (client(&layer, &recorder, "ann"), client(&layer, &recorder, "bob"));
    let calls = [ann.call("tools/call", CALL), bob.call("tools/call", CALL)].map(tokio::spawn);
    tokio::task::yield_now().await;
    assert_eq!((layer.running(), layer.waiting()), (2, 0));
    for call in calls {
        call.await.unwrap().unwrap();
    }
    // The users of an agent take turns, so a user with many waiting calls delays each other user by one turn only.
    let (recorder, layer) = (Recorder::default(), ConcurrencyLimitLayer::new(bounds));
    let mut calls = Vec::new();
    for user in ["ann", "ann", "ann", "bob"] {
        let mut client = client(&layer, &recorder, user);
        client.cx.principal = client.cx.principal.agent("x");
        calls.push(tokio::spawn(client.call("tools/call", CALL)));
        tokio::task::yield_now().await;
    }
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(recorder.order(), "ann ann bob ann");
}

#[tokio::test(start_paused = true)]
async fn a_tool_with_its_own_limit_blocks_no_other_tool() {
    let (recorder, layer) =
        (Recorder::default(), ConcurrencyLimitLayer::new(config(8, 8).tool("slow", 1)));
    let mut client = client(&layer, &recorder, "ann");
    let slow = r#"{"name":"slow"}"#;
    let slow: Vec<_> = (0..3).map(|_| tokio::spawn(client.call("tools/call", slow))).collect();
    tokio::task::yield_now().await;
    assert_eq!((layer.running(), layer.waiting()), (1, 2));
    let others: Vec<_> = (0..3).map(|_| tokio::spawn(client.call("tools/call", CALL))).collect();
    tokio::task::yield_now().await;
    assert_eq!((layer.running(), layer.waiting()), (4, 2));
    for call in slow.into_iter().chain(others) {
        call.await.unwrap().unwrap();
    }
    assert_eq!((layer.running(), layer.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_stops_waiting_for_a_permit_never_ran() {
    let (recorder, layer) = (Recorder::default(), ConcurrencyLimitLayer::new(config(1, 8)));
    let mut client = client(&layer, &recorder, "ann");
    let first = tokio::spawn(client.call("tools/call", CALL));
    tokio::task::yield_now().await;
    client.cx.deadline = Deadline::after(Duration::from_millis(4));
    let error = client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(
        serde_json::to_string(&error).unwrap(),
        r#"{"code":3003,"message":"the call waited 4 ms because too many calls run, and did not start; call again when fewer calls run","data":{"_mgp":{"category":"resource","retryable":false,"details":{"started":false}}}}"#
    );
    first.await.unwrap().unwrap();
    assert_eq!((recorder.order().as_str(), layer.waiting()), ("ann", 0));
}

/// With random callers and dropped calls, the limits hold, every call that is not dropped is served, and all counts
/// return to zero.
#[tokio::test(start_paused = true)]
async fn bounds_hold_and_counts_return_to_zero_wherever_calls_are_dropped() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bounds = config(random.usize(1..4), random.usize(0..12));
        if random.bool() {
            bounds.running_per_caller = Some(random.usize(1..3));
        }
        if random.bool() {
            bounds = bounds.tool("a", random.usize(1..3));
        }
        let (recorder, layer) = (Recorder::default(), ConcurrencyLimitLayer::new(bounds.clone()));
        let mut clients: Vec<_> =
            ["ann", "bob", "cyd"].iter().map(|name| client(&layer, &recorder, name)).collect();
        let mut calls = Vec::new();
        for _ in 0..80 {
            let client = &mut clients[random.usize(0..3)];
            let name = if random.bool() { CALL } else { r#"{"name":"b"}"# };
            calls.push(tokio::spawn(client.call("tools/call", name)));
            if random.u8(0..3) == 0 {
                sleep(Duration::from_millis(random.u64(0..12))).await;
            }
            if random.u8(0..4) == 0 {
                calls.swap_remove(random.usize(0..calls.len())).abort();
            }
            assert!(layer.running() <= bounds.max_running && layer.waiting() <= bounds.max_waiting);
        }
        let mut ran = 0;
        for call in calls {
            let outcome = call.await.unwrap();
            ran += usize::from(outcome.is_ok());
            if let Err(refused) = outcome {
                assert_eq!(refused.code().0, 3001);
            }
        }
        assert!(ran > 0 && recorder.peak.load(Ordering::SeqCst) <= bounds.max_running, "{seed}");
        assert_eq!((layer.running(), layer.waiting()), (0, 0), "{seed}");
        assert_eq!(recorder.running.load(Ordering::SeqCst), 0);
    }
}

/// A permit is not lost if it is released while one caller tries to get it and another caller waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_permit_is_lost_between_threads() {
    for each in [None, Some(2)] {
        let mut bounds = config(3, 4096);
        bounds.running_per_caller = each;
        let layer = ConcurrencyLimitLayer::new(bounds);
        let tools = Stack::from_fn(|_| async {
            tokio::task::yield_now().await;
            Ok(Reply::empty())
        });
        let mut calls = Vec::new();
        for caller in 0..8 {
            let mut client = mock::client(Stack::new(layer.layer(tools.clone())));
            client.cx.principal = Principal::new("t", format!("caller-{caller}"));
            calls.extend((0..400).map(|_| tokio::spawn(client.call("tools/call", CALL))));
        }
        for (index, call) in calls.iter().enumerate() {
            if index % 7 == 0 {
                call.abort();
            }
        }
        for (index, call) in calls.into_iter().enumerate() {
            let ended = tokio::time::timeout(Duration::from_secs(20), call).await.unwrap();
            assert!(index % 7 == 0 || ended.unwrap().is_ok());
        }
        assert_eq!((layer.running(), layer.waiting()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_share_blocks_none_that_could_run() {
    let recorder = Recorder::default();
    let layer = ConcurrencyLimitLayer::new(config(4, 3).tool("a", 1));
    let mut ann = client(&layer, &recorder, "ann");
    let clogged: Vec<_> = (0..4).map(|_| tokio::spawn(ann.call("tools/call", CALL))).collect();
    tokio::task::yield_now().await;
    assert_eq!((layer.running(), layer.waiting()), (1, 3));
    let begun = Instant::now();
    // Another call of the same caller and a call of another caller are accepted, and no waiting call is evicted for
    // them.
    let mut bob = client(&layer, &recorder, "bob");
    for caller in [&mut bob, &mut ann] {
        caller.request("tools/call", r#"{"name":"b"}"#).await.unwrap();
    }
    assert_eq!(begun.elapsed(), Duration::from_millis(20));
    for call in clogged {
        call.await.unwrap().unwrap();
    }
    assert_eq!((layer.running(), layer.waiting()), (0, 0));
}
