//! Tests that the end of a server is reported immediately.

use std::time::Duration;

use mgp_types::ErrorCode;
use serde_json::json;
use tokio::time::Instant;

use crate::script::{Script, plain};

#[tokio::test(start_paused = true)]
async fn calls_fail_when_the_stream_ends_and_after() {
    let (client, mut script) = Script::legacy(plain(), json!({})).await;
    let began = Instant::now();
    let (call, ()) = tokio::join!(client.call("t").send(), async move {
        script.read().await.unwrap();
        drop(script);
    });
    let error = call.unwrap_err();
    assert_eq!(error.code(), ErrorCode::SERVER_NOT_READY);
    assert_eq!(error.message(), "connection closed: the peer closed the connection");
    // The server may have run the call before it ended, so a retry might run it twice.
    assert!(!error.is_retryable());
    assert!(client.is_closed());
    assert_eq!(client.list_tools().await.unwrap_err().code(), ErrorCode::SERVER_NOT_READY);
    client.closed().await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// The connection would wait until the handler of the question has ended, but the call must fail immediately.
#[tokio::test(start_paused = true)]
async fn a_hanging_question_does_not_hide_the_end() {
    let builder = plain().on_elicitation(|_| std::future::pending());
    let (client, mut script) = Script::legacy(builder, json!({})).await;
    let began = Instant::now();
    let (call, ()) = tokio::join!(client.call("t").send(), async move {
        script.read().await.unwrap();
        let params =
            json!({ "message": "?", "requestedSchema": { "type": "object", "properties": {} } });
        script.send("elicitation/create", params).await;
        drop(script);
    });
    assert_eq!(call.unwrap_err().code(), ErrorCode::SERVER_NOT_READY);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn calls_of_a_closed_client_name_the_reason() {
    let (client, mut script) = Script::legacy(plain(), json!({})).await;
    assert!(!client.is_closed());
    assert_eq!(client.close().await, None);
    assert!(client.is_closed() && script.read().await.is_none());
    let error = client.ping().await.unwrap_err();
    assert_eq!(error.message(), "connection closed: the connection was closed on this side");
}

#[tokio::test]
async fn dropping_the_last_clone_ends_the_connection() {
    let (client, mut script) = Script::legacy(plain(), json!({})).await;
    let clone = client.clone();
    drop(client);
    assert!(!clone.is_closed());
    drop(clone);
    assert!(script.read().await.is_none());
}
