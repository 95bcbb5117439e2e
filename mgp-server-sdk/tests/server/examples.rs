//! Tests of the example servers, which the tests start as a client would.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A running process of an example server.
struct Example {
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl Example {
    async fn start(name: &str) -> Self {
        let mut command = Command::new(mgp_testkit::example("mgp-server-sdk", name));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut example = Self { stdin, lines, child };
        let mgp = json!({ "version": "0.3.0", "extensions": ["tool_security"] });
        let hello = mgp_testkit::hello("2025-11-25", &json!({ "mgp": mgp }));
        example.ask("initialize", &hello).await;
        example
    }

    async fn ask(&mut self, method: &str, params: &Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.stdin.write_all(format!("{request}\n").as_bytes()).await.unwrap();
        let line = tokio::time::timeout(Duration::from_secs(20), self.lines.next_line());
        let answer: Value = serde_json::from_str(&line.await.unwrap().unwrap().unwrap()).unwrap();
        answer.get("result").unwrap_or(&answer["error"]).clone()
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.ask("tools/call", &json!({ "name": tool, "arguments": arguments })).await
    }

    async fn text(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
    }

    /// Closes the input; the example must then exit.
    async fn end(mut self) {
        drop(self.stdin);
        let left = tokio::time::timeout(Duration::from_secs(20), self.child.wait());
        assert!(left.await.unwrap().unwrap().success());
    }
}

#[tokio::test]
async fn minimal() {
    let mut server = Example::start("minimal").await;
    assert_eq!(server.text("greet", json!({ "name": "Ada" })).await, "Hello, Ada!");
    let refused = server.call("greet", json!({})).await;
    assert_eq!(refused["message"], "invalid arguments for `greet`: `name`: it is missing");
    server.end().await;
}

#[tokio::test]
async fn secure_shell() {
    let mut server = Example::start("secure_shell").await;
    let list = server.ask("tools/list", &json!({})).await;
    let shell = &list["tools"][0];
    assert_eq!(shell["security"]["risk_level"], "dangerous");
    assert_eq!(shell["security"]["confirmation_required"], true);
    assert_eq!(shell["annotations"]["destructiveHint"], true);
    assert_eq!(list["tools"][1]["security"]["code_safety"]["level"], "readonly");
    assert_eq!(list["tools"][2]["annotations"]["readOnlyHint"], true);
    let done = server.call("shell", json!({ "command": "echo hi; exit 3" })).await;
    assert_eq!(done["structuredContent"], json!({ "output": "hi\n", "code": 3 }));
    let standing = server.text("permissions", json!({})).await;
    assert_eq!(standing, "shell.execute: unknown\ncode_execution: unknown");
    server.end().await;
}

#[tokio::test]
async fn conformance_server() {
    let mut server = Example::start("conformance_server").await;
    let text = server.text("test_simple_text", json!({})).await;
    assert_eq!(text, "This is a simple text response for testing.");
    let kinds = server.call("test_multiple_content_types", json!({})).await;
    let kinds: Vec<_> = (0..3).map(|place| kinds["content"][place]["type"].clone()).collect();
    assert_eq!(kinds, ["text", "image", "resource"]);
    let list = server.ask("tools/list", &json!({})).await;
    let listed = list["tools"].as_array().unwrap();
    let with_schema = listed.iter().find(|tool| tool["name"] == "json_schema_2020_12_tool");
    let written = include_str!("../../examples/conformance_server/fixture/schema.json");
    let written: Value = serde_json::from_str(written).unwrap();
    assert_eq!(with_schema.unwrap()["inputSchema"], written);
    let read = server.ask("resources/read", &json!({ "uri": "test://template/7/data" })).await;
    let member = r#"{"id":"7","templateTest":true,"data":"Data for ID: 7"}"#;
    assert_eq!(read["contents"][0]["text"], member);
    let unknown = server.ask("resources/read", &json!({ "uri": "test://none" })).await;
    assert_eq!(
        (&unknown["code"], &unknown["data"]["uri"]),
        (&json!(-32002), &json!("test://none"))
    );
    let arguments = json!({ "arg1": "hello", "arg2": "world" });
    let params = json!({ "name": "test_prompt_with_arguments", "arguments": arguments });
    let prompt = server.ask("prompts/get", &params).await;
    let text = "Prompt with arguments: arg1='hello', arg2='world'";
    assert_eq!(prompt["messages"][0]["content"]["text"], text);
    // The client did not declare that it can show forms, so the tool cannot ask it.
    let refused = server.call("test_elicitation", json!({ "message": "Who?" })).await;
    assert_eq!(refused["code"], 1000);
    server.end().await;
}
