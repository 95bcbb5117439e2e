//! Connections that break before an answer begins: which requests are sent again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::ToolResult as _;
use mgp_types::ErrorCode;

use crate::script::{Received, Response, Server, client, usual};

/// Closes the connection on the first requests of a method, after reading them.
fn hangs_up(method: &'static str, times: usize) -> impl Fn(&Received) -> Option<Response> {
    let left = Arc::new(AtomicUsize::new(times));
    move |seen| {
        let less = |left: usize| left.checked_sub(1);
        (seen.method() == method
            && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok())
        .then_some(Response::Nothing)
    }
}

#[tokio::test]
async fn requests_without_effect_are_sent_once_more() {
    let server = Server::modern(hangs_up("tools/list", 1)).await;
    let client = client().connect_url(&server.url).await.unwrap();
    assert!(client.list_tools().await.unwrap().is_empty());
    let seen = server.seen();
    let lists: Vec<_> = seen.iter().filter(|seen| seen.method() == "tools/list").collect();
    assert_eq!(lists.len(), 2);
    assert_ne!(lists[0].connection, lists[1].connection);
    assert_eq!(lists[0].body, lists[1].body);
}

#[tokio::test]
async fn a_request_is_repeated_only_once() {
    let server = Server::modern(hangs_up("tools/list", 2)).await;
    let client = client().connect_url(&server.url).await.unwrap();
    let error = client.list_tools().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::UPSTREAM_ERROR);
    assert!(error.message().contains("broke before the answer"), "{error}");
    assert_eq!(server.count("tools/list"), 2);
    assert!(client.list_tools().await.unwrap().is_empty());
}

#[tokio::test]
async fn the_probe_of_a_handshake_is_sent_once_more() {
    let server = Server::modern(hangs_up("server/discover", 1)).await;
    client().connect_url(&server.url).await.unwrap();
    assert_eq!(server.count("server/discover"), 2);
}

#[tokio::test]
async fn a_tool_call_that_may_have_run_is_not_sent_again() {
    let server = Server::modern(hangs_up("tools/call", 1)).await;
    let client = client().connect_url(&server.url).await.unwrap();
    let error = client.call("t").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::UPSTREAM_ERROR);
    assert!(!error.is_retryable(), "{error}");
    assert_eq!(server.count("tools/call"), 1);
    assert_eq!(client.call("t").await.unwrap().to_text(), "done");
}

#[tokio::test]
async fn a_server_that_closes_idle_connections_loses_no_call() {
    // Each response closes its connection without announcing it in a header.
    let server = Server::start(|seen| Response::Last(Box::new(usual(seen)))).await;
    let client = client().connect_url(&server.url).await.unwrap();
    for _ in 0..10 {
        assert_eq!(client.call("t").await.unwrap().to_text(), "done");
        // The connection is closed before the next call is written.
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    for _ in 0..50 {
        client.list_tools().await.unwrap();
    }
    assert_eq!(server.count("tools/call"), 10);
}
