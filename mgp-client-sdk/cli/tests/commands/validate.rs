//! Tests of `mgp validate`: servers and clients are judged by what they send.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::Value;

use crate::world::Home;

#[test]
fn a_good_server_passes_and_the_report_is_written() {
    let world = Home::new();
    let (report, page) = (world.path("report.json"), world.path("report.html"));
    let files = [report.to_str().unwrap(), page.to_str().unwrap()];
    let mgp = env!("CARGO_BIN_EXE_mgp").to_owned();
    let text = world.succeed(&[
        "validate",
        "server",
        "--report",
        files[0],
        "--page",
        files[1],
        "--",
        &mgp,
        "__example",
        "notes",
    ]);
    assert!(text.contains("passed"), "{text}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(report["subject"]["name"], "notes");
    assert_eq!(report["summary"]["failed"], 0, "{report}");
    assert!(report["summary"]["passed"].as_u64().unwrap() > 60, "{report}");
    assert!(std::fs::read_to_string(page).unwrap().starts_with("<!doctype html>"));
}

#[test]
fn a_program_that_is_no_server_fails_once_with_its_reason() {
    let world = Home::new();
    let output =
        world.run(&["validate", "server", "--timeout", "1", "--", "sh", "-c", "echo hello"]);
    assert_eq!(output.code, Some(1), "{} {}", output.out, output.err);
    assert!(
        output.out.contains("mcp.connect") && output.out.contains("not answered"),
        "{} {}",
        output.out,
        output.err
    );
    assert_eq!(output.out.matches("FAILED").count(), 1, "{} {}", output.out, output.err);
}

#[test]
fn a_client_is_judged_by_its_messages() {
    let world = Home::new();
    let handshake = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":"judge-ping","result":{}}
{"jsonrpc":"2.0","id":"judge-unknown","error":{"code":-32601,"message":"unknown"}}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
"#;
    let wrong = "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"prompts/list\"}\n";
    for (messages, expected) in [
        (handshake.to_owned(), Vec::new()),
        (format!("{handshake}{wrong}"), vec!["client.ids", "client.undeclared"]),
    ] {
        let mut command = world.command(&["validate", "client"]);
        let pipes = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = pipes.spawn().unwrap();
        child.stdin.take().unwrap().write_all(messages.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let found: Vec<_> = ["client.ids", "client.undeclared", "client.ping", "client.json"]
            .into_iter()
            .filter(|rule| text.contains(&format!("FAILED  {rule} ")))
            .collect();
        assert_eq!(found, expected, "{text}");
        assert_eq!(output.status.success(), expected.is_empty(), "{text}");
    }
}
