//! Tests that the trace context of a caller reaches the servers of a kernel (W3C Trace Context), and that calls are
//! exported.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use mgp_kernel::Kernel;
use mgp_server_sdk::prelude::*;
use mgp_testkit::{http_response, serve_http};
use mgp_types::mcp::Era;
use mgp_types::service::{CallerTrace, mock};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::world::{build_with_tools, config_of, host, host_of, kernel_with, limit_era, open};

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
        let kernel = kernel_with("a", open(&["trace"]), 1, create).await;
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

#[tokio::test]
async fn a_stop_exports_the_calls_that_it_waits_for() {
    let (sender, exported) = channel();
    let url = serve_http(move |request| {
        let _ = sender.send(request.body.clone());
        http_response(200, "", "{}")
    });
    let begun = Arc::new(Notify::new());
    let begins = Arc::clone(&begun);
    let create = move || {
        let begins = Arc::clone(&begins);
        let slow = Tool::new("slow", "Takes a moment", move || {
            let begins = Arc::clone(&begins);
            async move {
                begins.notify_one();
                tokio::time::sleep(Duration::from_millis(200)).await;
                "done"
            }
        });
        Server::new("a", "1").tool(slow)
    };
    let config = config_of(&format!("[kernel.telemetry]\notlp = '{url}'"));
    let builder = Kernel::builder().config(config).local_with("a", open(&["slow"]), create);
    let kernel = build_with_tools(builder, [("a", 1)]).await;
    let host = host(&kernel, "ada", host_of(Era::Modern)).await;
    let calling = tokio::spawn(async move { host.call("slow").await });
    begun.notified().await;
    kernel.stop().await;
    let exported: Vec<String> = exported.try_iter().collect();
    assert!(exported.iter().any(|body| body.contains("tools/call slow")), "{exported:?}");
    calling.abort();
}
