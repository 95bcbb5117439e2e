//! Tests of the output of `examples/call_tool.rs --retry`, which other programs rely on.

use std::process::Command;

use mgp_server_sdk::Server;
use mgp_testkit::example;
use mgp_types::mgp::RiskLevel;
use serde_json::{Value, json};

use super::world::{Shop, tool_error};

/// Runs the example with these flags against a server at a URL.
fn run(flags: &[&str], url: &str) -> (Vec<Value>, Option<i32>) {
    let output = Command::new(example("mgp-client-sdk", "call_tool"))
        .args(flags)
        .args(["--json", "--url", url, "buy", "{}"])
        .output()
        .unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (lines, output.status.code())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_for_each_attempt_and_then_the_result() {
    let shop = Shop::default();
    let tool = shop.tool("buy", RiskLevel::Safe, |number| match number % 3 {
        1 => Err(tool_error(3000, r#"{"retryable":true,"retry_after_ms":30}"#)),
        2 => Err(tool_error(
            2000,
            r#"{"retryable":true,"retry_after_ms":20,"fallback_tool":"look"}"#,
        )),
        _ => Ok("bought"),
    });
    let server = Server::new("s", "1").tool(tool);
    let bound = server.http("127.0.0.1:0").no_auth().bind().await.unwrap();
    let url = format!("http://{}/mcp", bound.local_addr());
    let serving = tokio::spawn(bound.run());
    tokio::task::spawn_blocking(move || {
        for flags in [
            &["--retry"][..],
            &["--retry", "--mgp", "none"],
            &["--retry", "--era", "legacy", "--stream"],
        ] {
            let (lines, status) = run(flags, &url);
            let attempts = [
                json!({ "attempt": 1, "code": 3000, "waited_ms": 0 }),
                json!({ "attempt": 2, "code": 2000, "waited_ms": 30 }),
                json!({ "attempt": 3, "code": null, "waited_ms": 20 }),
            ];
            assert_eq!(lines[1..4], attempts, "{flags:?}");
            assert_eq!(lines[4]["result"]["content"][0]["text"], "bought", "{flags:?}");
            assert_eq!((lines.len(), status), (5, Some(0)), "{flags:?}");
        }
        let (lines, status) = run(&[], &url);
        assert_eq!(
            (&lines[1], &lines[2]["error"]["code"]),
            (&json!({ "attempt": 1 }), &json!(3000))
        );
        assert_eq!((lines.len(), status), (3, Some(1)));
    })
    .await
    .unwrap();
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_line_is_the_error_once_all_attempts_have_failed() {
    let shop = Shop::default();
    let buy = shop.tool("buy", RiskLevel::Safe, |_| {
        Err(tool_error(
            3000,
            r#"{"retryable":true,"retry_after_ms":5,"max_retries":1,"fallback_tool":"look"}"#,
        ))
    });
    let look = shop.tool("look", RiskLevel::Safe, |number| match number {
        1 => Err(tool_error(3001, r#"{"retryable":true}"#)),
        _ => Ok("seen"),
    });
    let server = Server::new("s", "1").tool(buy).tool(look);
    let bound = server.http("127.0.0.1:0").no_auth().bind().await.unwrap();
    let url = format!("http://{}/mcp", bound.local_addr());
    let serving = tokio::spawn(bound.run());
    tokio::task::spawn_blocking(move || {
        let attempts = |last: Value| {
            [
                json!({ "attempt": 1, "code": 3000, "waited_ms": 0 }),
                json!({ "attempt": 2, "code": 3000, "waited_ms": 5 }),
                json!({ "attempt": 3, "code": last, "waited_ms": 0, "tool": "look" }),
            ]
        };
        let (lines, status) = run(&["--retry"], &url);
        assert_eq!(lines[1..4], attempts(json!(3001)));
        assert_eq!((&lines[4]["error"]["code"], status), (&json!(3000), Some(1)));
        let (lines, status) = run(&["--retry"], &url);
        assert_eq!(lines[1..4], attempts(Value::Null));
        assert_eq!((&lines[4]["result"]["content"][0]["text"], status), (&json!("seen"), Some(0)));
    })
    .await
    .unwrap();
    serving.abort();
}
