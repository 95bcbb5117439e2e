//! Tests of the limits for the answers to a batch (MCP 2025-03-26), which the connection keeps until all of them are
//! complete. Also tests of arrays of messages in other revisions.

use std::sync::Arc;
use std::time::Duration;

use mgp_testkit::RawPeer;
use mgp_transport::{Connection, ConnectionMonitor, Limits, duplex};
use mgp_types::mcp::Revision;
use mgp_types::service::{Call, Method, Params, Reply, Router, Stack, WireRules};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::timeout;

const ANSWER_BYTES: usize = 10_000;

struct Peer {
    raw: RawPeer,
    monitor: ConnectionMonitor,
    release: Arc<Notify>,
}

impl Peer {
    /// Connects to a server that accepts batches, and whose answers are long texts. The server answers the method
    /// `waits` when it is released, never answers `hangs`, and answers all other requests immediately.
    fn connect(change: impl FnOnce(&mut Limits)) -> Self {
        let (here, there) = duplex();
        let release = Arc::<Notify>::default();
        let signal = Arc::clone(&release);
        let stack = Stack::from_fn(move |call: Call| {
            let signal = Arc::clone(&signal);
            async move {
                match call.method().as_str() {
                    "waits" => signal.notified().await,
                    "hangs" => std::future::pending::<()>().await,
                    _ => {}
                }
                Reply::of(&"x".repeat(ANSWER_BYTES))
            }
        });
        let mut limits = Limits::default();
        change(&mut limits);
        let connection = Connection::new(there.reader, there.writer, stack).limits(limits);
        connection.scope().state::<WireRules>().set_revision(&Revision::V2025_03_26);
        let monitor = connection.monitor();
        tokio::spawn(connection.run());
        Self { raw: RawPeer::new(here.reader, here.writer), monitor, release }
    }

    /// Sends a batch: a request of this method, and `quick` requests that are answered immediately.
    async fn send(&mut self, slow: &str, quick: usize) {
        let request = |id, method| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
        let requests: Vec<_> =
            (0..=quick).map(|id| request(id, if id == 0 { slow } else { "quick" })).collect();
        self.raw.line(&format!("[{}]", requests.join(","))).await;
    }
}

#[tokio::test]
async fn answers_beyond_the_length_of_a_line_become_errors() {
    let mut peer = Peer::connect(|limits| limits.line_bytes = 64 << 10);
    peer.send("waits", 20).await;
    peer.release.notify_one();
    let line = peer.raw.read_line().await.unwrap();
    assert!(line.len() <= 64 << 10, "{} bytes", line.len());
    let answers: Vec<Value> = serde_json::from_str(&line).unwrap();
    let mut ids: Vec<_> = answers.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..=20).collect::<Vec<_>>());
    let is_long = |answer: &&Value| answer["error"]["code"] == 5000;
    assert_eq!(answers.iter().filter(is_long).count(), 15, "{line}");
    assert_eq!(peer.monitor.held_bytes(), 0);
}

#[tokio::test]
async fn answers_of_many_batches_are_bounded_together_and_pings_are_answered() {
    let mut peer = Peer::connect(|limits| limits.held_bytes = 100_000);
    for _ in 0..50 {
        peer.send("hangs", 5).await;
    }
    peer.raw.line(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#).await;
    while !peer.raw.read_line().await.unwrap().contains("\"id\":7,") {}
    let held = peer.monitor.held_bytes();
    assert!((ANSWER_BYTES..110_000).contains(&held), "{held} bytes");
}

#[tokio::test(start_paused = true)]
async fn an_ended_connection_counts_no_requests_and_no_answers_of_batches() {
    let mut peer = Peer::connect(|_| {});
    peer.send("hangs", 5).await;
    while peer.monitor.held_bytes() < 5 * ANSWER_BYTES {
        tokio::task::yield_now().await;
    }
    let Peer { raw, monitor, .. } = peer;
    drop(raw);
    let freed = async {
        while (monitor.running(), monitor.held_bytes()) != (0, 0) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(Duration::from_mins(1), freed).await.unwrap();
}

/// If an answer in one of these forms were ignored, the call would wait until its time limit.
#[tokio::test]
async fn a_child_may_answer_in_an_array_or_with_line_breaks_in_any_revision() {
    let (here, there) = duplex();
    let stack = Stack::new(Router::new());
    let connection = Connection::new(here.reader, here.writer, stack).for_child(|_| {});
    let (peer, cx) = (connection.peer(), connection.context());
    let driving = tokio::spawn(connection.run());
    let mut child = RawPeer::new(there.reader, there.writer);
    let forms: [fn(Value) -> String; 4] = [
        |answer| format!("[{answer}]"),
        |answer| format!("[[1],2,{answer},{{}}]"),
        |answer| format!("{answer:#}"),
        |answer| format!("{:#}\r", json!([answer])),
    ];
    for form in forms {
        let list = Call::request(Method::from_static("tools/list"), Params::none(), cx.clone());
        let listed = tokio::spawn(peer.send(list));
        let request = child.receive().await;
        let result = json!({ "tools": [{ "name": "a" }] });
        let text = form(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result }));
        child.line(&text).await;
        let reply = timeout(Duration::from_secs(20), listed).await.expect(&text);
        let reply = reply.unwrap().unwrap();
        assert_eq!(reply.as_body().unwrap().as_raw().get::<Value>().unwrap(), result, "{text}");
    }
    driving.abort();
}
