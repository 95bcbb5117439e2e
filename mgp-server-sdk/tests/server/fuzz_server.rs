//! Tests that no mutated line causes a panic in a server. The server has its whole stack, so that the lines reach every
//! decoder.

#[path = "../../../mgp-transport/tests/transport/fuzz_lines/corpus.rs"]
mod corpus;
#[path = "../../../mgp-transport/tests/transport/fuzz_lines/mutate.rs"]
mod mutate;

use mgp_server_sdk::prelude::*;
use mgp_transport::{Connection, duplex};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

const LINES: usize = 40_000;
const BLOCK: usize = 200;
/// The id of the test's own requests, which distinguishes them from the mutated lines.
const OURS: &str = "the test";

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

async fn attacked(seed: u64, first: &str) {
    let echo = Tool::new("echo", "Echoes", |Args(echo): Args<Echo>| async move { echo.message });
    let (here, there) = duplex();
    let connection = Connection::new(
        there.reader,
        there.writer,
        Server::new("s", "1").tool(echo).into_stack().unwrap(),
    );
    let monitor = connection.monitor();
    tokio::spawn(connection.run());
    let (mut reader, mut writer) = (BufReader::new(here.reader), here.writer);
    let mut mutator = mutate::Mutator::new(seed);
    let mut line = String::new();
    for block in 0..LINES / BLOCK {
        let mut text = if block == 0 { format!("{first}\n").into_bytes() } else { Vec::new() };
        for _ in 0..BLOCK {
            text.extend_from_slice(mutator.line());
            text.push(b'\n');
        }
        let ping = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{OURS}\",\"method\":\"ping\"}}\n");
        text.extend_from_slice(ping.as_bytes());
        let writing = writer.write_all(&text);
        let reading = async {
            loop {
                line.clear();
                assert!(reader.read_line(&mut line).await.unwrap() > 0, "the connection ended");
                let answer: serde_json::Value = serde_json::from_str(&line).unwrap();
                assert_ne!(answer["error"]["code"], -32603, "{line}");
                if answer["id"] == OURS {
                    assert!(answer["result"].is_object(), "{line}");
                    break;
                }
            }
        };
        let (written, ()) = tokio::join!(writing, reading);
        written.unwrap();
    }
    // Calls that run on tasks may end shortly after the last ping, so wait for them.
    while monitor.running() > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!((monitor.held_bytes(), monitor.dropped(), monitor.shed()), (0, 0, 0));
}

#[tokio::test]
async fn in_a_legacy_session() {
    attacked(3, r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{"mgp":{"version":"0.6.0","extensions":["streaming"]}},"clientInfo":{"name":"c","version":"1"}}}"#).await;
}

#[tokio::test]
async fn before_any_handshake() {
    attacked(4, "").await;
}
