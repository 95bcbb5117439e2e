//! Tests that a thousand calls leave no resources behind if their callers disconnect at random points.

use std::time::Duration;

use mgp_testkit::{Random, until_shown};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::task::JoinSet;

use super::caller::Caller;
use super::direct::{legacy, modern, open, open_to_all, piece, request, send};
use super::world::{Hold, World, server};

const CALLS: u64 = 1_000;

fn one(random: &mut Random) -> (&'static str, Value) {
    match random.below(4) {
        0 => ("now", json!({})),
        1 => ("steps", json!({ "n": random.below(20) })),
        2 => ("flood", json!({ "n": random.below(200), "bytes": random.below(5_000) })),
        _ => ("hang", json!({})),
    }
}

/// Sends all calls at the same time to the service, without sockets, and drops them after some polls and some chunks.
async fn thousand_at_once(seed: u64) {
    let hold = Hold::default();
    let server = server(&hold);
    let monitor = server.monitor();
    let service = server.into_http_service(open_to_all()).unwrap();
    let mut random = Random(seed);
    let mut sessions = Vec::new();
    for _ in 0..10 {
        sessions.push(open(&service).await.unwrap());
    }
    let mut running = JoinSet::new();
    for id in 0..CALLS {
        let (tool, arguments) = one(&mut random);
        let request = match random.below(2) {
            0 => modern(id, tool, &arguments),
            _ => legacy(&sessions[usize::try_from(id % 10).unwrap()], id, tool, &arguments),
        };
        let (service, turns, pieces) = (service.clone(), random.below(40), random.below(10));
        running.spawn(async move {
            let gives_up = async {
                for _ in 0..turns {
                    tokio::task::yield_now().await;
                }
                tokio::time::sleep(Duration::from_micros(turns * 10)).await;
            };
            tokio::select! {
                biased;
                response = send(&service, request) => {
                    let mut body = response.into_body();
                    for _ in 0..pieces {
                        let wait = tokio::time::timeout(Duration::from_millis(1), piece(&mut body));
                        if !matches!(wait.await, Ok(Some(_))) { break }
                    }
                    true
                }
                () = gives_up => false,
            }
        });
        if random.below(4) == 0 {
            hold.step(1);
        }
    }
    let mut begun = 0;
    while let Some(had) = running.join_next().await {
        begun += usize::from(had.unwrap());
    }
    // To cover enough, the test needs many calls that were dropped before their responses began, and many that were
    // dropped later.
    assert!((100..990).contains(&begun), "{begun} of {CALLS} had a response");
    assert!(monitor.running() > 0, "legacy calls go on");
    for session in &sessions {
        let ended = send(&service, request("DELETE", &[("mcp-session-id", session)], "")).await;
        assert_eq!(ended.status(), 204);
    }
    until_shown(|| {
        let left = (hold.alive(), monitor.running(), service.running(), service.held_bytes());
        (left == (0, 0, 0, 0), left)
    })
    .await;
    assert_eq!((service.sessions(), service.stored_bytes()), (0, 0));
}

#[test]
fn on_one_thread() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(thousand_at_once(1));
}

#[test]
fn on_several_threads() {
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(thousand_at_once(2));
}

/// Sends the calls over sockets, which are closed at random points.
#[tokio::test]
async fn over_sockets() {
    let world = World::open(|server| server).await;
    let mut random = Random(3);
    let mut callers = vec![Caller::modern(&world, json!({}), None)];
    for _ in 0..3 {
        callers.push(Caller::legacy(&world, json!({}), None).await);
    }
    let mut running = JoinSet::new();
    for id in 0..CALLS {
        let (tool, arguments) = one(&mut random);
        let caller = callers[usize::try_from(random.below(4)).unwrap()].clone();
        let (time, pieces) = (Duration::from_micros(random.below(20_000)), random.below(10));
        running.spawn(async move {
            let Ok(mut response) =
                tokio::time::timeout(time, caller.follow(id, tool, arguments)).await
            else {
                return;
            };
            for _ in 0..pieces {
                let wait = tokio::time::timeout(Duration::from_millis(5), response.bytes());
                if !matches!(wait.await, Ok(Some(_))) {
                    return;
                }
            }
        });
        // Each connection needs two descriptors of this process, so at most 300 connections are open at the same time.
        if running.len() == 300 {
            running.join_next().await.unwrap().unwrap();
        }
        if random.below(4) == 0 {
            world.hold.step(1);
        }
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
    for caller in &callers {
        assert_eq!(caller.call(1, "now", json!({})).await.status, 200);
    }
    for caller in &callers[1..] {
        assert_eq!(caller.delete().await.status, 204);
    }
    world.quiet().await;
    assert_eq!((world.service.sessions(), world.service.stored_bytes()), (0, 0));
}
