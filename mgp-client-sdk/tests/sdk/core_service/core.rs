//! Tests with a server that runs one call at a time, and whose tool asks a question.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mgp_lifecycle::{EraChoice, LimitConfig};
use mgp_server_sdk::prelude::*;
use mgp_types::Payload;
use mgp_types::service::CallerRequest;

use super::world::{both, config, connect, person};

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
