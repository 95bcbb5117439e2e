//! Tests of connections that break before an answer begins, and of proxies that answer for a server. They check which
//! requests are sent again, and how the server's health changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mgp_client_sdk::{HealthReason, MonitorConfig, SuperviseConfig, ToolResult as _};
use mgp_types::ErrorCode;
use tokio::time::timeout;

use crate::script::{Received, Response, Server, client, status, usual};

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
    assert!(!error.is_retryable() && error.message().contains("may have run"), "{error}");
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

/// Returns settings with which one ping without an answer makes a server unhealthy.
fn impatient() -> MonitorConfig {
    let mut config = MonitorConfig::default();
    config.interval = Duration::from_millis(20);
    config.timeout = Duration::from_millis(200);
    config.misses = 1;
    config
}

#[tokio::test]
async fn responses_of_a_proxy_are_not_signs_of_life() {
    let responses: [fn() -> Response; 5] = [
        || status(502),
        || status(404),
        || status(401),
        || Response::Whole(200, Vec::new(), "text/html", "<html></html>".to_owned()),
        || Response::Nothing,
    ];
    for (case, response) in responses.into_iter().enumerate() {
        for builder in [client(), client().bearer("secret")] {
            let is_down = Arc::new(AtomicBool::new(false));
            let down = Arc::clone(&is_down);
            let server = Server::modern(move |_| down.load(Ordering::Relaxed).then(response)).await;
            let client = builder.connect_url(&server.url).await.unwrap();
            let watch = client.monitor_health(impatient());
            is_down.store(true, Ordering::Relaxed);
            let change = timeout(Duration::from_secs(10), watch.unhealthy()).await;
            assert_eq!(change.unwrap().reason, HealthReason::NoAnswer, "{case}");
        }
    }
}

#[tokio::test]
async fn a_supervised_server_behind_a_failing_proxy_is_replaced() {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let server = Server::modern(move |_| down.load(Ordering::Relaxed).then(|| status(502))).await;
    let mut quick = SuperviseConfig::default();
    quick.max_restarts = 10_000;
    quick.backoff_base = Duration::from_millis(5);
    quick.backoff_max = Duration::from_millis(10);
    let builder = client().replace_unhealthy(impatient());
    let supervised = builder.supervise_url(&server.url, quick).unwrap();
    supervised.start().await;
    supervised.ready().await.unwrap();
    is_down.store(true, Ordering::Relaxed);
    mgp_testkit::until("the server is replaced", async || supervised.restarts() > 0).await;
    is_down.store(false, Ordering::Relaxed);
    // On a slow machine, a ping can be late, so that the server is replaced once more.
    mgp_testkit::until("calls work again", async || {
        let client = timeout(Duration::from_secs(20), supervised.ready()).await.unwrap().unwrap();
        client.call("t").await.is_ok_and(|result| result.to_text() == "done")
    })
    .await;
}
