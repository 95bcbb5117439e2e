//! Tests that ten thousand idle sessions need little memory, expire, and leave room for other sessions.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_transport::http::HttpService;
use mgp_types::service::{Call, Stack, around};
use tokio::time::sleep;

use super::direct::{is_known, open, open_as, open_to_all, request, send};
use super::memory::grows_less_than;
use super::world::{Hold, server};

const SESSIONS: usize = 10_000;
/// The maximum memory of one idle session, in bytes.
const EACH: u64 = 12 << 10;
const MINUTE: Duration = Duration::from_mins(1);
const IDLE: Duration = Duration::from_mins(10);

/// Returns a service, and the number of ended scopes of its sessions.
fn service(sessions: usize) -> (HttpService, Arc<AtomicUsize>) {
    let ended = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ended);
    let counts = around(move |call: Call, next: Stack| {
        if call.method().as_str() == "initialize" {
            let counted = Arc::clone(&counted);
            let count = move || {
                counted.fetch_add(1, Ordering::SeqCst);
            };
            call.cx().scope.on_end(count).keep();
        }
        async move { next.send(call).await }
    });
    let mut config = open_to_all();
    (config.sessions, config.session_ttl) = (sessions, IDLE);
    let server = server(&Hold::default()).around(counts);
    (server.into_http_service(config).unwrap(), ended)
}

fn paused() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

#[test]
fn ten_thousand_take_little() {
    grows_less_than(EACH * SESSIONS as u64, "idle_sessions::ten_thousand_take_little", || {
        paused().block_on(async {
            let (service, ended) = service(SESSIONS);
            let mut ids = HashSet::new();
            for _ in 0..SESSIONS {
                ids.insert(open(&service).await.unwrap());
            }
            assert_eq!((ids.len(), service.sessions()), (SESSIONS, SESSIONS));
            unguessable(&ids);
            assert_eq!(ended.load(Ordering::SeqCst), 0);
            sleep(IDLE + MINUTE * 3).await;
            assert_eq!((service.sessions(), ended.load(Ordering::SeqCst)), (0, SESSIONS));
            assert!(!is_known(&service, ids.iter().next().unwrap()).await);
            // The same number of new sessions must fit into the memory that the expired sessions have released.
            for _ in 0..SESSIONS {
                open(&service).await.unwrap();
            }
            assert_eq!(service.sessions(), SESSIONS);
        });
    });
}

/// Checks that each of the 128 bits is set in 47 % to 53 % of the ids. With ten thousand random ids, this fails with a
/// probability of 1 in 4 million.
fn unguessable(ids: &HashSet<String>) {
    let mut set = [0_usize; 128];
    for id in ids {
        assert_eq!(id.len(), 32, "{id}");
        let bits = u128::from_str_radix(id, 16).unwrap();
        for (place, count) in set.iter_mut().enumerate() {
            *count += usize::from(bits >> place & 1 == 1);
        }
    }
    let (low, high) = (ids.len() * 47 / 100, ids.len() * 53 / 100);
    assert!(set.iter().all(|count| (low..high).contains(count)), "{set:?}");
}

#[tokio::test(start_paused = true)]
async fn at_the_limit_the_longest_idle_sessions_are_removed() {
    let (service, ended) = service(1_000);
    let mut ids = Vec::new();
    for number in 0..1_000 {
        if number == 500 {
            sleep(MINUTE).await;
        }
        ids.push(open(&service).await.unwrap());
    }
    // The first 500 sessions have been idle for a minute longer than the other sessions, so a new session replaces some
    // of the first 500.
    sleep(Duration::from_secs(5)).await;
    open(&service).await.unwrap();
    assert_eq!((service.sessions(), ended.load(Ordering::SeqCst)), (991, 10));
    for id in &ids[500..] {
        assert!(is_known(&service, id).await, "one that was used lately is gone");
    }
    let left = {
        let mut left = 0;
        for id in &ids[..500] {
            left += usize::from(is_known(&service, id).await);
        }
        left
    };
    assert_eq!(left, 490);
}

#[tokio::test(start_paused = true)]
async fn fresh_flood_is_refused_and_ends_no_session() {
    let (service, ended) = service(100);
    let mut ids = Vec::new();
    for _ in 0..100 {
        ids.push(open(&service).await.unwrap());
    }
    for _ in 0..1_000 {
        let refused = open(&service).await.unwrap_err();
        assert_eq!(
            (refused.status().as_u16(), &refused.headers()["retry-after"]),
            (503, &"1".parse().unwrap())
        );
    }
    assert_eq!((service.sessions(), ended.load(Ordering::SeqCst)), (100, 0));
    for id in &ids {
        assert!(is_known(&service, id).await);
    }
    // When sessions have been idle long enough, they make room for new ones, unless they have a listener.
    let reads = request("GET", &[("mcp-session-id", &ids[0])], "");
    let listening = send(&service, reads).await;
    assert_eq!(listening.status(), 200);
    sleep(MINUTE + Duration::from_secs(1)).await;
    for _ in 0..99 {
        open(&service).await.unwrap();
    }
    assert!(is_known(&service, &ids[0]).await);
    assert!(!is_known(&service, &ids[1]).await);
}

/// Regression test: a session kept any number of bytes that its client had declared.
#[tokio::test(start_paused = true)]
async fn a_session_is_not_opened_for_a_long_declaration() {
    let (service, _) = service(100);
    open_as(&service, &"n".repeat(60_000)).await.unwrap();
    let refused = open_as(&service, &"n".repeat(65_536)).await.unwrap_err();
    assert_eq!((refused.status().as_u16(), service.sessions()), (413, 1));
}

/// A session with a running call or an open stream is never idle.
#[tokio::test(start_paused = true)]
async fn busy_sessions_do_not_end() {
    let (service, ended) = service(100);
    let id = open(&service).await.unwrap();
    let reads = request("GET", &[("mcp-session-id", &id)], "");
    let listening = send(&service, reads).await;
    sleep(IDLE * 3).await;
    assert!(is_known(&service, &id).await);
    drop(listening);
    sleep(IDLE + MINUTE * 3).await;
    assert_eq!((service.sessions(), ended.load(Ordering::SeqCst)), (0, 1));
}
