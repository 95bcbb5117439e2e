//! Tests of traces: every request of MGP has a trace, and a plain server receives one only if that is configured (MGP
//! §6.5).

use std::collections::HashSet;

use mgp_client_sdk::{Client, ClientBuilder};
use serde_json::{Value, json};

use crate::script::Script;

async fn sent(client: &Client, script: &mut Script) -> Value {
    let (called, request) = tokio::join!(
        client.call_tool("t", ()),
        script.serve("tools/call", json!({ "content": [] }))
    );
    called.unwrap();
    request["params"].clone()
}

#[tokio::test]
async fn a_fresh_trace_is_written_by_default() {
    let mgp = json!({ "version": "0.3.0", "extensions": ["streaming"] });
    let (client, mut script) =
        Script::legacy(Client::builder("c", "1"), json!({ "mgp": mgp })).await;
    let mut traces = HashSet::new();
    for _ in 0..3 {
        let params = sent(&client, &mut script).await;
        let trace = params["trace_id"].as_str().unwrap().to_owned();
        assert!(trace.len() == 32 && trace.bytes().all(|byte| byte.is_ascii_hexdigit()), "{trace}");
        let parent = params["_meta"]["traceparent"].as_str().unwrap();
        assert!(parent.starts_with(&format!("00-{trace}-")), "{parent}");
        traces.insert(trace);
    }
    assert_eq!(traces.len(), 3);
}

#[tokio::test]
async fn a_plain_server_receives_a_traceparent_only_if_that_is_configured() {
    let connect = |builder: ClientBuilder| Script::legacy(builder, json!({}));
    let (client, mut script) = connect(Client::builder("c", "1")).await;
    assert!(!sent(&client, &mut script).await.to_string().contains("trace"));
    let (client, mut script) = connect(Client::builder("c", "1").traceparent()).await;
    let params = sent(&client, &mut script).await;
    assert!(params["_meta"]["traceparent"].as_str().unwrap().starts_with("00-"), "{params}");
    assert_eq!(params["trace_id"], Value::Null);
}
