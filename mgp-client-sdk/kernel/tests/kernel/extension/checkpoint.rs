//! Tests of checkpoints of streams through a kernel (extension `checkpoint`).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt as _;
use mgp_client_sdk::{Client, EraChoice, ResumeLayer, StreamItem, ToolResult};
use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{CheckpointLayer, ResultStream, Resume};
use mgp_testkit::cutting_proxy;
use mgp_types::mcp::Era;

use crate::route::world::{build_with_tools, limit_era, open};

const ROWS: u64 = 1000;

/// A server whose tool `list` streams rows with checkpoints.
pub(crate) fn server() -> Server {
    let list = |from: Resume<u64>, stream: ResultStream| async move {
        for row in from.0.unwrap_or(0)..ROWS {
            stream.send_text(format!("{row}\n")).await?;
            if row % 7 == 6 {
                stream.checkpoint(&(row + 1)).await?;
            }
        }
        Ok::<_, RpcError>(())
    };
    let other = Tool::new("recent", "Does nothing", || async { "none" });
    // Use a fixed key, so that checkpoints remain valid after a restart of the server.
    let checkpoints = CheckpointLayer::new().unwrap().key([7; 32]);
    Server::new("rows", "1")
        .tool(Tool::new("list", "Lists rows", list))
        .tool(other)
        .extension(checkpoints)
}

#[tokio::test]
async fn a_stream_cut_at_sixty_percent_in_front_of_the_kernel_loses_and_doubles_no_row() {
    for era in [Era::Modern, Era::Legacy] {
        let builder = Kernel::builder()
            .local_with("rows", open(&["list", "recent"]), move || limit_era(server(), era));
        let kernel = build_with_tools(builder, [("rows", 2)]).await;
        let bound = kernel.server().http("127.0.0.1:0").no_auth().bind().await.unwrap();
        let cuts = Arc::<AtomicUsize>::default();
        let proxy = cutting_proxy(bound.local_addr(), 160_000, Arc::clone(&cuts)).await;
        tokio::spawn(bound.run());
        let client = Client::builder("c", "1")
            .era(EraChoice::Modern)
            .extension(ResumeLayer::new())
            .connect_url(format!("http://{proxy}/mcp"))
            .await
            .unwrap();
        let whole: String = (0..ROWS).flat_map(|row| [row.to_string(), "\n".to_owned()]).collect();
        let (mut text, mut result) = (String::new(), String::new());
        let mut stream = client.call("list").stream();
        while let Some(item) = stream.next().await {
            match item.unwrap() {
                StreamItem::Chunk(block) => text += block.as_text().unwrap(),
                StreamItem::Result(last) => result = last.to_text(),
                _ => {}
            }
        }
        let same = text.bytes().zip(whole.bytes()).take_while(|(got, sent)| got == sent).count();
        let sizes =
            format!("{era:?}: {} of {} bytes, the first {same} as sent", text.len(), whole.len());
        assert_eq!((text == whole, result == whole), (true, true), "{sizes}");
        assert!(cuts.load(Ordering::SeqCst) >= 1, "{era:?}");
    }
}
