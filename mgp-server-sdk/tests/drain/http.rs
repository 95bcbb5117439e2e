//! Tests of the shutdown of a server over HTTP: of sessions, calls without a session, streams, and the caller's
//! authority.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mgp_server_sdk::Drain;
use mgp_testkit::Random;
use mgp_types::mgp::ShutdownReason;
use mgp_types::service::Principal;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::drains;
use crate::wire;
use crate::world::{Began, Received, TIMEOUT, call, request, server};

struct Listening {
    to: SocketAddr,
    drain: Drain,
    running: JoinHandle<()>,
}

async fn listen(began: &Began, caller: Principal) -> Listening {
    let server = server(began);
    let drain = server.drain_handle();
    let bound = server.http("127.0.0.1:0").no_auth();
    let bound = bound.config(|config| config.anonymous = Some(caller)).bind().await.unwrap();
    Listening { to: bound.local_addr(), drain, running: tokio::spawn(bound.run()) }
}

impl Listening {
    async fn ended(self) {
        timeout(TIMEOUT, self.running).await.unwrap().unwrap();
    }
}

/// The kinds of HTTP clients in the tests, which differ in headers and in members of their messages.
#[derive(Clone)]
enum Client {
    Modern,
    Legacy { session: String },
}

const MGP: &str =
    r#"{"extensions":{"dev.cloto/mgp":{"version":"0.3.0","extensions":["lifecycle"]}}}"#;

impl Client {
    async fn legacy(to: SocketAddr) -> Self {
        let capabilities: Value = serde_json::from_str(MGP).unwrap();
        let hello = mgp_testkit::hello("2025-11-25", &capabilities);
        let hello = request(1_000_000, "initialize", hello).to_string();
        let accept = [("accept", BOTH), ("content-type", "application/json")];
        let response = wire::send(to, "POST", &accept, &hello).await;
        let session = response.header("mcp-session-id").unwrap().to_owned();
        let client = Self::Legacy { session };
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(client.post(to, ready).await, Some(Value::Null));
        client
    }

    /// Posts a message; returns `None` if the server is unreachable, null if the message has no answer.
    async fn post(&self, to: SocketAddr, mut message: Value) -> Option<Value> {
        let headers = match self {
            Self::Modern => {
                let meta = &mut message["params"]["_meta"];
                meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
                meta["io.modelcontextprotocol/clientCapabilities"] =
                    serde_json::from_str(MGP).unwrap();
                let method = message["method"].as_str().unwrap();
                let name = message["params"]["name"].as_str();
                let name = name.map_or_else(String::new, |name| format!("Mcp-Name: {name}\r\n"));
                format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{name}")
            }
            Self::Legacy { session } => format!("Mcp-Session-Id: {session}\r\n"),
        };
        let body = message.to_string();
        let text = format!(
            "POST /mcp HTTP/1.1\r\nHost: {to}\r\nConnection: close\r\nAccept: {BOTH}\r\nContent-Type: application/json\r\n\
             {headers}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut socket = TcpStream::connect(to).await.ok()?;
        socket.write_all(text.as_bytes()).await.ok()?;
        let mut answer = String::new();
        // This read always returns: the server closes the connection at its end, if not before.
        timeout(TIMEOUT, socket.read_to_string(&mut answer)).await.unwrap().ok()?;
        if answer.is_empty() {
            return None;
        }
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 20"), "{answer}");
        Some(if body.is_empty() { Value::Null } else { serde_json::from_str(body).unwrap() })
    }
}

const BOTH: &str = "application/json, text/event-stream";

/// Sends calls until the server cannot be reached; returns the messages that were sent and received.
async fn calls(
    client: Client,
    to: SocketAddr,
    next: Arc<AtomicU64>,
    late: Arc<AtomicBool>,
) -> (Vec<u64>, BTreeSet<u64>, Received) {
    let (mut sent, mut too_late, mut received) = (Vec::new(), BTreeSet::new(), Received::default());
    loop {
        let id = next.fetch_add(1, Ordering::SeqCst);
        let tool = if id.is_multiple_of(3) { "inline" } else { "sleep" };
        if late.load(Ordering::SeqCst) {
            too_late.insert(id);
        }
        let Some(answer) = client.post(to, call(id, tool, id % 9)).await else {
            sent.push(id);
            return (sent, too_late, received);
        };
        sent.push(id);
        let is_refused = answer["error"]["code"] == 2001;
        received.take(answer);
        if is_refused {
            return (sent, too_late, received);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_accepted_request_is_lost_and_none_is_accepted_after_it_began() {
    let mut random = Random(3);
    let mut answered = 0;
    for _ in 0..(drains() / 10).max(10) {
        let began = Began::default();
        let server = listen(&began, Principal::local()).await;
        let (next, late) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
        let mut clients = Vec::new();
        for number in 0..6 {
            let client = match number % 2 {
                0 => Client::Modern,
                _ => Client::legacy(server.to).await,
            };
            let calling = calls(client, server.to, Arc::clone(&next), Arc::clone(&late));
            clients.push(tokio::spawn(calling));
        }
        sleep(Duration::from_micros(5_000 + random.below(25_000))).await;
        server.drain.begin(ShutdownReason::OperatorRequest, Duration::from_secs(30));
        late.store(true, Ordering::SeqCst);
        server.ended().await;
        let began = began.all();
        for client in clients {
            let (sent, too_late, received) = client.await.unwrap();
            answered += received.judge(sent.into_iter(), &began).0;
            assert!(too_late.is_disjoint(&began), "{too_late:?}");
        }
    }
    assert!(answered > 20, "{answered}");
}

#[tokio::test]
async fn streams_carry_the_states_and_end_and_the_address_is_free_again() {
    let began = Began::default();
    let server = listen(&began, Principal::local()).await;
    let to = server.to;
    let client = Client::legacy(to).await;
    let Client::Legacy { session } = &client else { panic!("it is one") };
    let mut stream =
        wire::send(to, "GET", &[("accept", BOTH), ("mcp-session-id", session)], "").await;
    let meta = mgp_testkit::modern_meta(&serde_json::from_str::<Value>(MGP).unwrap());
    let listens = request(7, "subscriptions/listen", json!({"notifications": {}, "_meta": meta}));
    let headers = [
        ("accept", BOTH),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "subscriptions/listen"),
    ];
    let mut modern = wire::send(to, "POST", &headers, &listens.to_string()).await;
    modern.event().await.unwrap();
    let own = client.clone();
    let working = tokio::spawn(async move { own.post(to, call(1, "sleep", 3_000)).await });
    while began.all().is_empty() {
        sleep(Duration::from_millis(1)).await;
    }

    let begun = Instant::now();
    server.drain.begin(ShutdownReason::OperatorRequest, Duration::from_secs(30));
    let late = client.post(to, call(2, "inline", 0)).await.unwrap();
    assert_eq!(late["error"]["code"], 2001, "the listener still listens");
    server.ended().await;
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "the drain waited for an idle client: {:?}",
        begun.elapsed()
    );
    assert!(working.await.unwrap().unwrap()["result"].is_object());
    let states = |events: &[wire::Event]| -> Vec<Value> {
        let states = events.iter().filter(|event| event.data["method"].is_string());
        states.map(|event| event.data["params"]["new_state"].clone()).collect()
    };
    let (messages, listened) = (stream.rest().await, modern.rest().await);
    assert_eq!(states(&messages), ["draining", "disconnected"]);
    assert_eq!(states(&listened), ["draining", "disconnected"]);
    let last = &listened.last().unwrap().data;
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&7.into(), &"complete".into()));
    assert!(TcpStream::connect(to).await.is_err(), "the server still listens");
}

#[tokio::test]
async fn only_an_operator_shuts_it_down() {
    let server = listen(&Began::default(), Principal::local()).await;
    let shutdown = || request(1, "mgp/lifecycle/shutdown", json!({"timeout_ms": 1_000}));
    for client in [Client::Modern, Client::legacy(server.to).await] {
        let refused = client.post(server.to, shutdown()).await.unwrap();
        assert_eq!(refused["error"]["code"], 1000, "{refused}");
    }
    assert!(!server.drain.is_draining());
    server.running.abort();

    for is_modern in [true, false] {
        let server = listen(&Began::default(), Principal::new("local", "ada").operator()).await;
        let client = if is_modern { Client::Modern } else { Client::legacy(server.to).await };
        let accepted = client.post(server.to, shutdown()).await.unwrap();
        assert_eq!(accepted["result"]["accepted"], true, "{accepted}");
        server.ended().await;
    }
}
