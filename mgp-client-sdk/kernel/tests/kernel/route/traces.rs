//! Tests that the trace context of a caller reaches the servers of a kernel (W3C Trace Context).

use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::Era;
use mgp_types::service::{CallerTrace, mock};
use serde_json::{Value, json};

use super::world::{build, limit_era, open, wait_for_tools};

#[tokio::test]
async fn a_server_receives_the_trace_context_of_the_caller_unchanged_without_telemetry() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "traceparent": parent, "tracestate": "v=1", "baggage": "u=7",
    });
    for era in [Era::Legacy, Era::Modern] {
        let create = move || {
            let trace = Tool::new("trace", "Names its trace", |cx: Context| async move {
                let received = cx.extensions.get::<CallerTrace>();
                received.map_or_else(String::new, |received| {
                    format!(
                        "{:?} {:?} {:?}",
                        received.parent(),
                        received.state(),
                        received.baggage()
                    )
                })
            });
            limit_era(Server::new("a", "1").tool(trace), era)
        };
        let kernel = build(Kernel::builder().local_with("a", open(&["trace"]), create)).await;
        wait_for_tools(&kernel, "a", 1).await;
        let mut caller = mock::client(kernel.server().into_stack().unwrap());
        for params in [
            json!({"name": "trace", "arguments": {}, "_meta": meta}),
            json!({"name": "mgp_tools_call", "arguments": {"name": "trace", "arguments": {}}, "_meta": meta}),
            json!({"name": "trace", "arguments": {}, "_meta": meta, "trace_id": "550e8400-e29b-41d4"}),
        ] {
            let answer = caller.request("tools/call", &params.to_string()).await.unwrap();
            let text = answer.get::<Value>().unwrap()["content"][0]["text"].clone();
            assert_eq!(
                text,
                format!("\"{parent}\" Some(\"v=1\") Some(\"u=7\")"),
                "{era:?} {params}"
            );
        }
    }
}
