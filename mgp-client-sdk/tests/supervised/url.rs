//! Tests of a supervised server at a URL, of which only the connection is restarted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use mgp_client_sdk::{Client, ToolResult};
use mgp_lifecycle::{ConnectDecision, ConnectGate};
use mgp_server_sdk::{Server, Tool};
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{Context, PeerInfo};
use tokio::time::timeout;

use crate::world::{WAIT_TIMEOUT, again, quick};

#[tokio::test]
async fn a_server_at_a_url_is_connected_to_again() {
    let hello = Tool::new("hello", "Greets", || async { "hello" });
    let bound = Server::new("greeter", "1").tool(hello).http("127.0.0.1:0").no_auth();
    let bound = bound.bind().await.unwrap();
    let url = format!("http://{}/mcp", bound.local_addr());
    let running = tokio::spawn(bound.run());
    let server = Client::builder("test", "1").supervise_url(&url, quick(3)).unwrap();
    server.start().await;
    let client = server.ready().await.unwrap();
    assert_eq!(client.call("hello").await.unwrap().to_text(), "hello");
    server.mark_unhealthy(1, "no answer to pings").await;
    let client = again(&server, 1).await;
    assert_eq!(client.call("hello").await.unwrap().to_text(), "hello");
    server.stop(ShutdownReason::OperatorRequest).await;
    assert_eq!(server.state().get(), ServerState::Disconnected);
    assert_eq!(client.call("hello").await.unwrap_err().code().0, 2000);
    running.abort();

    assert!(Client::builder("test", "1").supervise_url("no url", quick(3)).is_err());
}

/// A gate that decides after some seconds, like a person, and counts how often it was asked.
struct SlowGate(Arc<AtomicUsize>);

#[async_trait]
impl ConnectGate for SlowGate {
    async fn decide(&self, _: Arc<PeerInfo>, _: Context) -> ConnectDecision {
        self.0.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_secs(8)).await;
        ConnectDecision::Proceed
    }
}

#[tokio::test]
async fn a_server_at_a_url_is_connected_to_once_while_a_person_decides() {
    let look = Tool::new("look", "Takes a picture", || async { "a cat" }).permissions(["camera"]);
    let bound = Server::new("studio", "1").tool(look).http("127.0.0.1:0").no_auth();
    let bound = bound.bind().await.unwrap();
    let url = format!("http://{}/mcp", bound.local_addr());
    let running = tokio::spawn(bound.run());
    let asked = Arc::new(AtomicUsize::new(0));
    let builder = Client::builder("test", "1").gate(SlowGate(Arc::clone(&asked)));
    let server = builder.supervise_url(&url, quick(0)).unwrap();
    server.start().await;
    timeout(WAIT_TIMEOUT, server.ready()).await.unwrap().unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1, "each further connection asks again");
    server.stop(ShutdownReason::OperatorRequest).await;
    running.abort();
}

#[tokio::test]
async fn an_unreachable_url_is_tried_up_to_the_limit() {
    let url = format!("http://{}/mcp", mgp_testkit::unused_address());
    let builder = Client::builder("test", "1").init_timeout(Duration::from_secs(5));
    let server = builder.supervise_url(url, quick(2)).unwrap();
    server.start().await;
    let rest = timeout(WAIT_TIMEOUT, server.ended()).await.unwrap();
    assert_eq!((rest.state, rest.restarts), (ServerState::Error, 2));
}
