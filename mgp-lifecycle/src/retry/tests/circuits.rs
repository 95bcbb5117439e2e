//! A server that is out of reach is left alone, and found again.

use super::*;
use crate::CircuitConfig;

/// No attempts but the first, so that every failure is a call.
fn circuit(failures: u32) -> RetryLayer {
    let mut config = RetryConfig::default();
    config.retries = 0;
    config.circuit = CircuitConfig { failures, ..CircuitConfig::default() };
    RetryLayer::new(config).server("shop")
}

#[tokio::test(start_paused = true)]
async fn a_server_out_of_reach_is_left_alone_and_one_call_finds_out() {
    let back = Arc::new(Mutex::new(false));
    let is_back = Arc::clone(&back);
    let server = Server::new(move |_, _| {
        let away = || Err(code(ErrorCode::UPSTREAM_UNAVAILABLE));
        if *is_back.lock().unwrap() { Ok(Reply::empty()) } else { away() }
    });
    let retry = circuit(3);
    let mut client = server.client(&retry);
    for _ in 0..10 {
        assert_eq!(client.request("tools/call", CALL).await.unwrap_err().code().0, 5002);
    }
    assert_eq!(server.count(), 3);
    advance(Duration::from_secs(2)).await;
    let refused = client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(
        refused.message(),
        "server `shop` could not be reached several times in a row; it is tried again in 3s"
    );
    let hints = refused.as_recovery().unwrap();
    assert!(hints.is_retryable());
    assert_eq!(hints.retry_after_ms, Some(3001));
    assert_eq!(hints.details.as_ref().unwrap().get("server_id").unwrap().as_str(), "\"shop\"");
    // Others wait while one finds out.
    advance(Duration::from_secs(3)).await;
    let (probe, other) = (client.call("tools/call", CALL), client.call("tools/call", CALL));
    let (probe, other) = tokio::join!(probe, other);
    assert_eq!((probe.unwrap_err().message(), server.count()), ("no", 4));
    assert!(other.unwrap_err().message().contains("several times"));
    *back.lock().unwrap() = true;
    advance(Duration::from_secs(5)).await;
    for _ in 0..3 {
        client.request("tools/call", CALL).await.unwrap();
    }
    assert_eq!(server.count(), 7);
}

#[tokio::test(start_paused = true)]
async fn what_a_gate_or_the_caller_did_wrong_leaves_no_server_alone() {
    for number in
        [1000, 1001, 1010, 2001, 2002, 3000, 3001, 3002, 3003, 4000, 4001, 5000, -32602, -32603]
    {
        let server = Server::failing(said(number, "{}"));
        let retry = circuit(2);
        let mut client = server.client(&retry);
        for _ in 0..20 {
            client.request("tools/call", CALL).await.unwrap_err();
        }
        assert_eq!(server.count(), 20, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn servers_are_told_apart_and_what_manages_them_passes() {
    let server = Server::failing(code(ErrorCode::SERVER_NOT_READY));
    let retry = circuit(1);
    let mut client = server.client(&retry);
    client.request("tools/call", CALL).await.unwrap_err();
    client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(server.count(), 1);
    for method in ["ping", "initialize", "mgp/health/ping", "mgp/lifecycle/shutdown"] {
        client.request(method, "{}").await.unwrap_err();
    }
    client.notify("notifications/initialized", "{}").await.unwrap_err();
    assert_eq!(server.count(), 6);
    client.cx.server = Some("other".into());
    client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(server.count(), 7);
    client.cx.server = Some("shop".into());
    client.request("resources/list", "{}").await.unwrap_err();
    assert_eq!(server.count(), 7);
    retry.restarted(Some(&"shop".into()));
    client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(server.count(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_caller_leaves_is_left_to_the_next() {
    let tries = Arc::new(Mutex::new(0));
    let count = Arc::clone(&tries);
    let stack = Stack::from_fn(move |_| {
        let mut tries = count.lock().unwrap();
        *tries += 1;
        let number = *tries;
        async move {
            match number {
                1 => Err(code(ErrorCode::UPSTREAM_UNAVAILABLE)),
                2 => std::future::pending().await,
                _ => Ok(Reply::empty()),
            }
        }
    });
    let mut client = mock::client(Stack::new(circuit(1).layer(stack)));
    client.request("tools/call", CALL).await.unwrap_err();
    advance(Duration::from_secs(5)).await;
    let probe = client.call("tools/call", CALL);
    assert!(tokio::time::timeout(Duration::from_secs(1), probe).await.is_err());
    client.request("tools/call", CALL).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_attempt_waits_until_the_server_is_tried_again() {
    let mut config = RetryConfig::default();
    config.circuit.failures = 2;
    let server = Server::script([
        Err(code(ErrorCode::SERVER_NOT_READY)),
        Err(code(ErrorCode::SERVER_NOT_READY)),
    ]);
    let retry = RetryLayer::new(config);
    server.client(&retry).request("tools/call", CALL).await.unwrap();
    assert_eq!(server.waits(), [1000, 5000]);
}
