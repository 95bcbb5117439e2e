//! Tests of cancellation with a partial result (MGP §12.7), and of its races.

use std::time::Duration;

use futures_util::StreamExt as _;
use mgp_client_sdk::StreamItem;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{Cancelled, ResultStream};
use mgp_testkit::until;
use mgp_types::mcp::ContentBlock;
use serde_json::json;

use crate::world::{Alive, Raw, cells, server, words};

#[tokio::test]
async fn the_partial_result_is_what_the_caller_received() {
    for cell in cells() {
        let alive = Alive::default();
        let connected = cell.connect(server(&alive)).await;
        let call = connected.client.call("words").args(json!({ "n": 3, "every_ms": 60_000 }));
        let mut stream = call.stream();
        assert!(matches!(stream.next().await, Some(Ok(StreamItem::Chunk(_)))), "{cell:?}");
        let cancelled = stream.cancel().await.unwrap();
        assert!(cancelled.cancelled, "{cell:?}");
        let partial = cancelled.partial_result.unwrap().content.into_blocks();
        assert_eq!(partial, [ContentBlock::text("0 ")], "{cell:?}");
        until("the tool to end", async || {
            alive.now() == 0
                && connected.monitor.running() == 0
                && connected.monitor.kept_bytes() == 0
        })
        .await;
        assert_eq!(connected.client.monitor().pending(), 0);
    }
}

#[tokio::test]
async fn a_dropped_stream_cancels_its_call_in_every_cell() {
    for cell in cells() {
        let alive = Alive::default();
        let connected = cell.connect(server(&alive)).await;
        let mut stream = connected.client.call("endless").stream();
        assert!(matches!(stream.next().await, Some(Ok(StreamItem::Chunk(_)))), "{cell:?}");
        drop(stream);
        until("the tool to end", async || {
            alive.now() == 0
                && connected.monitor.running() == 0
                && connected.monitor.kept_bytes() == 0
        })
        .await;
    }
}

const CANCEL: &str = r#"{"jsonrpc":"2.0","id":ID,"method":"mgp/stream/cancel","params":{"request_id":2,"reason":"enough"}}"#;

fn cancel(id: u32) -> String {
    CANCEL.replace("ID", &id.to_string())
}

#[tokio::test]
async fn the_call_is_answered_with_its_partial_result_and_the_reason() {
    let mut raw = Raw::client(server(&Alive::default())).await;
    raw.send(&cancel(1)).await;
    assert_eq!(raw.read().await["result"], json!({ "cancelled": false, "reason": "not_active" }));
    raw.call("2", "words", r#"{"n":4,"every_ms":20}"#).await;
    let mut count = 0;
    while count < 2 {
        count += usize::from(raw.read().await["params"]["index"].is_u64());
    }
    raw.send(&cancel(3)).await;
    let (chunks, first) = raw.read_answer().await;
    let text = words(2 + chunks.len());
    let (_, second) = raw.read_answer().await;
    let (reply, call) = if first["id"] == 3 { (first, second) } else { (second, first) };
    assert_eq!((&reply["id"], &call["id"]), (&json!(3), &json!(2)));
    assert_eq!(
        reply["result"]["partial_result"]["content"],
        json!([{ "type": "text", "text": text }])
    );
    let result = &call["result"];
    assert_eq!(result["content"], json!([{ "type": "text", "text": text }]));
    let mgp = &result["_mgp"];
    assert_eq!((&mgp["streamed"], &mgp["cancelled"]), (&json!(true), &json!(true)));
    assert_eq!(
        (&mgp["cancel_reason"], &mgp["chunks_sent"]),
        (&json!("enough"), &json!(2 + chunks.len()))
    );
    assert!(mgp["duration_ms"].as_u64().unwrap() >= 20, "{mgp}");
    assert_eq!(&result["_meta"]["dev.cloto/mgp"]["result"], mgp);
    // Cancel the call again after it has ended.
    raw.send(&cancel(4)).await;
    assert_eq!(raw.read().await["result"]["cancelled"], false);
}

#[tokio::test]
async fn a_tool_that_listens_ends_by_itself_and_is_marked_as_cancelled() {
    let tool =
        Tool::new("words", "Tidies up", |stream: ResultStream, cancelled: Cancelled| async move {
            stream.send_text("half").await?;
            cancelled.cancelled().await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok::<_, RpcError>("half, then tidied up")
        });
    let mut raw = Raw::client(Server::new("s", "1").tool(tool)).await;
    raw.call("2", "words", "{}").await;
    raw.read().await;
    // Cancel the call twice: both cancellations find it, because the tool still runs.
    for id in [3, 4] {
        raw.send(&cancel(id)).await;
        let reply = raw.read().await;
        assert_eq!((&reply["id"], &reply["result"]["cancelled"]), (&json!(id), &json!(true)));
    }
    let (_, call) = raw.read_answer().await;
    assert_eq!(call["result"]["content"][0]["text"], "half, then tidied up");
    let mgp = &call["result"]["_mgp"];
    assert_eq!((&mgp["cancelled"], &mgp["cancel_reason"]), (&json!(true), &json!("enough")));
    assert_eq!(mgp["chunks_sent"], 2);
    assert_eq!(&call["result"]["_meta"]["dev.cloto/mgp"]["result"], mgp);
}

#[tokio::test]
async fn the_result_of_a_cancelled_modern_call_is_complete() {
    let (here, there) = mgp_transport::duplex();
    let server = server(&Alive::default());
    tokio::spawn(async move { server.serve(there.reader, there.writer).await });
    let mut raw = Raw::new(here);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {
            "extensions": {"dev.cloto/mgp": {"version": "0.3.0", "extensions": ["streaming"]}},
        },
    });
    let request = |id: u32, method: &str, params: serde_json::Value| {
        let mut params = params;
        params["_meta"] = meta.clone();
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    let arguments = json!({"n": 3, "every_ms": 60_000});
    let call = json!({"name": "words", "arguments": arguments, "_mgp": {"stream": true}});
    raw.send(&request(2, "tools/call", call)).await;
    assert_eq!(raw.read().await["params"]["index"], 0);
    raw.send(&request(3, "mgp/stream/cancel", json!({"request_id": 2}))).await;
    for _ in 0..2 {
        let (_, answer) = raw.read_answer().await;
        assert_eq!(answer["result"]["resultType"], "complete", "{answer}");
    }
}
