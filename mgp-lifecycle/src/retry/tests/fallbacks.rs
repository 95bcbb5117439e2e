//! Tests of the fallback tool that a server proposes once all attempts have failed.

use super::*;
use crate::FallbackPolicy;

/// Tools with three levels of risk; `send` has moderate risk.
const TOOLS: &str = r#"{"name":"send","inputSchema":{},"security":{"risk_level":"moderate"}},
    {"name":"queue","inputSchema":{},"security":{"risk_level":"safe"}},
    {"name":"post","inputSchema":{},"security":{"risk_level":"moderate"}},
    {"name":"fax","inputSchema":{},"security":{"risk_level":"dangerous"}},
    {"name":"mail","inputSchema":{}}"#;

/// Returns a server that fails all calls of `send` and proposes this fallback; it answers calls of other tools.
fn server(fallback: &str) -> Server {
    let hints = format!(
        r#"{{"retryable":true,"retry_after_ms":1,"max_retries":1,"fallback_tool":"{fallback}"}}"#
    );
    Server::new(move |_, call| match call.tool() {
        Some(tool) if tool.name == "send" => Err(with_hints(3000, &hints)),
        Some(tool) => Reply::of(&serde_json::json!({ "content": [], "by": tool.name })),
        None => Ok(list(TOOLS)),
    })
}

#[tokio::test(start_paused = true)]
async fn a_fallback_is_called_after_the_last_retry() {
    for fallback in ["queue", "post"] {
        let server = server(fallback);
        let retry = layer();
        let answer = server.client(&retry).request("tools/call", CALL).await.unwrap();
        assert!(answer.as_str().contains(fallback));
        assert_eq!(server.names(), ["send", "send", "tools/list", fallback]);
        let calls = server.calls();
        let (first, last) = (&calls[0], &calls[3]);
        assert_eq!(last.tool().unwrap().arguments, first.tool().unwrap().arguments);
        assert_eq!(last.cx().trace, first.cx().trace);
        assert_eq!(last.cx().logical.as_deref(), Some(&*first.cx().key.to_string()));
        let attempt = last.cx().extensions.get::<RetryAttempt>().unwrap();
        assert_eq!(attempt.instead_of.as_deref(), Some("send"));
        assert_eq!(attempt.retry, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fallback_is_never_riskier_unlisted_or_the_same_tool() {
    let long = "x".repeat(300);
    for fallback in ["fax", "mail", "nowhere", "send", "", &long] {
        let server = server(fallback);
        let error = server.client(&layer()).request("tools/call", CALL).await.unwrap_err();
        assert_eq!(error.code().0, 3000);
        let tools: Vec<_> =
            server.names().into_iter().filter(|name| name != "tools/list").collect();
        assert_eq!(tools, ["send", "send"], "{fallback}");
    }
    // The effective risk takes precedence over the declared risk.
    let server = server("fax");
    let retry = layer().risk(|_| mgp_types::mgp::RiskLevel::Safe);
    server.client(&retry).request("tools/call", CALL).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fallback_is_not_called_if_a_retry_is_ruled_out() {
    for hints in [
        r#"{"retryable":false,"fallback_tool":"queue"}"#,
        r#"{"fallback_tool":"queue"}"#,
        r#"{"retryable":true,"retry_after_ms":1000000000000,"fallback_tool":"queue"}"#,
        // The details state that the call was started.
        r#"{"retryable":true,"fallback_tool":"queue","details":{"started":true}}"#,
    ] {
        let server = Server::new(move |_, call| match call.tool() {
            Some(tool) if tool.name == "send" => Err(with_hints(3000, hints)),
            Some(_) => Ok(Reply::empty()),
            None => Ok(list(TOOLS)),
        });
        server.client(&layer()).request("tools/call", CALL).await.unwrap_err();
        let tools: Vec<_> =
            server.names().into_iter().filter(|name| name != "tools/list").collect();
        assert_eq!(tools, ["send"], "{hints}");
    }
    let mut config = RetryConfig::default();
    config.fallback = FallbackPolicy::Never;
    let server = server("queue");
    server.client(&RetryLayer::new(config)).request("tools/call", CALL).await.unwrap_err();
    assert_eq!(server.names(), ["send", "send"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_fallback_returns_the_first_error_and_has_no_fallback() {
    let answers: [fn() -> Outcome; 4] = [
        || Err(with_hints(3000, r#"{"retryable":true,"retry_after_ms":1,"fallback_tool":"post"}"#)),
        || Err(code(ErrorCode::ACCESS_DENIED)),
        || Ok(Reply::raw(Payload::from_trusted(r#"{"content":[],"isError":true}"#))),
        || {
            let needed = InputRequired { asks: Vec::new(), state: Some("s".into()) };
            Ok(Reply::InputRequired(needed))
        },
    ];
    for answer in answers {
        let hints = r#"{"retryable":true,"max_retries":0,"fallback_tool":"queue"}"#;
        let server = Server::new(move |_, call| match call.tool() {
            Some(tool) if tool.name == "send" => Err(with_hints(3000, hints)),
            Some(_) => answer(),
            None => Ok(list(TOOLS)),
        });
        let error = server.client(&layer()).request("tools/call", CALL).await.unwrap_err();
        assert_eq!(error, with_hints(3000, hints));
        assert_eq!(server.names(), ["send", "tools/list", "queue"]);
    }
}

#[tokio::test(start_paused = true)]
async fn fallbacks_are_taken_from_the_budget() {
    let hints = r#"{"retryable":true,"max_retries":0,"fallback_tool":"queue"}"#;
    let server = Server::new(move |_, call| match call.tool() {
        Some(_) => Err(with_hints(3000, hints)),
        None => Ok(list(TOOLS)),
    });
    let retry = layer();
    let mut client = server.client(&retry);
    for _ in 0..1_000 {
        client.request("tools/call", CALL).await.unwrap_err();
    }
    let calls = server.names().into_iter().filter(|name| name != "tools/list").count();
    assert_eq!(calls, 1_100);
}

#[tokio::test(start_paused = true)]
async fn a_fallback_that_the_circuit_breaker_refuses_stays_in_the_budget() {
    let hints = r#"{"retryable":true,"max_retries":0,"fallback_tool":"queue"}"#;
    let server = Server::new(move |_, call| match call.tool() {
        Some(tool) if tool.name == "send" => Err(with_hints(3000, hints)),
        Some(tool) if tool.name == "post" => Err(with_hints(5002, "{}")),
        Some(_) => Ok(Reply::empty()),
        None => Ok(list(TOOLS)),
    });
    let below = server.stack();
    let slow = Stack::from_fn(move |call: Call| {
        let (below, is_send) = (below.clone(), call.tool().is_some_and(|tool| tool.name == "send"));
        async move {
            let outcome = below.send(call).await;
            if is_send {
                sleep(Duration::from_secs(1)).await;
            }
            outcome
        }
    });
    let mut config = RetryConfig::default();
    config.budget = RetryBudget { percent: 0, floor: 1 };
    config.circuit.failures = 1;
    let mut client = mock::client(Stack::new(RetryLayer::new(config).layer(slow)));
    client.request("tools/list", "{}").await.unwrap();
    let failing = tokio::spawn(client.call("tools/call", CALL));
    sleep(Duration::from_millis(500)).await;
    // This call opens the circuit.
    client.request("tools/call", r#"{"name":"post"}"#).await.unwrap_err();
    failing.await.unwrap().unwrap_err();
    advance(Duration::from_secs(5)).await;
    client.request("tools/call", CALL).await.unwrap();
    assert_eq!(server.names(), ["tools/list", "send", "post", "send", "queue"]);
}
