//! Tests of a peer that sends a flood of notifications.

use mgp_server_sdk::prelude::*;
use mgp_transport::{CloseReason, Limits};
use mgp_types::method::RootsListChanged;
use mgp_types::service::{Router, Stack};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Builder;

use super::memory::grows_less_than;
use super::pair::{Alive, Life, end};
use super::raw::Raw;

const REPORT: &str = concat!(
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
    "\n"
);
const ROOTS: &str = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"}\n";
const PING: &str = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";

/// Creates a server with a faulty handler for one kind of notification: the handler never completes, so that all later
/// notifications wait.
fn stuck(alive: &Alive) -> Stack {
    let alive = alive.clone();
    let router = Router::new().on_notification::<RootsListChanged, _, _>(move |_, _| {
        let life: Life = alive.begin();
        async move {
            let _life = life;
            std::future::pending().await
        }
    });
    Server::new("stuck", "1.0").endpoints(router).into_stack().unwrap()
}

async fn flooded() {
    let alive = Alive::default();
    let served = stuck(&alive);
    let mut raw = Raw::join(&served, Limits::default()).await;
    raw.write(ROOTS).await;
    let many = REPORT.repeat(1_000);
    for _ in 0..200 {
        raw.write(&many).await;
    }
    raw.write(PING).await;
    assert!(raw.line().await.contains("\"result\""));
    let (limits, monitor) = (Limits::default(), raw.monitor.clone());
    // Each stored notification needs half a kilobyte in addition to its text. So the limit on bytes is reached before
    // the limit on the number of notifications, or almost at the same time.
    let held = 200_001 - monitor.dropped();
    assert!(held > 60_000 && held <= limits.notifications as u64, "{held} are held");
    assert!(monitor.held_bytes() <= limits.held_bytes, "{}", monitor.held_bytes());

    // A notification that may contain a decision must not be lost, so the connection ends instead.
    raw.write(ROOTS).await;
    let closed = end(raw.run).await;
    assert!(matches!(closed, CloseReason::Flooded), "{closed}");
    assert_eq!((alive.ever(), alive.now(), monitor.held_bytes()), (1, 0, 0));
    assert!(raw.scope.is_ended());
}

#[test]
fn waits_dropped_and_ended_within_bounds() {
    grows_less_than(64 << 20, "flood::waits_dropped_and_ended_within_bounds", || {
        Builder::new_current_thread().enable_all().build().unwrap().block_on(flooded());
    });
}

/// If notifications are long, the limit on their bytes is reached long before the limit on their number.
#[tokio::test]
async fn long_ones_are_bounded_by_their_bytes() {
    let alive = Alive::default();
    let mut raw = Raw::join(&stuck(&alive), Limits::default()).await;
    raw.write(ROOTS).await;
    let long = format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"level\":\"info\",\"data\":\"{}\"}}}}\n",
        "x".repeat(1 << 20)
    );
    for _ in 0..100 {
        raw.write(&long).await;
    }
    raw.write(PING).await;
    assert!(raw.line().await.contains("\"result\""));
    assert_eq!(raw.monitor.dropped(), 100 - 63);
    raw.writer.shutdown().await.unwrap();
    drop(raw.reader);
    raw.run.abort();
}

/// If no handler waits, a flood only costs processing time.
#[tokio::test]
async fn a_flood_that_is_handled_loses_nothing() {
    let mut raw =
        Raw::join(&Server::new("plain", "1.0").into_stack().unwrap(), Limits::default()).await;
    let many = [REPORT, ROOTS].concat().repeat(1_000);
    // Send more than the server would store at a time.
    for _ in 0..40 {
        raw.write(&many).await;
    }
    raw.write(PING).await;
    assert!(raw.line().await.contains("\"result\""));
    assert_eq!((raw.monitor.dropped(), raw.monitor.held_bytes()), (0, 0));
}
