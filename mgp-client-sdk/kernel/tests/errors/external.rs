//! 5000 to 5099: what is behind a server.

use mgp_client_sdk::{Client, RetryConfig};
use mgp_server_sdk::prelude::*;
use mgp_types::service::Stack;
use serde_json::json;

use crate::gateway;
use crate::heard::Heard;
use crate::peer::{PEERS, Peer};
use crate::script;
use crate::security::with_token;

/// A server whose tool says what the service behind it did.
fn says(code: ErrorCode, message: &'static str) -> Stack {
    let tool = Tool::new("t", "Asks a service", move || async move {
        Err::<&str, _>(RpcError::new(code, message))
    });
    Server::new("s", "1").tool(tool).into_stack().unwrap()
}

#[tokio::test]
async fn code_5000_upstream_error() {
    let stack = says(ErrorCode::UPSTREAM_ERROR, "the weather service answered 500");
    Heard::of(ErrorCode::UPSTREAM_ERROR)
        .says(["the weather service answered 500"])
        .heard_by_all(&stack, "t")
        .await;

    // A server behind a gateway that fails, and one that hangs up: the call may have run.
    for (hangs_up, words) in
        [(false, "the server failed (HTTP 502"), (true, "broke before the answer")]
    {
        let server = script::Server::modern(move |seen| {
            let said = || if hangs_up { script::Said::Nothing } else { script::status(502) };
            (seen.method() == "tools/call").then(said)
        })
        .await;
        let client = script::client().connect_url(&server.url).await.unwrap();
        let stack = gateway::to(client).into_stack().unwrap();
        Heard::of(ErrorCode::UPSTREAM_ERROR).says([words]).heard_by_all(&stack, "t").await;
    }
}

#[tokio::test]
async fn code_5001_upstream_timeout() {
    let stack = says(ErrorCode::UPSTREAM_TIMEOUT, "the weather service took too long");
    Heard::of(ErrorCode::UPSTREAM_TIMEOUT)
        .says(["the weather service took too long"])
        .heard_by_all(&stack, "t")
        .await;
}

#[tokio::test]
async fn code_5002_upstream_unavailable() {
    let stack = says(ErrorCode::UPSTREAM_UNAVAILABLE, "the weather service cannot be reached");
    Heard::of(ErrorCode::UPSTREAM_UNAVAILABLE)
        .says(["the weather service cannot be reached"])
        .heard_by_all(&stack, "t")
        .await;

    // Who could tell whether credentials are good is out of reach.
    let answer = with_token(Some("early")).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (503, &json!(5002)));
    assert!(answer.head.contains("retry-after: 5"), "{answer:?}");
    assert!(answer.body["error"].get("data").is_none(), "nothing was negotiated: {answer:?}");

    // A server that was out of reach several times in a row is left alone for a while.
    tokio::time::pause();
    let mut config = RetryConfig::default();
    (config.retries, config.circuit.failures) = (0, 1);
    let builder = Client::builder("gateway", "1").server_id("below").retry(config);
    let (client, _) = gateway::through(builder, Server::new("below", "1")).await;
    client.close().await;
    let stack = gateway::to(client).into_stack().unwrap();
    let answer = Peer::join(&stack, PEERS[0]).await.call("t").await;
    Heard::of(ErrorCode::SERVER_NOT_READY).says(["connection closed"]).check_mgp(&answer);
    Heard::of(ErrorCode::UPSTREAM_UNAVAILABLE)
        .says(["server `below` could not be reached several times in a row", "tried again in 5s"])
        .details(["circuit", "server_id"])
        .started(false)
        .hint("retry_after_ms", json!(5001))
        .heard_by_all(&stack, "t")
        .await;
}
