//! The core cases: questions, chunks, cancellation.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mgp_client_sdk::ToolRouter;
use mgp_lifecycle::{EraChoice, LimitConfig};
use mgp_server_sdk::prelude::*;
use mgp_types::Payload;
use mgp_types::service::CallerRequest;
use tower_layer::Identity;

use super::world::{DropCounter, ItemLog, both, chunk, config, connect, hop, kernel, person};

fn limited(tool: Tool) -> Server {
    let mut limit = LimitConfig::default();
    limit.max_running = 1;
    Server::new("below", "1").tool(tool).limit(limit)
}

#[test]
fn a_handler_asks_its_caller_while_it_holds_the_only_turn() {
    both(|| async {
        let ask = Tool::new("ask", "Asks", |cx: Context| async move {
            let params = Payload::parse(
                r#"{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}"#,
            )?;
            let answer = cx.ask("sure", CallerRequest::new("elicitation/create", params)).await?;
            Ok::<_, RpcError>(answer.as_str().to_owned())
        });
        let asked = Arc::default();
        let mut config = config(EraChoice::Legacy);
        config.handlers = person(r#"{"action":"accept"}"#, &asked);
        let client = connect(limited(ask), config).await;
        let none = Payload::empty_object();
        let (a, b) = tokio::join!(client.call_tool("ask", &none), client.call_tool("ask", &none));
        assert_eq!(a.unwrap().content, CallToolResult::text(r#"{"action":"accept"}"#).content);
        assert!(b.is_ok());
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    });
}

fn think() -> Tool {
    Tool::new("think", "Thinks aloud", |outlet: Outlet| async move {
        for word in ["a", "b", "c"] {
            outlet.send(chunk(word)).await.map_err(|gone| RpcError::internal(gone.to_string()))?;
        }
        Ok::<_, RpcError>("abc")
    })
}

#[test]
fn chunks_cross_a_hop_in_order_and_before_the_result() {
    for (above, below) in [
        (EraChoice::Legacy, EraChoice::Legacy),
        (EraChoice::Legacy, EraChoice::Modern),
        (EraChoice::Modern, EraChoice::Legacy),
        (EraChoice::Modern, EraChoice::Modern),
    ] {
        both(move || async move {
            let hop =
                hop(Server::new("below", "1").tool(think()), config(below), Identity::new()).await;
            let end = kernel(ToolRouter::new().route("think", hop));
            let client = mgp_client_sdk::Client::connect(end.reader, end.writer, config(above))
                .await
                .unwrap();
            let (seen, outlet) = ItemLog::outlet();
            let reply =
                client.call_tool_with("think", &Payload::empty_object(), outlet).await.unwrap();
            // Everything received by now was sent before the result.
            assert_eq!(seen.text(), "abc");
            let result: CallToolResult = reply.get().unwrap();
            assert_eq!(result.content, CallToolResult::text("abc").content);
            let mgp = result.mgp.unwrap();
            assert_eq!((mgp.streamed, mgp.chunks_sent), (Some(true), Some(3)));
        });
    }
}

#[test]
fn a_dropped_call_is_cancelled_two_hops_away() {
    both(|| async {
        let dropped = DropCounter::default();
        let (inside, runs) = (dropped.clone(), Arc::new(tokio::sync::Notify::new()));
        let begun = Arc::clone(&runs);
        let hang = Tool::new("hang", "Never ends", move || {
            let guard = inside.guard();
            begun.notify_one();
            async move {
                let _guard = guard;
                std::future::pending::<&str>().await
            }
        });
        let hop =
            hop(Server::new("below", "1").tool(hang), config(EraChoice::Legacy), Identity::new())
                .await;
        let end = kernel(ToolRouter::new().route("hang", hop));
        let client =
            mgp_client_sdk::Client::connect(end.reader, end.writer, config(EraChoice::Legacy))
                .await
                .unwrap();
        let none = Payload::empty_object();
        tokio::select! {
            answer = client.call_tool("hang", &none) => panic!("{answer:?}"),
            () = runs.notified() => {}
        }
        dropped.reach(1).await;
        assert_eq!(client.monitor().pending(), 0);
    });
}
