//! Tests of access that is granted and revoked while calls and lists run: after a revocation, no call may begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use mgp_types::service::Stack;
use serde_json::json;

use super::raw::{self, code};
use super::world::{World, mallory};

/// The phase of the test: an even number while access is granted, an odd number after it was revoked.
struct Phases {
    /// Counts each started grant and each answered revocation.
    now: AtomicU64,
}

async fn storm(modern: bool) {
    let world = Arc::new(World::new());
    let stack: Stack = world.disk().into_stack().unwrap();
    let phases = Arc::new(Phases { now: AtomicU64::new(1) });
    let over = Arc::new(AtomicBool::new(false));
    let (passed, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut agents = Vec::new();
    for index in 0..3 {
        let (phases, over) = (Arc::clone(&phases), Arc::clone(&over));
        let (passed, refused) = (Arc::clone(&passed), Arc::clone(&refused));
        let mut agent = if modern {
            raw::modern(&stack, mallory())
        } else {
            raw::legacy(&stack, mallory(), "2025-11-25").await
        };
        agents.push(tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                let before = phases.now.load(Ordering::SeqCst);
                let (went, answer) = if index == 0 {
                    let answer = agent.ask("tools/list", json!({})).await;
                    (answer["result"]["tools"] != json!([]), answer)
                } else {
                    let answer = agent.ask("tools/call", json!({"name": "look"})).await;
                    (code(&answer) == 0, answer)
                };
                let after = phases.now.load(Ordering::SeqCst);
                let counter = if went { &passed } else { &refused };
                counter.fetch_add(1, Ordering::SeqCst);
                // The request was sent and answered while nothing was granted.
                let was_closed = before == after && before % 2 == 1;
                assert!(!(went && was_closed), "after a revocation: {answer}");
                // The request was sent and answered in a phase in which access was granted.
                let was_open = before == after && before % 2 == 0 && before != 0;
                if was_open && index != 0 {
                    assert!(went || code(&answer) == 1001, "{answer}");
                }
            }
        }));
    }
    for _ in 0..60 {
        phases.now.fetch_add(1, Ordering::SeqCst);
        world.grant("mallory").await;
        tokio::time::sleep(Duration::from_micros(300)).await;
        world.revoke("mallory").await;
        phases.now.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
    over.store(true, Ordering::SeqCst);
    for agent in agents {
        agent.await.unwrap();
    }
    assert!(passed.load(Ordering::SeqCst) > 0 && refused.load(Ordering::SeqCst) > 0);
    let granted = world.events("PERMISSION_GRANTED").len() + world.events("ACCESS_GRANTED").len();
    assert!(granted > 0, "changes are on the record");
}

#[tokio::test]
async fn nothing_begins_after_a_revocation_on_one_thread() {
    storm(false).await;
    storm(true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_begins_after_a_revocation_on_two_threads() {
    storm(false).await;
    storm(true).await;
}
