//! Tests of the modern era: stateless requests, and the headers that repeat their parameters.

use std::time::Duration;

use mgp_client_sdk::ToolResult as _;
use mgp_types::ErrorCode;
use mgp_types::mcp::Era;
use serde_json::json;
use tokio::time::Instant;

use crate::script::{Server, Step, client, events, json_of, refused, say};

#[tokio::test]
async fn every_request_describes_itself_in_headers() {
    let server = Server::modern(|_| None).await;
    let client = client().connect_url(&server.url).await.unwrap();
    assert_eq!(client.server().era, Era::Modern);
    for tool in ["add", "wörter", " padded ", "=?base64?eA==?="] {
        assert_eq!(client.call(tool).await.unwrap().to_text(), "done");
    }
    client.close().await;
    let seen = server.seen();
    let calls = seen.iter().filter(|seen| seen.method() == "tools/call");
    let names: Vec<_> = calls.map(|seen| seen.header("mcp-name")).collect();
    let expected = [
        Some("add"),
        Some("=?base64?d8O2cnRlcg==?="),
        Some("=?base64?IHBhZGRlZCA=?="),
        Some("=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
    ];
    assert_eq!(names, expected);
    for seen in &seen {
        assert_eq!(seen.verb, "POST", "there is nothing to open or to end");
        assert_eq!(seen.header("mcp-method"), Some(seen.method()));
        assert_eq!(seen.header("mcp-name").is_some(), seen.method() == "tools/call");
        assert_eq!(seen.header("mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(seen.header("mcp-session-id"), None);
    }
}

#[tokio::test]
async fn a_server_may_not_ask_on_a_modern_stream() {
    let server = Server::modern(|seen| {
        let question = json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" });
        (seen.method() == "tools/call").then(|| events([say(&question), say(&seen.text("done"))]))
    })
    .await;
    let client = client().connect_url(&server.url).await.unwrap();
    assert_eq!(client.call("t").await.unwrap().to_text(), "done");
    client.call("t").await.unwrap();
    assert_eq!(server.count("answer"), 0);
}

#[tokio::test]
async fn a_cut_modern_stream_is_not_resumed() {
    let server = Server::modern(|seen| {
        let priming = Step::Say("id: 1\nretry: 1\ndata:\n\n".to_owned());
        (seen.method() == "tools/call").then(|| events([priming, Step::Break]))
    })
    .await;
    let client = client().connect_url(&server.url).await.unwrap();
    let error = client.call("t").await.unwrap_err();
    let error = error.to_string();
    assert!(error.contains("before the answer") && error.contains("may have run"), "{error}");
    assert_eq!((server.count("GET"), server.count("tools/call")), (0, 1));
}

#[tokio::test]
async fn an_error_in_the_body_is_the_error_whatever_the_status() {
    let server =
        Server::modern(|seen| (seen.method() == "tools/call").then(|| refused(400, seen, -32602)))
            .await;
    let client = client().connect_url(&server.url).await.unwrap();
    let error = client.call("t").await.unwrap_err();
    assert_eq!((error.code(), &*error.message()), (ErrorCode::INVALID_PARAMS, "scripted refusal"));
}

#[tokio::test]
async fn a_call_waits_for_the_list_of_tools_no_longer_than_its_time_limit() {
    let server =
        Server::modern(|seen| (seen.method() == "tools/list").then(|| events([Step::Hold]))).await;
    let client = client().connect_url(&server.url).await.unwrap();
    for _ in 0..2 {
        let begun = Instant::now();
        let call = client.call("t").timeout(Duration::from_millis(200));
        assert_eq!(call.await.unwrap().to_text(), "done");
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }
}

#[tokio::test]
async fn a_list_of_tools_that_repeats_a_cursor_is_read_only_up_to_there() {
    let server = Server::modern(|seen| {
        let page = json!({
            "resultType": "complete", "tools": [], "nextCursor": "2", "ttlMs": 60_000,
            "cacheScope": "private",
        });
        (seen.method() == "tools/list").then(|| json_of(&seen.result(&page)))
    })
    .await;
    let client = client().connect_url(&server.url).await.unwrap();
    for _ in 0..2 {
        assert_eq!(client.call("t").await.unwrap().to_text(), "done");
    }
    assert_eq!(server.count("tools/list"), 2);
}
