//! Tests of calls as streams, many calls at the same time, members of calls, and results as data. Further tests of
//! streams are in `stream_stories`.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use mgp_client_sdk::{Client, Error, StreamItem, TestClient, ToolResult};
use mgp_server_sdk::prelude::*;
use mgp_types::Payload;
use mgp_types::mcp::ContentBlock;
use serde_json::{Value, json};
use tokio::task::coop;

fn talker() -> Server {
    let talk = Tool::new("talk", "Talks", |outlet: Outlet| async move {
        for number in 0..200 {
            let chunk = Payload::of(&ContentBlock::text(format!("{number} ")))?;
            let _ = outlet.send(OutletItem::chunk(chunk)).await;
            if number % 100 == 99 {
                let progress = f64::from(number + 1);
                let step = Progress { progress, total: Some(200.0), ..Progress::default() };
                let _ = outlet.send(OutletItem::Progress(step)).await;
            }
        }
        Ok::<_, RpcError>("done")
    });
    let fail =
        Tool::new("fail", "Fails", || async { Err::<&str, _>(ToolError("no such file".into())) });
    let data = Tool::new("data", "Gives data", || async { Json(vec![1, 2, 3]) });
    Server::new("talker", "1").tool(talk).tool(fail).tool(data)
}

/// Before every second poll of the stream, uses up the budget after which Tokio makes a task yield.
#[tokio::test]
async fn a_task_without_budget_loses_no_chunk() {
    let client = TestClient::new(talker()).await;
    let mut stream = client.call("talk").stream();
    let (mut text, mut polls) = (String::new(), 0_u32);
    loop {
        let item = poll_fn(|task| {
            polls += 1;
            while polls.is_multiple_of(2) && coop::has_budget_remaining() {
                let _ = pin!(coop::consume_budget()).poll(task);
            }
            stream.poll_next_unpin(task)
        });
        match item.await.unwrap().unwrap() {
            StreamItem::Chunk(block) => text += block.as_text().unwrap(),
            StreamItem::Result(result) => break assert_eq!(text, result.to_text()),
            _ => {}
        }
    }
}

#[tokio::test]
async fn an_error_is_the_last_item_of_a_stream() {
    let client = TestClient::new(talker()).await;
    let items: Vec<_> = client.call("later").stream().collect().await;
    assert_eq!(items.len(), 1);
    assert_eq!(items[0].as_ref().unwrap_err().code(), ErrorCode::TOOL_NOT_FOUND);
}

#[tokio::test]
async fn a_cancelled_stream_of_a_plain_server_has_no_partial_result() {
    let hang = Tool::new("hang", "Hangs", |outlet: Outlet| async move {
        let step = Progress { progress: 1.0, ..Progress::default() };
        let _ = outlet.send(OutletItem::Progress(step)).await;
        std::future::pending::<Result<&str, RpcError>>().await
    });
    let client = TestClient::new(Server::new("s", "1").tool(hang).without_mgp()).await;
    let mut stream = client.call("hang").stream();
    assert!(matches!(stream.next().await, Some(Ok(StreamItem::Progress(_)))));
    assert!(stream.cancel().await.unwrap().partial_result.is_none());
    assert_eq!(client.monitor().pending(), 0);
    let unsent = client.call("hang").stream();
    assert_eq!(unsent.cancel().await.unwrap().reason.as_deref(), Some("not_active"));
}

#[tokio::test(start_paused = true)]
async fn many_calls_keep_their_order_and_their_failures() {
    #[derive(Deserialize, JsonSchema)]
    struct Number {
        number: u64,
    }
    let (running, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (r, p) = (Arc::clone(&running), Arc::clone(&peak));
    let work = Tool::new("work", "Works", move |Args(Number { number }): Args<Number>| {
        let (r, p) = (Arc::clone(&r), Arc::clone(&p));
        async move {
            p.fetch_max(r.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            // Each call takes less time than the call before it, so the results arrive in reverse order.
            tokio::time::sleep(Duration::from_millis(100 - number * 5)).await;
            r.fetch_sub(1, Ordering::SeqCst);
            if number == 4 { Err(RpcError::internal("four")) } else { Ok(number.to_string()) }
        }
    });
    let client = TestClient::new(Server::new("s", "1").tool(work)).await;
    let calls = (0..12).map(|number| client.call("work").arg("number", number));
    let results = client.call_many(calls, 3).await;
    assert_eq!((results.len(), peak.load(Ordering::SeqCst)), (12, 3));
    for (number, result) in results.iter().enumerate() {
        match result {
            Ok(result) => assert_eq!(result.to_text(), number.to_string()),
            Err(error) => assert_eq!((number, &*error.message()), (4, "four")),
        }
    }
}

#[tokio::test]
async fn results_are_data_or_errors() {
    let client = TestClient::new(talker()).await;
    assert_eq!(client.get::<Vec<u8>>("data", ()).await, [1, 2, 3]);
    let result = client.call("fail").await.unwrap();
    let error = result.into_result().unwrap_err();
    assert!(matches!(error, Error::Tool(_)) && error.message() == "no such file");
    assert!(error.as_tool_result().is_some());
}

#[tokio::test]
async fn settings_of_a_call_are_on_the_wire() {
    let (client, mut script) = crate::script::Script::modern(
        Client::builder("c", "1"),
        json!({ "extensions": { "dev.cloto/mgp": { "version": "0.3.0", "extensions": ["streaming"] } } }),
    )
    .await;
    let call = client
        .call("t")
        .args(json!({ "a": 1 }))
        .arg("b", [2])
        .meta("org.example/x", "y")
        .log_level(mgp_types::mcp::LogLevel::Info)
        .trace("0af7651916cd43dd8448eb211c80319c");
    let (_, sent) = tokio::join!(call.send(), script.serve("tools/call", json!({ "content": [] })));
    let params: &Value = &sent["params"];
    assert_eq!(params["arguments"], json!({ "a": 1, "b": [2] }));
    assert_eq!(params["_meta"]["org.example/x"], "y");
    assert_eq!(params["_meta"]["io.modelcontextprotocol/logLevel"], "info");
    assert_eq!(params["trace_id"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(params["_meta"]["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
}

#[tokio::test]
async fn a_member_that_cannot_be_encoded_fails_its_call() {
    let client = TestClient::new(talker()).await;
    let unnamed = || HashMap::from([((1, 2), 3)]);
    client.call("data").meta("filter", unnamed()).args(()).await.unwrap_err();
    client.call("data").args(()).meta("filter", unnamed()).await.unwrap_err();
    client.call("data").meta("filter", [1, 2]).args(()).await.unwrap();
}
