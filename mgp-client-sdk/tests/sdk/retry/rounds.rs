//! Tests of calls that ask their caller: if one request of the call fails, only that request is retried, and the
//! question is not asked again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::EraChoice;
use mgp_server_sdk::prelude::*;
use mgp_types::Payload;
use mgp_types::mcp::{ElicitAction, ElicitResult};
use mgp_types::mgp::RiskLevel;
use mgp_types::service::{CallerRequest, gate};

use super::world::{Governed, detail, tool_error};

#[tokio::test(start_paused = true)]
async fn questions_are_asked_once_even_if_rounds_are_retried() {
    for (era, calls) in [(EraChoice::Legacy, 2), (EraChoice::Modern, 4)] {
        let asked = Arc::new(AtomicUsize::new(0));
        let tool = Tool::new("ask", "Asks", |cx: Context| async move {
            let form = r#"{"message":"sure?","requestedSchema":{"type":"object","properties":{}}}"#;
            cx.ask("sure", CallerRequest::new("elicitation/create", Payload::parse(form)?)).await?;
            Ok::<_, RpcError>("sure")
        });
        // Every second request is refused before it reaches the tool: the first request and, in the modern era, the
        // request with the answer.
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        let busy = gate(move |call| {
            let number = count.fetch_add(usize::from(call.tool().is_some()), Ordering::Relaxed);
            if call.tool().is_some() && number.is_multiple_of(2) {
                return Err(tool_error(3000, r#"{"retryable":true,"retry_after_ms":40}"#));
            }
            Ok(())
        });
        let server = Server::new("s", "1").tool(tool.risk(RiskLevel::Safe)).layer(busy);
        let questions = Arc::clone(&asked);
        let world = Governed::new(server, &["ask"], |builder| {
            builder.era(era).on_elicitation(move |_| {
                questions.fetch_add(1, Ordering::Relaxed);
                async { Ok(ElicitResult::new(ElicitAction::Accept)) }
            })
        })
        .await;
        assert_eq!(world.client.text("ask", ()).await, "sure", "{era:?}");
        assert_eq!(asked.load(Ordering::Relaxed), 1, "{era:?}");
        assert_eq!(seen.load(Ordering::Relaxed), calls, "{era:?}");
        // The last event must describe the request that completed the call.
        let events = world.events("ask");
        assert_eq!(events.last().unwrap().result.as_str(), "SUCCESS");
        assert!(detail(events.last().unwrap(), "retry_attempt").is_some(), "{era:?}");
        assert!(events.iter().all(|event| event.trace_id == events[0].trace_id), "{era:?}");
    }
}
