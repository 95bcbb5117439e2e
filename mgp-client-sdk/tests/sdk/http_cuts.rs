//! Tests of proxies that cut connections: a legacy call is still followed to its end (MCP transports, resumability),
//! and a call with an idempotency key is sent again.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{Client, EraChoice, KeyPolicy, RetryConfig, ToolResult};
use mgp_server_sdk::Idempotency;
use mgp_server_sdk::prelude::*;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{IdempotencyKey, WasReplay};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy};
use tokio::net::{TcpListener, TcpStream};

const CUT: Duration = Duration::from_millis(300);
const STEPS: u32 = 200;

/// Forwards bytes both ways and cuts each connection a moment after its response began.
async fn cutting_proxy(to: SocketAddr, cuts: Arc<AtomicUsize>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (near, _) = listener.accept().await.unwrap();
            let cuts = Arc::clone(&cuts);
            tokio::spawn(async move {
                let (mut asks, mut hears) = near.into_split();
                let (mut answers, mut takes) = TcpStream::connect(to).await.unwrap().into_split();
                let asking = tokio::spawn(async move { copy(&mut asks, &mut takes).await });
                answers.readable().await.unwrap();
                let told = tokio::time::timeout(CUT, copy(&mut answers, &mut hears));
                if told.await.is_err() {
                    cuts.fetch_add(1, Ordering::SeqCst);
                }
                asking.abort();
            });
        }
    });
    address
}

/// Returns a server whose tool takes many steps; `runs` counts the calls of the tool.
fn walking(runs: &Arc<AtomicUsize>) -> Server {
    let runs = Arc::clone(runs);
    let walk = Tool::new("walk", "Takes many steps", move |outlet: Outlet| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move {
            for step in 1..=STEPS {
                let _ = outlet.progress(f64::from(step), f64::from(STEPS)).await;
                tokio::time::sleep(Duration::from_millis(15)).await;
            }
            "arrived"
        }
    });
    Server::new("walker", "1").tool(walk)
}

async fn followed(server: Server) -> (Vec<f64>, String, usize) {
    let retry = Duration::from_millis(10);
    let bound = server
        .http("127.0.0.1:0")
        .no_auth()
        .config(|config| config.retry_delay = retry)
        .bind()
        .await
        .unwrap();
    let cuts = Arc::new(AtomicUsize::new(0));
    let proxy = cutting_proxy(bound.local_addr(), Arc::clone(&cuts)).await;
    tokio::spawn(bound.run());
    let client = Client::builder("c", "1")
        .era(EraChoice::Legacy)
        // Connections are not reused, because a cut of a reused connection could cut another request.
        .http(|config| (config.retry, config.idle_connections) = (retry, 0))
        .connect_url(format!("http://{proxy}/mcp"))
        .await
        .unwrap();
    let steps = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&steps);
    let result = client
        .call("walk")
        .progress(move |step| told.lock().unwrap().push(step.progress))
        .await
        .unwrap();
    let steps = steps.lock().unwrap().clone();
    (steps, result.to_text(), cuts.load(Ordering::SeqCst))
}

/// The progress is complete and in order, the answer arrives, and the tool ran once.
#[tokio::test]
async fn a_call_is_followed_through_a_proxy_that_cuts() {
    for server in [|server: Server| server, Server::without_mgp] {
        let runs = Arc::new(AtomicUsize::new(0));
        let (steps, answer, cuts) = followed(server(walking(&runs))).await;
        let expected: Vec<_> = (1..=STEPS).map(f64::from).collect();
        assert_eq!((steps, answer.as_str()), (expected, "arrived"));
        assert!(cuts >= 5, "only {cuts} cuts");
        assert_eq!(runs.load(Ordering::SeqCst), 1, "it has run once");
    }
}

/// Forwards bytes both ways, and closes the first connection that has a tool call, a moment after the call was sent.
async fn losing_proxy(to: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let is_lost = Arc::new(AtomicBool::new(false));
    tokio::spawn(async move {
        loop {
            let (near, _) = listener.accept().await.unwrap();
            let is_lost = Arc::clone(&is_lost);
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = near.into_split();
                let far = TcpStream::connect(to).await.unwrap();
                let (mut from_server, mut to_server) = far.into_split();
                let answers =
                    tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
                let mut bytes = vec![0; 64 << 10];
                while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
                    to_server.write_all(&bytes[..count]).await.unwrap();
                    let is_call = bytes[..count].windows(10).any(|word| word == b"tools/call");
                    if is_call && !is_lost.swap(true, Ordering::SeqCst) {
                        tokio::time::sleep(CUT).await;
                        break;
                    }
                }
                answers.abort();
            });
        }
    });
    address
}

/// Calls a tool whose first answer is lost. Returns whether the answer was the result of an earlier run, or `None` if
/// the call failed; also returns the number of runs.
async fn call_with_lost_answer(key: Option<&str>, policy: KeyPolicy) -> (Option<bool>, usize) {
    let runs = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&runs);
    let pay = Tool::new("pay", "Pays a bill", move || {
        counter.fetch_add(1, Ordering::SeqCst);
        async {
            tokio::time::sleep(3 * CUT).await;
            "paid"
        }
    });
    let server = Server::new("bank", "1").tool(pay).extension(Idempotency::in_memory());
    let bound = server.http("127.0.0.1:0").no_auth().bind().await.unwrap();
    let proxy = losing_proxy(bound.local_addr()).await;
    tokio::spawn(bound.run());
    let mut retry = RetryConfig::default();
    retry.keys = policy;
    let client = Client::builder("c", "1")
        .era(EraChoice::Modern)
        .extension(Extension::Idempotency)
        .retry(retry)
        .connect_url(format!("http://{proxy}/mcp"))
        .await
        .unwrap();
    let mut call = client.call("pay");
    if let Some(key) = key {
        call = call.with(&IdempotencyKey(key.to_owned()));
    }
    let paid = call.await.ok();
    let was_replay = paid.map(|paid| paid.member::<WasReplay>().unwrap().is_some_and(|was| was.0));
    (was_replay, runs.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_call_with_a_key_is_retried_after_its_connection_was_lost_and_runs_once() {
    assert_eq!(call_with_lost_answer(None, KeyPolicy::Given).await, (None, 1));
    assert_eq!(call_with_lost_answer(Some("bill-7"), KeyPolicy::Given).await, (Some(true), 1));
    assert_eq!(call_with_lost_answer(None, KeyPolicy::Added).await, (Some(true), 1));
}
