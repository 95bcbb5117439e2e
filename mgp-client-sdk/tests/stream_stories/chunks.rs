//! Tests that chunks are numbered, end with `done`, and are together the text of the result (MGP §12.4, §12.5).

use std::time::Duration;

use futures_util::StreamExt as _;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ResultStream, Server};
use mgp_types::mcp::ContentBlock;
use mgp_types::service::{BoxFuture, Call, ConsumerGone, OutletItemKind, Sink, Stack};
use serde_json::json;

use crate::world::{Alive, Raw, Received, cells, image, server, words};

#[tokio::test]
async fn the_text_of_the_chunks_is_the_text_of_the_result_in_every_cell() {
    for cell in cells() {
        let connected = cell.connect(server(&Alive::default())).await;
        let client = &connected.client;
        let many = words(300);
        for (tool, arguments, text) in [
            ("words", json!({ "n": 300 }), many.as_str()),
            ("words", json!({ "n": 3, "yields": true }), "0 1 2 "),
            ("blocking", json!({ "n": 3 }), "0 1 2 "),
            ("more", json!({}), "to be or not"),
            ("same", json!({}), "to be\n"),
            ("odd", json!({}), "to be done"),
            ("words", json!({ "n": 0 }), ""),
        ] {
            let received = Received::all(client.call(tool).args(&arguments).stream()).await;
            assert_eq!(received.text(), text, "{cell:?} {tool}");
            assert_eq!(received.result_text(), text, "{cell:?} {tool}");
            let mgp = &received.result()["_mgp"];
            assert_eq!(mgp["streamed"] == true, !text.is_empty(), "{cell:?} {tool} {mgp}");
            assert_eq!(mgp["dropped"], json!(null), "{cell:?} {tool}");
            assert_eq!(mgp["duration_ms"].is_u64(), !text.is_empty());
            // A caller that requests no chunks gets the same result in one piece, if the tool uses a result stream.
            if matches!(tool, "words" | "blocking") {
                let whole = client.call(tool).args(&arguments).await.unwrap();
                let whole: String =
                    whole.content.iter().filter_map(ContentBlock::as_text).collect();
                assert_eq!(whole, text, "{cell:?} {tool}");
            }
        }
        let received = Received::all(client.call("plain").stream()).await;
        assert_eq!((received.text().as_str(), received.result_text().as_str()), ("", "plain"));
        assert_eq!(received.result()["_mgp"]["streamed"], json!(null));
        assert_eq!((connected.monitor.running(), connected.monitor.kept_bytes()), (0, 0));
    }
}

#[tokio::test]
async fn blocks_that_are_not_text_keep_their_place() {
    for cell in cells() {
        let connected = cell.connect(server(&Alive::default())).await;
        let received = Received::all(connected.client.call("pieces").stream()).await;
        let blocks = [ContentBlock::text("before "), image(), ContentBlock::text("after")];
        assert_eq!(received.blocks, blocks, "{cell:?}");
        assert_eq!(received.result()["content"], serde_json::to_value(blocks).unwrap());
    }
}

#[tokio::test]
async fn a_tool_that_fails_behind_chunks_is_answered_with_its_error() {
    for cell in cells() {
        let connected = cell.connect(server(&Alive::default())).await;
        let failed = Received::all(connected.client.call("fails").stream()).await;
        assert_eq!(failed.text(), "half", "{cell:?}");
        assert_eq!(
            (failed.result_text().as_str(), &failed.result()["isError"]),
            ("out of ink", &json!(true))
        );
        let broken = Received::all(connected.client.call("breaks").stream()).await;
        assert_eq!(broken.text(), "half", "{cell:?}");
        let error = broken.result.unwrap().unwrap_err();
        assert!(error.to_string().contains("out of paper"), "{error}");
    }
    for tool in ["fails", "breaks"] {
        let mut raw = Raw::client(server(&Alive::default())).await;
        raw.call("2", tool, "{}").await;
        let (chunks, _) = raw.read_answer().await;
        assert!(chunks.len() == 1 && chunks[0]["done"] == false, "{chunks:?}");
    }
}

#[tokio::test]
async fn numbers_begin_at_zero_and_only_the_last_chunk_is_done() {
    let mut raw = Raw::client(server(&Alive::default())).await;
    // The server marks the last word as the last chunk, unless the tool still runs after it: then an empty chunk
    // follows.
    for (id, tool, arguments, count) in [
        (r#""a""#, "words", r#"{"n":5}"#, 5),
        ("3", "words", r#"{"n":5,"yields":true}"#, 6),
        ("4", "blocking", r#"{"n":5}"#, 6),
        ("5", "more", "{}", 3),
        ("6", "words", r#"{"n":1}"#, 1),
    ] {
        raw.call(id, tool, arguments).await;
        let (chunks, answer) = raw.read_answer().await;
        assert_eq!(answer["id"].to_string(), id);
        assert_eq!(chunks.len(), count, "{tool} {arguments}");
        for (index, chunk) in chunks.iter().enumerate() {
            assert_eq!(chunk["request_id"].to_string(), id);
            assert_eq!(
                (&chunk["index"], &chunk["done"]),
                (&json!(index), &json!(index + 1 == count))
            );
        }
        assert_eq!(answer["result"]["_mgp"]["chunks_sent"], count);
    }
}

#[tokio::test]
async fn the_first_chunk_does_not_wait_for_the_second() {
    for cell in cells() {
        let connected = cell.connect(server(&Alive::default())).await;
        for tool in ["words", "blocking"] {
            let call = connected.client.call(tool).args(json!({ "n": 2, "every_ms": 60_000 }));
            let mut stream = call.stream();
            let first = tokio::time::timeout(Duration::from_secs(5), stream.next()).await;
            assert!(matches!(first, Ok(Some(Ok(_)))), "{cell:?} {tool}");
            // A function on the blocking pool cannot be interrupted, so the test would have to wait for its end.
            if tool == "words" {
                drop(stream);
                continue;
            }
            std::mem::drop(stream);
        }
        connected.client.close().await;
    }
}

#[tokio::test]
async fn chunks_of_a_task_that_a_tool_spawned_are_sent_at_once() {
    let tool =
        Tool::new("spawns", "Streams from another task", |stream: ResultStream| async move {
            let writer = stream.clone();
            tokio::spawn(async move { writer.send_text("first").await });
            std::future::pending::<Result<(), RpcError>>().await
        });
    let mut raw = Raw::client(Server::new("s", "1").tool(tool)).await;
    raw.call("2", "spawns", "{}").await;
    assert_eq!(raw.read().await["params"]["content"]["text"], "first");
}

/// A sink that hides one word, and passes on at most three chunks.
struct Review {
    inner: std::sync::Arc<dyn Sink>,
    left: std::sync::atomic::AtomicUsize,
}

impl Sink for Review {
    fn send(&self, item: OutletItem) -> BoxFuture<'_, Result<(), ConsumerGone>> {
        use std::sync::atomic::Ordering;
        let OutletItem::Chunk(mut chunk) = item else { return self.inner.send(item) };
        let take = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return Box::pin(std::future::ready(Ok(())));
        }
        let text = chunk.content.as_str().replace("1 ", "* ");
        chunk.content = mgp_types::Payload::parse(text).unwrap();
        self.inner.send(OutletItem::Chunk(chunk))
    }

    fn wants(&self, kind: OutletItemKind) -> bool {
        self.inner.wants(kind)
    }
}

#[tokio::test]
async fn a_layer_reviews_each_chunk() {
    let review = tower::layer::layer_fn(|inner: Stack| {
        Stack::from_fn(move |mut call: Call| {
            let outlet = std::mem::take(&mut call.cx_mut().outlet);
            let left = std::sync::atomic::AtomicUsize::new(3);
            call.cx_mut().outlet = outlet.wrap(|inner| std::sync::Arc::new(Review { inner, left }));
            inner.send(call)
        })
    });
    let mut raw = Raw::client(server(&Alive::default()).layer(review)).await;
    raw.call("2", "words", r#"{"n":9}"#).await;
    let (chunks, answer) = raw.read_answer().await;
    let texts: Vec<_> = chunks.iter().map(|chunk| chunk["content"]["text"].as_str()).collect();
    // The layer removed the chunk that was marked as the last one, so the server sends an empty last chunk.
    assert_eq!(texts, [Some("0 "), Some("* "), Some("2 "), Some("")]);
    assert_eq!(chunks[3]["done"], true);
    assert_eq!(answer["result"]["content"][0]["text"], words(9));
}
