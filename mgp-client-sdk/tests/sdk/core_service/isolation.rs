//! Tests that two callers on one shared stack are isolated, whatever ids and tokens they choose.

use std::sync::Arc;

use mgp_server_sdk::prelude::*;
use mgp_testkit::{RawPeer, hello};
use mgp_transport::{Connection, duplex};
use mgp_types::service::{Principal, Stack};
use serde_json::json;

use super::world::{both, chunk};

/// Connects a client without an SDK that negotiated streaming.
async fn connect(stack: &Stack, subject: &'static str) -> RawPeer {
    let (here, there) = duplex();
    let connection = Connection::new(there.reader, there.writer, stack.clone());
    tokio::spawn(connection.principal(Principal::new("t", subject)).run());
    let mut raw = RawPeer::new(here.reader, here.writer);
    let mgp = json!({"mgp": {"version": "0.3.0", "extensions": ["streaming"]}});
    raw.ask("initialize", hello("2025-11-25", &mgp)).await;
    raw
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
                // Wait until both calls are in flight.
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
                let mut raw = connect(&stack, subject).await;
                raw.line(CALL).await;
                let mut chunks = 0;
                loop {
                    let message = raw.receive().await;
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
