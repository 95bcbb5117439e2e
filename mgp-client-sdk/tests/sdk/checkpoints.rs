//! Tests that streams whose connection is cut continue at the last checkpoint, without a lost or repeated row
//! (extension `checkpoint`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use mgp_client_sdk::{Client, EraChoice, ResumeLayer, StreamItem, ToolResult, ToolStream};
use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{CheckpointLayer, ResultStream, Resume};
use mgp_testkit::cutting_proxy;
use mgp_types::ErrorCode;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{Checkpoint, WantsCheckpoints};

const ROWS: u64 = 1000;

/// Returns a server whose tool lists rows, with a checkpoint after each seventh row; `runs` counts the tool's calls.
fn rows(runs: &Arc<AtomicUsize>, checkpoints: CheckpointLayer) -> Server {
    let runs = Arc::clone(runs);
    let list = move |from: Resume<u64>, stream: ResultStream| {
        runs.fetch_add(1, Ordering::SeqCst);
        async move {
            for row in from.0.unwrap_or(0)..ROWS {
                stream.send_text(format!("{row}\n")).await?;
                if row % 7 == 6 {
                    stream.checkpoint(&(row + 1)).await?;
                }
            }
            Ok::<_, RpcError>(())
        }
    };
    Server::new("rows", "1").tool(Tool::new("list", "Lists rows", list)).extension(checkpoints)
}

async fn bound(server: Server) -> SocketAddr {
    let bound = server.http("127.0.0.1:0").no_auth().bind().await.unwrap();
    let address = bound.local_addr();
    tokio::spawn(bound.run());
    address
}

async fn connect(address: SocketAddr, era: EraChoice) -> Client {
    // The longest duration means no limit; adding it to a time must not overflow.
    let resume = ResumeLayer::new().max_wait(Duration::MAX);
    let builder = Client::builder("c", "1").era(era).extension(resume);
    builder.connect_url(format!("http://{address}/mcp")).await.unwrap()
}

fn whole() -> String {
    (0..ROWS).flat_map(|row| [row.to_string(), "\n".to_owned()]).collect()
}

/// Reads a stream to its end: the text of its chunks, the checkpoints, and the text of the result.
async fn read(mut stream: ToolStream) -> (String, Vec<Checkpoint>, String) {
    let (mut text, mut checkpoints) = (String::new(), Vec::new());
    while let Some(item) = stream.next().await {
        match item.unwrap() {
            StreamItem::Chunk(block) => text += block.as_text().unwrap(),
            StreamItem::Checkpoint(checkpoint) => checkpoints.push(checkpoint),
            StreamItem::Result(result) => return (text, checkpoints, result.to_text()),
            _ => {}
        }
    }
    panic!("the stream ended without a result");
}

#[tokio::test]
async fn a_stream_cut_at_sixty_percent_loses_and_doubles_no_row() {
    for era in [EraChoice::Modern, EraChoice::Legacy] {
        let (runs, cuts) = (Arc::default(), Arc::<AtomicUsize>::default());
        let server = bound(rows(&runs, CheckpointLayer::new().unwrap())).await;
        // A row has about 170 bytes, and a checkpoint about 700, so each cut comes after many rows.
        let proxy = cutting_proxy(server, 160_000, Arc::clone(&cuts)).await;
        let client = connect(proxy, era).await;
        let (text, _, result) = read(client.call("list").stream()).await;
        assert_eq!(text, whole(), "{era:?}");
        assert_eq!(result, whole(), "{era:?}");
        assert!(cuts.load(Ordering::SeqCst) >= 1, "{era:?}");
        if era == EraChoice::Modern {
            assert_eq!(runs.load(Ordering::SeqCst), 2);
        }
    }
}

#[tokio::test]
async fn without_the_extension_there_are_no_checkpoints_and_the_result_is_the_same() {
    let runs = Arc::default();
    let server = bound(rows(&runs, CheckpointLayer::new().unwrap())).await;
    let url = format!("http://{server}/mcp");
    let plain = Client::builder("c", "1").connect_url(&url).await.unwrap();
    let call = plain.call("list").with(&WantsCheckpoints(true));
    let (text, checkpoints, result) = read(call.stream()).await;
    assert_eq!((text, checkpoints.len(), result), (whole(), 0, whole()));

    let offers = Client::builder("c", "1").extension(Extension::Checkpoint);
    let offers = offers.connect_url(&url).await.unwrap();
    let (_, checkpoints, _) = read(offers.call("list").stream()).await;
    assert_eq!(checkpoints.len(), 0, "the call did not ask for them");
    let asking = offers.call("list").with(&WantsCheckpoints(true));
    let (text, checkpoints, result) = read(asking.stream()).await;
    assert_eq!((text, checkpoints.len(), result), (whole(), 142, whole()));

    let call = offers.call("list").with(checkpoints.last().unwrap());
    let (text, _, _) = read(call.stream()).await;
    assert!(text.starts_with("994\n") && whole().ends_with(&text), "{text}");
}

#[tokio::test]
async fn an_unknown_or_expired_checkpoint_or_one_of_another_call_is_refused() {
    let runs = Arc::default();
    let layer = CheckpointLayer::new().unwrap().ttl(Duration::ZERO);
    let server = bound(rows(&runs, layer)).await;
    let client = Client::builder("c", "1").extension(Extension::Checkpoint);
    let client = client.connect_url(format!("http://{server}/mcp")).await.unwrap();
    let asking = client.call("list").with(&WantsCheckpoints(true));
    let (_, checkpoints, _) = read(asking.stream()).await;
    let known = checkpoints.last().unwrap();
    let unknown = Checkpoint::new("op-42".to_owned(), known.checkpoint_token.clone());
    tokio::time::sleep(Duration::from_millis(1100)).await;
    let before = runs.load(Ordering::SeqCst);
    for (checkpoint, argument) in [(&unknown, None), (known, None), (known, Some(1))] {
        let mut call = client.call("list").with(checkpoint);
        if let Some(argument) = argument {
            call = call.arg("other", argument);
        }
        let refused = call.await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::INVALID_PARAMS, "{refused}");
        assert!(refused.to_string().contains("checkpoint"), "{refused}");
    }
    assert_eq!(runs.load(Ordering::SeqCst), before, "the tool did not run");
}

#[tokio::test]
async fn a_call_without_checkpoints_is_not_sent_again() {
    let (runs, cuts) = (Arc::<AtomicUsize>::default(), Arc::default());
    let counted = Arc::clone(&runs);
    let list = Tool::new("list", "Lists rows", move |stream: ResultStream| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            for row in 0..ROWS {
                stream.send_text(format!("{row}\n")).await?;
            }
            Ok::<_, RpcError>(())
        }
    });
    let server = Server::new("rows", "1").tool(list).extension(Extension::Checkpoint);
    let proxy = cutting_proxy(bound(server).await, 50_000, cuts).await;
    let client = connect(proxy, EraChoice::Modern).await;
    let mut stream = client.call("list").stream();
    let mut last = None;
    while let Some(item) = stream.next().await {
        last = Some(item);
    }
    assert!(last.unwrap().is_err());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
