//! Connections that break before an answer begins: what is sent again, and what is not.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::ToolResult as _;
use mgp_types::ErrorCode;

use crate::script::{Said, Seen, Server, client, usual};

/// Hangs up on the first requests of a method, after it read them.
fn hangs_up(method: &'static str, times: usize) -> impl Fn(&Seen) -> Option<Said> {
    let left = Arc::new(AtomicUsize::new(times));
    move |seen| {
        let less = |left: usize| left.checked_sub(1);
        (seen.method() == method
            && left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok())
        .then_some(Said::Nothing)
    }
}

#[tokio::test]
async fn what_changes_nothing_is_sent_once_more() {
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
async fn it_is_sent_once_more_and_no_more() {
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
    // Every answer is the last of its connection, and does not say so.
    let server = Server::start(|seen| Said::Last(Box::new(usual(seen)))).await;
    let client = client().connect_url(&server.url).await.unwrap();
    for _ in 0..10 {
        assert_eq!(client.call("t").await.unwrap().to_text(), "done");
        // The end of the connection is there before the next call is written.
        tokio::time::sleep(Duration::from_millis(15)).await;
    }
    for _ in 0..50 {
        client.list_tools().await.unwrap();
    }
    assert_eq!(server.count("tools/call"), 10);
}
