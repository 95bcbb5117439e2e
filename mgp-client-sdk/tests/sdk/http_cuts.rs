//! A proxy that cuts every response after a moment: a legacy call is still followed to its end (MCP transports,
//! resumability).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{Client, EraChoice, ToolResult};
use mgp_server_sdk::prelude::*;
use tokio::io::copy;
use tokio::net::{TcpListener, TcpStream};

const CUT: Duration = Duration::from_millis(100);
const STEPS: u32 = 80;

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
