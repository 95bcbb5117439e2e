//! Two callers on one shared stack are isolated, whatever ids and tokens they choose.

use std::sync::Arc;

use mgp_server_sdk::prelude::*;
use mgp_transport::{Connection, DuplexEnd, duplex};
use mgp_types::service::{Principal, Stack};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::world::{DropCounter, both, chunk};

/// A raw client: writes and reads lines, with any ids.
struct Raw {
    writer: tokio::io::WriteHalf<tokio::io::DuplexStream>,
    lines: tokio::io::Lines<BufReader<tokio::io::ReadHalf<tokio::io::DuplexStream>>>,
}

impl Raw {
    async fn connect(stack: &Stack, subject: &'static str) -> Self {
        let (here, there) = duplex();
        let principal = Principal::new("t", subject);
        tokio::spawn(
            Connection::new(there.reader, there.writer, stack.clone()).principal(principal).run(),
        );
        let DuplexEnd { reader, writer } = here;
        let mut raw = Self { writer, lines: BufReader::new(reader).lines() };
        raw.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"mgp":{"version":"0.3.0","extensions":["streaming"]}},"clientInfo":{"name":"raw","version":"1"}}}"#).await;
        raw.read().await;
        raw
    }

    async fn send(&mut self, line: &str) {
        self.writer.write_all(line.as_bytes()).await.unwrap();
        self.writer.write_all(b"\n").await.unwrap();
    }

    async fn read(&mut self) -> serde_json::Value {
        serde_json::from_str(&self.lines.next_line().await.unwrap().unwrap()).unwrap()
    }
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"who","arguments":{},"_mgp":{"stream":true},"_meta":{"progressToken":"tok"}}}"#;

#[test]
fn equal_ids_and_tokens_on_a_shared_stack_stay_apart() {
    both(|| async {
        let gate = Arc::new(tokio::sync::Barrier::new(2));
        let who = Tool::new("who", "Says who calls", move |cx: Context, outlet: Outlet| {
            let gate = Arc::clone(&gate);
            async move {
                let name = cx.principal.subject().to_string();
                // Both calls are in flight before either continues.
                gate.wait().await;
                for _ in 0..20 {
                    let step = Progress {
                        progress: 0.5,
                        message: Some(name.clone()),
                        ..Progress::default()
                    };
                    let _ = outlet.send(OutletItem::Progress(step)).await;
                    let _ = outlet.send(chunk(&name)).await;
                }
                name
            }
        });
        let stack = Server::new("s", "1").tool(who).into_stack().unwrap();
        let callers = ["ann", "bob"].map(|subject| {
            let stack = stack.clone();
            tokio::spawn(async move {
                let mut raw = Raw::connect(&stack, subject).await;
                raw.send(CALL).await;
                let mut chunks = 0;
                loop {
                    let message = raw.read().await;
                    let text = message.to_string();
                    let other = if subject == "ann" { "bob" } else { "ann" };
                    assert!(
                        text.contains(subject) && !text.contains(other),
                        "{subject} got {text}"
                    );
                    chunks += usize::from(message["method"] == "notifications/mgp.stream.chunk");
                    if message["id"] == 7 {
                        break;
                    }
                }
                // The value that the tool returns is sent as the last chunk.
                assert_eq!(chunks, 21);
            })
        });
        for caller in callers {
            caller.await.unwrap();
        }
    });
}

#[test]
fn a_cancellation_reaches_only_the_callers_own_call() {
    both(|| async {
        let dropped = DropCounter::default();
        let inside = dropped.clone();
        let hang = Tool::new("who", "Hangs", move || {
            let guard = inside.guard();
            async move {
                let _guard = guard;
                std::future::pending::<&str>().await
            }
        });
        let stack = Server::new("s", "1").tool(hang).into_stack().unwrap();
        let (mut ann, mut bob) =
            (Raw::connect(&stack, "ann").await, Raw::connect(&stack, "bob").await);
        for raw in [&mut ann, &mut bob] {
            raw.send(CALL).await;
            raw.send(r#"{"jsonrpc":"2.0","id":8,"method":"ping"}"#).await;
            assert_eq!(raw.read().await["id"], 8);
        }
        ann.send(
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#,
        )
        .await;
        dropped.reach(1).await;
        bob.send(
            r#"{"jsonrpc":"2.0","id":9,"method":"mgp/stream/cancel","params":{"request_id":7}}"#,
        )
        .await;
        // Bob's cancellation still finds Bob's call, because Ann's cancellation affected only Ann's call.
        let answers = [bob.read().await, bob.read().await];
        assert!(
            answers.iter().any(|answer| answer["id"] == 9 && answer["result"]["cancelled"] == true),
            "{answers:?}"
        );
        assert!(
            answers
                .iter()
                .any(|answer| answer["id"] == 7 && answer["result"]["_mgp"]["cancelled"] == true)
        );
        dropped.reach(2).await;
    });
}
