//! Tests of the output and the exit codes of `examples/call_tool.rs`, which other programs rely on.

#![cfg(unix)]

use std::process::{Command, Output};

use serde_json::Value;

use crate::children::example;

fn run(arguments: &[&str]) -> (Vec<Value>, Output) {
    let program = example("mgp-client-sdk", "call_tool");
    let output = Command::new(program).args(arguments).output().unwrap();
    let lines = String::from_utf8(output.stdout.clone()).unwrap();
    (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), output)
}

#[test]
fn a_line_for_each_thing_that_happens() {
    let echo = example("mgp-server-sdk", "echo");
    let echo = echo.to_str().unwrap();
    for (era, revision) in [("legacy", "2025-11-25"), ("modern", "2026-07-28")] {
        let (lines, output) = run(&[
            "--era",
            era,
            "--mgp",
            "streaming",
            "--stream",
            "--json",
            "--",
            echo,
            "echo",
            r#"{"message":"hi"}"#,
        ]);
        assert_eq!(output.status.code(), Some(0));
        let negotiated = &lines[0]["negotiated"];
        assert_eq!(negotiated["era"], era);
        assert_eq!(negotiated["revision"], revision);
        assert_eq!(negotiated["mgp"], serde_json::json!(["streaming", "error_handling"]));
        assert_eq!(lines[1]["attempt"], 1);
        assert_eq!(lines[2]["result"]["content"][0]["text"], "hi");
    }
    let (lines, output) = run(&["--mgp", "none", "--json", "--", echo, "later", "{}"]);
    // For an unknown tool, a client without MGP must get MCP's own error code.
    assert_eq!((output.status.code(), &lines[2]["error"]["code"]), (Some(1), &(-32602).into()));
    assert!(lines[0]["negotiated"]["mgp"].is_null());
    let (lines, output) = run(&["--json", "--", echo, "later", "{}"]);
    assert_eq!((output.status.code(), &lines[2]["error"]["code"]), (Some(1), &4001.into()));
    let (lines, output) = run(&["--timeout", "300", "--json", "--", "sleep", "9", "t", "{}"]);
    assert_eq!((output.status.code(), &lines[0]["error"]["code"]), (Some(1), &3003.into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_url_works_like_a_command() {
    let echo = mgp_server_sdk::Tool::new("echo", "Echoes", || async { "hi" });
    let server = mgp_server_sdk::Server::new("s", "1").tool(echo);
    let bound = server.http("127.0.0.1:0").no_auth().bind().await.unwrap();
    let url = format!("http://{}/mcp", bound.local_addr());
    let serving = tokio::spawn(bound.run());
    for era in ["legacy", "modern"] {
        let url = url.clone();
        let asking = move || run(&["--era", era, "--json", "--url", &url, "echo", "{}"]);
        let (lines, output) = tokio::task::spawn_blocking(asking).await.unwrap();
        assert_eq!(output.status.code(), Some(0), "{lines:?}");
        assert_eq!(lines[0]["negotiated"]["era"], era);
        assert_eq!(lines[2]["result"]["content"][0]["text"], "hi");
    }
    serving.abort();
    let words = ["--json", "--url", "ftp://localhost/", "echo", "{}"];
    let (lines, output) = tokio::task::spawn_blocking(move || run(&words)).await.unwrap();
    assert_eq!((output.status.code(), &lines[0]["error"]["code"]), (Some(1), &(-32600).into()));
}

#[test]
fn wrong_usage_ends_with_two() {
    for (arguments, expected) in [
        (&["--url", "http://127.0.0.1/mcp"][..], "are missing"),
        (&["--url", "http://127.0.0.1/mcp", "--", "true", "t", "{}"], "not both"),
        (&["--retry", "--json"], "are missing"),
        (&["--era", "stone"], "unknown era `stone`"),
        (&["--mgp", "magic"], "unknown extension `magic`"),
        (&["--json", "--", "true"], "are missing"),
        (&["--json", "--", "true", "t", "[1]"], "the arguments"),
        (&[], "are missing"),
    ] {
        let (lines, output) = run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), lines.len()), (Some(2), 0), "{arguments:?}");
        assert!(errors.contains(expected), "{errors}");
    }
}
