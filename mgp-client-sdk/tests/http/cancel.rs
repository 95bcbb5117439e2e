//! Tests that the server of a caller that stops waiting is notified in the way of the server's era.

use std::time::Duration;

use mgp_client_sdk::EraChoice;
use mgp_types::ErrorCode;
use mgp_types::method::{Initialize, Request as _};

use crate::script::{Received, Server, Step, client, events};

fn hangs(seen: &Received) -> Option<crate::script::Response> {
    (seen.method() == "tools/call").then(|| events([Step::Hold]))
}

#[tokio::test]
async fn a_legacy_server_is_notified() {
    let server = Server::legacy(hangs).await;
    let client = client().connect_url(&server.url).await.unwrap();
    let calling = tokio::spawn(client.call("t").into_future());
    let call = server.wait_for(|seen| seen.method() == "tools/call").await;
    calling.abort();
    let told = server.wait_for(|seen| seen.method() == "notifications/cancelled").await;
    assert_eq!(told.body["params"]["requestId"], call.body["id"]);
    assert_eq!(told.header("mcp-session-id"), Some("s-1"));
    server.wait_left("tools/call").await;
}

#[tokio::test]
async fn a_modern_server_sees_its_stream_closed() {
    let server = Server::modern(hangs).await;
    let client = client().connect_url(&server.url).await.unwrap();
    let error = client.call("t").timeout(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::TIMEOUT);
    server.wait_left("tools/call").await;
    client.call("u").timeout(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(server.count("tools/call"), 2);
    assert_eq!(server.count("notifications/cancelled"), 0);
}

#[tokio::test]
async fn an_initialize_that_is_given_up_is_not_cancelled() {
    let server =
        Server::legacy(|seen| (seen.method() == Initialize::METHOD).then(|| events([Step::Hold])))
            .await;
    let connecting = client().era(EraChoice::Legacy).init_timeout(Duration::from_secs(1));
    connecting.connect_url(&server.url).await.unwrap_err();
    server.wait_left(Initialize::METHOD).await;
    assert_eq!(server.methods(), [Initialize::METHOD]);
}
