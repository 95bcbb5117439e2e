//! Tests of the streams of a server in a child process.

#![cfg(unix)]

use futures_util::StreamExt as _;
use mgp_client_sdk::{Client, EraChoice, StreamItem};
use mgp_testkit::example;
use mgp_transport::ChildCommand;
use mgp_types::mcp::ContentBlock;
use serde_json::json;

use crate::world::Received;

#[tokio::test]
async fn a_program_streams_and_is_cancelled_in_both_eras() {
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let command = ChildCommand::new(example("mgp-server-sdk", "workbench"));
        let client = Client::builder("reader", "1").era(era).spawn(command).await.unwrap();
        let call = |chunks: u32, delay_ms: u32| {
            let arguments = json!({ "chunks": chunks, "bytes": 10, "delay_ms": delay_ms });
            client.call("stream").args(arguments).stream()
        };
        let received = Received::all(call(100, 0)).await;
        assert_eq!((received.text().len(), received.text()), (1_000, received.result_text()));
        let mut stream = call(2, 400);
        let first = stream.next().await;
        assert_eq!(first.unwrap().unwrap(), StreamItem::Chunk(ContentBlock::text("aaaaaaaaaa")));
        let cancelled = stream.cancel().await.unwrap();
        let partial = cancelled.partial_result.unwrap().content.into_blocks();
        assert_eq!(partial, [ContentBlock::text("aaaaaaaaaa")], "{era:?}");
        client.close().await;
    }
}
