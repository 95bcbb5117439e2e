//! Tests of the circuit breaker: an unreachable server is not called for some time, and then probed.

use super::*;
use crate::CircuitConfig;

/// Returns a layer without retries, so that each failure is exactly one call.
fn circuit(failures: u32) -> RetryLayer {
    let mut config = RetryConfig::default();
    config.max_retries = 0;
    config.circuit = CircuitConfig { failures, ..CircuitConfig::default() };
    RetryLayer::new(config).server("shop")
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_not_called_until_one_call_probes_it() {
    let back = Arc::new(Mutex::new(false));
    let is_back = Arc::clone(&back);
    let server = Server::new(move |_, _| {
        let away = || Err(code(ErrorCode::UPSTREAM_UNAVAILABLE));
        if *is_back.lock() { Ok(Reply::empty()) } else { away() }
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
        "server `shop` could not be reached several times in a row; it is tried again in 3 s"
    );
    let hints = refused.as_recovery().unwrap();
    assert!(hints.is_retryable());
    assert_eq!(hints.retry_after_ms, Some(3001));
    assert_eq!(hints.details.as_ref().unwrap().get("server_id").unwrap().as_str(), "\"shop\"");
    // While one call probes the server, other calls are refused.
    advance(Duration::from_secs(3)).await;
    let (probe, other) = (client.call("tools/call", CALL), client.call("tools/call", CALL));
    let (probe, other) = tokio::join!(probe, other);
    assert_eq!((probe.unwrap_err().message(), server.count()), ("no", 4));
    assert!(other.unwrap_err().message().contains("several times"));
    *back.lock() = true;
    advance(Duration::from_secs(5)).await;
    for _ in 0..3 {
        client.request("tools/call", CALL).await.unwrap();
    }
    assert_eq!(server.count(), 7);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_a_gate_or_the_caller_opens_no_circuit() {
    for number in
        [1000, 1001, 1010, 2001, 2002, 3000, 3001, 3002, 3003, 4000, 4001, 5000, -32602, -32603]
    {
        let server = Server::failing(with_hints(number, "{}"));
        let retry = circuit(2);
        let mut client = server.client(&retry);
        for _ in 0..20 {
            client.request("tools/call", CALL).await.unwrap_err();
        }
        assert_eq!(server.count(), 20, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_server_has_its_circuit_and_management_requests_pass() {
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

/// Returns a client whose first call finds the server unreachable, and whose second call does not end.
fn client_with_endless_probe() -> mock::Client {
    let tries = Arc::new(Mutex::new(0));
    let count = Arc::clone(&tries);
    let stack = Stack::from_fn(move |_| {
        let mut tries = count.lock();
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
    mock::client(Stack::new(circuit(1).layer(stack)))
}

#[tokio::test(start_paused = true)]
async fn after_a_dropped_probe_the_next_call_probes() {
    let mut client = client_with_endless_probe();
    client.request("tools/call", CALL).await.unwrap_err();
    advance(Duration::from_secs(5)).await;
    let probe = client.call("tools/call", CALL);
    assert!(tokio::time::timeout(Duration::from_secs(1), probe).await.is_err());
    client.request("tools/call", CALL).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_probe_that_does_not_end_holds_up_other_calls_only_for_a_while() {
    let mut client = client_with_endless_probe();
    client.request("tools/call", CALL).await.unwrap_err();
    advance(Duration::from_secs(5)).await;
    let probe = client.call("tools/call", CALL);
    let refused = client.request("tools/call", CALL).await.unwrap_err();
    assert!(refused.message().contains("several times"), "{refused}");
    advance(Duration::from_secs(5)).await;
    client.request("tools/call", CALL).await.unwrap();
    drop(probe);
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

#[tokio::test(start_paused = true)]
async fn a_retry_that_the_circuit_breaker_refuses_stays_in_the_budget() {
    let mut config = RetryConfig::default();
    config.budget = RetryBudget { percent: 0, floor: 1 };
    config.circuit.failures = 1;
    let busy = |wait: u64| {
        let hints = format!(r#"{{"retryable":true,"retry_after_ms":{wait}}}"#);
        Err(with_hints(3000, &hints))
    };
    let server = Server::script([busy(1_000), Err(with_hints(5002, "{}")), busy(1)]);
    let mut client = server.client(&RetryLayer::new(config));
    let waiting = tokio::spawn(client.call("tools/call", CALL));
    sleep(Duration::from_millis(500)).await;
    // This call opens the circuit.
    client.request("tools/call", CALL).await.unwrap_err();
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), ErrorCode::RATE_LIMITED);
    assert_eq!(server.count(), 2);
    advance(Duration::from_secs(5)).await;
    client.request("tools/call", CALL).await.unwrap();
    assert_eq!(server.count(), 4);
}
