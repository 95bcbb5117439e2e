//! A server at a URL: only the connection is restarted.

use std::time::Duration;

use mgp_client_sdk::{Client, ToolResult};
use mgp_server_sdk::{Server, Tool};
use mgp_types::mgp::{ServerState, ShutdownReason};
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

#[tokio::test]
async fn an_unreachable_url_is_tried_up_to_the_limit() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", nobody.local_addr().unwrap());
    drop(nobody);
    let builder = Client::builder("test", "1").init_timeout(Duration::from_secs(5));
    let server = builder.supervise_url(url, quick(2)).unwrap();
    server.start().await;
    let rest = timeout(WAIT_TIMEOUT, server.ended()).await.unwrap();
    assert_eq!((rest.state, rest.restarts), (ServerState::Error, 2));
}
