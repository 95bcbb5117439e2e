//! Tests of the codes 5000 to 5099: failures of services and servers behind a server.

use mgp_client_sdk::{Client, RetryConfig};
use mgp_server_sdk::prelude::*;
use mgp_types::service::Stack;
use serde_json::json;

use super::expected_error::ExpectedError;
use super::gateway;
use super::peer::{PEERS, Peer};
use super::security::with_token;
use crate::script;

/// Returns a server whose tool reports an error of an external service that it uses.
fn failing(code: ErrorCode, message: &'static str) -> Stack {
    let tool = Tool::new("t", "Asks a service", move || async move {
        Err::<&str, _>(RpcError::new(code, message))
    });
    Server::new("s", "1").tool(tool).into_stack().unwrap()
}

#[tokio::test]
async fn code_5000_upstream_error() {
    let stack = failing(ErrorCode::UPSTREAM_ERROR, "the weather service answered 500");
    ExpectedError::new(ErrorCode::UPSTREAM_ERROR)
        .message(["the weather service answered 500"])
        .check_all_peers(&stack, "t")
        .await;

    // The server behind a gateway answers with an error, or closes the connection before it answers. In both cases the
    // call may have run.
    for (hangs_up, words) in
        [(false, "the server failed (HTTP 502"), (true, "broke before the answer")]
    {
        let server = script::Server::modern(move |seen| {
            let reply = || if hangs_up { script::Response::Nothing } else { script::status(502) };
            (seen.method() == "tools/call").then(reply)
        })
        .await;
        let client = script::client().connect_url(&server.url).await.unwrap();
        let stack = gateway::to(client).into_stack().unwrap();
        ExpectedError::new(ErrorCode::UPSTREAM_ERROR)
            .message([words])
            .check_all_peers(&stack, "t")
            .await;
    }
}

#[tokio::test]
async fn code_5001_upstream_timeout() {
    let stack = failing(ErrorCode::UPSTREAM_TIMEOUT, "the weather service took too long");
    ExpectedError::new(ErrorCode::UPSTREAM_TIMEOUT)
        .message(["the weather service took too long"])
        .check_all_peers(&stack, "t")
        .await;
}

#[tokio::test]
async fn code_5002_upstream_unavailable() {
    let stack = failing(ErrorCode::UPSTREAM_UNAVAILABLE, "the weather service cannot be reached");
    ExpectedError::new(ErrorCode::UPSTREAM_UNAVAILABLE)
        .message(["the weather service cannot be reached"])
        .check_all_peers(&stack, "t")
        .await;

    // Send a token that cannot be verified, because the authorization server cannot be reached.
    let answer = with_token(Some("early")).await;
    assert_eq!((answer.status, &answer.body["error"]["code"]), (503, &json!(5002)));
    assert!(answer.head.contains("retry-after: 5"), "{answer:?}");
    assert!(answer.body["error"].get("data").is_none(), "nothing was negotiated: {answer:?}");

    // After several failed attempts in a row to reach a server, the client must refuse calls to it for a while, without
    // sending them.
    tokio::time::pause();
    let mut config = RetryConfig::default();
    (config.max_retries, config.circuit.failures) = (0, 1);
    let builder = Client::builder("gateway", "1").server_id("below").retry(config);
    let (client, _) = gateway::through(builder, Server::new("below", "1")).await;
    client.close().await;
    let stack = gateway::to(client).into_stack().unwrap();
    let answer = Peer::join(&stack, PEERS[0]).await.call("t").await;
    ExpectedError::new(ErrorCode::SERVER_NOT_READY)
        .message(["connection closed"])
        .check_mgp(&answer);
    ExpectedError::new(ErrorCode::UPSTREAM_UNAVAILABLE)
        .message([
            "server `below` could not be reached several times in a row",
            "tried again in 5 s",
        ])
        .details(["circuit", "server_id"])
        .started(false)
        .hint("retry_after_ms", json!(5001))
        .check_all_peers(&stack, "t")
        .await;
}
