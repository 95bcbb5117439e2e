//! Tests a server with only the audit layer: starts the example program `audit_alone` as a client would (MGP §6).

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use mgp_security::{AuditLog, AuditQuery, LogConfig, LogHead, verify};
use mgp_testkit::example;
use serde_json::{Value, json};

/// Runs the example with some requests on its stdin, and returns the messages that it writes.
fn run(folder: &Path, requests: &[Value]) -> Vec<Value> {
    let mut child = Command::new(example("mgp-server-sdk", "audit_alone"))
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for request in requests {
        writeln!(input, "{request}").unwrap();
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    let output: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(output.iter().all(|message| message["jsonrpc"] == "2.0"), "{text}");
    output
}

fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[tokio::test]
async fn every_call_is_recorded_and_nothing_else_changes() {
    let legacy = [
        request(1, "initialize", &mgp_testkit::hello("2025-11-25", &json!({}))),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        request(2, "tools/call", &json!({ "name": "greet", "arguments": { "name": "Ada" } })),
        request(3, "tools/call", &json!({ "name": "later" })),
    ];
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
    });
    let modern = [
        request(
            2,
            "tools/call",
            &json!({ "name": "greet", "arguments": { "name": "Ada" }, "_meta": meta }),
        ),
        request(3, "tools/call", &json!({ "name": "later", "_meta": meta })),
    ];
    for (era, requests) in [("legacy", &legacy[..]), ("modern", &modern)] {
        let folder = mgp_testkit::temp_dir();
        let output = run(folder.path(), requests);
        let answer = |id: u64| output.iter().find(|message| message["id"] == id).unwrap();
        assert_eq!(answer(2)["result"]["content"][0]["text"], "Hello, Ada!", "{era}");
        assert_eq!(answer(3)["error"]["code"], -32602, "{era}: {output:?}");

        let log = AuditLog::open(LogConfig::new(folder.path()), None).await.unwrap();
        let events = log.query(AuditQuery::new()).await.unwrap().events;
        let mut messages: Vec<_> = events
            .iter()
            .map(|event| {
                let target = event.target.as_ref().unwrap();
                assert_eq!(target.server_id.as_deref(), Some("greeter"));
                let tool = target.tool_name.as_deref().unwrap();
                format!("{} {} {tool}", event.event_type, event.result)
            })
            .collect();
        messages.sort();
        assert_eq!(
            messages,
            ["TOOL_BLOCKED BLOCKED later", "TOOL_EXECUTED SUCCESS greet"],
            "{era}"
        );
        drop(log);
        let head = LogHead::beside(folder.path(), "audit").unwrap().unwrap();
        verify(folder.path(), "audit", &head).unwrap();
    }
}
