//! Tests that messages of other implementations are understood or ignored, and never cause a panic.

use mgp_client_sdk::ToolResult as _;
use serde_json::json;

use crate::world::{Raw, Received};

#[tokio::test]
async fn odd_chunks_are_dropped_and_the_result_counts() {
    // Only one of the chunks below is valid: the chunk with the text `b`, whose `request_id` is the request's number as
    // a string.
    for (capabilities, text) in [
        (r#"{"mgp":{"version":"0.3.0","extensions":["streaming"]}}"#, "b"),
        // One implementation sends all its extensions in `experimental.mgp`, whatever the client offered.
        (
            r#"{"experimental":{"mgp":{"version":"0.6.0","extensions":["permissions","streaming"]}}}"#,
            "b",
        ),
        // This server negotiated nothing, so the client must ignore its chunks.
        ("{}", ""),
    ] {
        let (client, mut raw) = Raw::server(capabilities).await;
        let reading = tokio::spawn(Received::all(client.call("t").stream()));
        let id = raw.read().await["id"].clone();
        for params in [
            "{}".to_owned(),
            r#"{"request_id":null,"index":0,"content":{}}"#.to_owned(),
            format!(r#"{{"request_id":{id},"index":-1,"content":{{"type":"text","text":"a"}}}}"#),
            format!(r#"{{"request_id":"{id}","index":0,"content":{{"type":"text","text":"b"}}}}"#),
            format!(r#"{{"request_id":{id},"index":0,"content":"text"}}"#),
            format!(
                r#"{{"request_id":{id},"index":18446744073709551615,"content":{{"type":"text","text":"c"}}}}"#
            ),
            format!(r#"{{"request_id":{id},"missing_index":0}}"#),
        ] {
            for method in ["chunk", "progress", "gap_unrecoverable"] {
                raw.notify(&format!("notifications/mgp.stream.{method}"), &params).await;
            }
        }
        raw.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"whole"}}]}}}}"#
        ))
        .await;
        let received = reading.await.unwrap();
        assert_eq!((received.text().as_str(), received.result_text().as_str()), (text, "whole"));
    }
}

#[tokio::test]
async fn a_partial_result_may_be_a_text() {
    let streaming = r#"{"mgp":{"version":"0.3.0","extensions":["streaming"]}}"#;
    let (client, mut raw) = Raw::server(streaming).await;
    let mut stream = client.call("t").stream();
    // The call is sent when the stream is polled.
    let polled = futures_util::StreamExt::next(&mut stream);
    assert!(futures_util::FutureExt::now_or_never(polled).is_none());
    let id = raw.read().await["id"].clone();
    assert!(id.is_i64(), "one implementation cancels integers only");
    let (cancelled, ()) = tokio::join!(stream.cancel(), async {
        let cancel = raw.read().await;
        assert_eq!(
            (cancel["method"].as_str(), &cancel["params"]["request_id"]),
            (Some("mgp/stream/cancel"), &id)
        );
        raw.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{},"result":{{"cancelled":true,"partial_result":{{"content":"half"}}}}}}"#,
            cancel["id"]
        ))
        .await;
    });
    let content = cancelled.unwrap().partial_result.unwrap().content.into_blocks();
    assert_eq!(mgp_types::mcp::CallToolResult::new(content).to_text(), "half");
}

#[tokio::test]
async fn totals_of_a_server_that_streamed_nothing_are_replaced() {
    let streaming = r#"{"mgp":{"version":"0.3.0","extensions":["streaming"]}}"#;
    for (mgp, expected) in [
        (
            r#"{"streamed":true,"chunks_sent":777,"dropped":5}"#,
            json!({"streamed": false, "chunks_sent": 0}),
        ),
        (r#""x""#, json!({})),
        (r#"{"chunks_sent":"many","x":1}"#, json!({})),
        (r#"{"duration_ms":7,"x":1}"#, json!({"duration_ms": 7, "x": 1})),
    ] {
        for is_streamed in [true, false] {
            let (client, mut raw) = Raw::server(streaming).await;
            let call = client.call("t");
            let reading = tokio::spawn(async move {
                if is_streamed {
                    Received::all(call.stream()).await.result().clone()
                } else {
                    serde_json::to_value(call.await.unwrap()).unwrap()
                }
            });
            let id = raw.read().await["id"].clone();
            raw.send(&format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"_mgp":{mgp},"_meta":{{"dev.cloto/mgp":{{"result":{mgp}}}}}}}}}"#
            ))
            .await;
            let result = reading.await.unwrap();
            assert_eq!(result["_mgp"], expected, "{mgp} {is_streamed}");
            assert!(!result["_meta"].to_string().contains("777"), "{result}");
        }
    }
}

#[tokio::test]
async fn chunks_and_progress_in_the_words_of_the_proposal_are_read() {
    let streaming = r#"{"mgp":{"version":"0.3.0","extensions":["streaming"]}}"#;
    let (client, mut raw) = Raw::server(streaming).await;
    let reading = tokio::spawn(Received::all(client.call("t").stream()));
    let id = raw.read().await["id"].clone();
    for (sequence, data) in [(0, r#""to ""#), (1, r#"{"type":"text","text":"be"}"#)] {
        let params = format!(
            r#"{{"operation_id":"{id}","sequence":{sequence},"data":{data},"is_final":false}}"#
        );
        raw.notify("notifications/mgp.stream.chunk", &params).await;
    }
    let params =
        format!(r#"{{"operation_id":"{id}","progress":0.6,"estimated_remaining_seconds":1.5}}"#);
    raw.notify("notifications/mgp.stream.progress", &params).await;
    raw.send(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"to be"}}]}}}}"#
    ))
    .await;
    let received = reading.await.unwrap();
    assert_eq!(received.text(), "to be");
    assert_eq!(received.steps[0].estimated_remaining_ms, Some(1500));
}

#[tokio::test]
async fn numbers_with_a_point_and_members_that_are_null_are_read() {
    let streaming = r#"{"mgp":{"version":"0.3.0","extensions":["streaming"]}}"#;
    let (client, mut raw) = Raw::server(streaming).await;
    let reading = tokio::spawn(Received::all(client.call("t").stream()));
    let id = raw.read().await["id"].clone();
    for (index, text) in [("0.0", "to "), ("1.0", "be")] {
        let params = format!(
            r#"{{"request_id":{id},"index":{index},"content":{{"type":"text","text":"{text}"}},"done":null}}"#
        );
        raw.notify("notifications/mgp.stream.chunk", &params).await;
    }
    let params = format!(
        r#"{{"request_id":{id},"progress":0.6,"message":null,"estimated_remaining_ms":4500.2}}"#
    );
    raw.notify("notifications/mgp.stream.progress", &params).await;
    raw.send(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"to be"}}]}}}}"#
    ))
    .await;
    let received = reading.await.unwrap();
    assert_eq!(received.text(), "to be");
    assert_eq!(received.steps[0].estimated_remaining_ms, Some(4501));
}
