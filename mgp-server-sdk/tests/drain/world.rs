//! A server that records which of its calls began, and a peer that writes and reads lines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{Drain, ServeError};
use mgp_types::mcp::TaskSupport;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;

/// The maximum time of each wait in a test.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// The ids of the calls whose tools began to run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Began(Arc<Mutex<BTreeSet<u64>>>);

impl Began {
    pub(crate) fn all(&self) -> BTreeSet<u64> {
        self.0.lock().unwrap().clone()
    }
}

#[derive(Deserialize, JsonSchema)]
struct Work {
    /// The id of the call.
    number: u64,
    /// The duration of the call.
    ms: u64,
}

/// Creates a server with tools of all kinds.
pub(crate) fn server(began: &Began) -> Server {
    let note = |began: &Began| {
        let began = began.clone();
        move |number| began.0.lock().unwrap().insert(number)
    };
    let (task, inline, thread) = (note(began), note(began), note(began));
    let sleeps = move |Args(work): Args<Work>| {
        task(work.number);
        async move {
            tokio::time::sleep(Duration::from_millis(work.ms)).await;
            format!("done {}", work.number)
        }
    };
    let at_once = move |Args(work): Args<Work>| {
        inline(work.number);
        async move { format!("done {}", work.number) }
    };
    let blocks = Tool::blocking("block", "Blocks a thread", move |work: Work| {
        thread(work.number);
        std::thread::sleep(Duration::from_millis(work.ms));
        format!("done {}", work.number)
    });
    Server::new("work", "1")
        .owned_by_peer()
        .tool(Tool::new("sleep", "Sleeps", sleeps).task(TaskSupport::Optional))
        .tool(Tool::new("inline", "Is there at once", at_once).inline())
        .tool(blocks)
}

/// A running server, with the streams over which the test, as its peer, writes and reads.
pub(crate) struct World {
    pub(crate) to: WriteHalf<DuplexStream>,
    pub(crate) from: BufReader<ReadHalf<DuplexStream>>,
    pub(crate) serving: JoinHandle<Result<(), ServeError>>,
    pub(crate) drain: Drain,
}

impl World {
    /// Serves a peer, and completes the handshake.
    pub(crate) async fn new(server: Server) -> Self {
        let mut world = Self::without_handshake(server);
        let mgp = json!({"version": "0.3.0", "extensions": ["lifecycle"]});
        let hello =
            mgp_testkit::hello("2025-11-25", &json!({"extensions": {"dev.cloto/mgp": mgp}}));
        world.write(&request(1_000_000, "initialize", hello)).await;
        world.receive().await.unwrap();
        world.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        // A notification gets no answer. So send a request after it: the answer to the request shows that the
        // notification was handled.
        world.write(&request(1_000_001, "ping", json!({}))).await;
        world.receive().await.unwrap();
        world
    }

    pub(crate) fn without_handshake(server: Server) -> Self {
        let drain = server.drain_handle();
        let (here, there) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(there);
        let serving = tokio::spawn(server.serve(reader, writer));
        let (from, to) = tokio::io::split(here);
        Self { to, from: BufReader::new(from), serving, drain }
    }

    pub(crate) async fn write(&mut self, message: &Value) {
        assert!(write(&mut self.to, message).await, "the server is gone");
    }

    /// Returns the next message; `None` once the server has closed the connection.
    pub(crate) async fn receive(&mut self) -> Option<Value> {
        receive(&mut self.from).await
    }

    /// Reads all messages up to the end, and checks that the server ended without an error.
    pub(crate) async fn rest(mut self) -> Received {
        let received = rest(&mut self.from).await;
        tokio::time::timeout(TIMEOUT, self.serving).await.unwrap().unwrap().unwrap();
        received
    }
}

/// Writes a message; returns `false` if the server no longer reads.
pub(crate) async fn write(to: &mut WriteHalf<DuplexStream>, message: &Value) -> bool {
    to.write_all(format!("{message}\n").as_bytes()).await.is_ok()
}

async fn receive(from: &mut BufReader<ReadHalf<DuplexStream>>) -> Option<Value> {
    let mut line = String::new();
    let read = tokio::time::timeout(TIMEOUT, from.read_line(&mut line)).await;
    (read.expect("the server sent nothing").unwrap() > 0)
        .then(|| serde_json::from_str(&line).unwrap_or_else(|_| panic!("no whole line: {line:?}")))
}

pub(crate) async fn rest(from: &mut BufReader<ReadHalf<DuplexStream>>) -> Received {
    let mut received = Received::default();
    while let Some(message) = receive(from).await {
        received.take(message);
    }
    received
}

/// The messages that a server sent.
#[derive(Debug, Default)]
pub(crate) struct Received {
    pub(crate) answers: BTreeMap<u64, Value>,
    pub(crate) states: Vec<String>,
}

impl Received {
    pub(crate) fn take(&mut self, message: Value) {
        if let Some(id) = message["id"].as_u64() {
            assert!(!self.answers.contains_key(&id), "answered twice: {message}");
            self.answers.insert(id, message);
        } else if message["method"] == "notifications/mgp.lifecycle" {
            self.states.push(message["params"]["new_state"].as_str().unwrap().to_owned());
        }
    }

    pub(crate) fn code(&self, id: u64) -> Option<i64> {
        self.answers.get(&id)?["error"]["code"].as_i64()
    }

    /// Compares the answers with the calls that began: every call that began must be answered, and no refused call may
    /// have begun.
    ///
    /// Returns the number of calls that began, and the number of those that the server refused or did not read.
    pub(crate) fn judge(
        &self,
        sent: impl Iterator<Item = u64>,
        began: &BTreeSet<u64>,
    ) -> (usize, usize) {
        let (mut done, mut late) = (0, 0);
        for id in sent {
            let answer = self.answers.get(&id);
            match (began.contains(&id), answer, self.code(id)) {
                (true, Some(answer), None) => {
                    let text = answer["result"]["content"][0]["text"].as_str();
                    assert_eq!(text, Some(&*format!("done {id}")), "{answer}");
                    done += 1;
                }
                (true, Some(answer), Some(3003)) => {
                    let hints = &answer["error"]["data"]["_mgp"];
                    assert_eq!(hints["details"]["started"], true, "{answer}");
                    assert_eq!(hints["retryable"], false, "{answer}");
                    done += 1;
                }
                (false, Some(answer), Some(2001)) => {
                    assert_eq!(answer["error"]["data"]["_mgp"]["details"]["started"], false);
                    late += 1;
                }
                // The server never read this call.
                (false, None, _) => late += 1,
                other => panic!("call {id}: {other:?}"),
            }
        }
        (done, late)
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is made for the message")]
pub(crate) fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Returns a tool call whose argument contains its id.
pub(crate) fn call(id: u64, tool: &str, ms: u64) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": {"number": id, "ms": ms}}))
}
