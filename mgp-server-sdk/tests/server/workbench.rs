//! Tests that the example `workbench` behaves as its documentation promises, because other tests rely on that.

use std::time::Duration;

use mgp_testkit::{RawPeer, hello, modern_meta};
use serde_json::{Value, json};

use super::bench::{Settings, server};

fn settings(flags: &[&str]) -> Result<Settings, String> {
    Settings::parse(flags.iter().map(ToString::to_string))
}

async fn connect(flags: &[&str]) -> RawPeer {
    let mut raw = super::raw::connect(server(&settings(flags).unwrap()));
    let capabilities = json!({
        "elicitation": {},
        "mgp": {"version": "0.3.0", "extensions": ["streaming", "security"]},
    });
    raw.ask("initialize", hello("2025-11-25", &capabilities)).await;
    raw.notify("notifications/initialized", json!({})).await;
    raw
}

fn call(tool: &str, arguments: &Value) -> Value {
    json!({"name": tool, "arguments": arguments, "_mgp": {"stream": true}})
}

/// Calls a tool and returns the text of its result, with a prefix if the tool failed.
async fn text(raw: &mut RawPeer, tool: &str, arguments: Value) -> String {
    let answer = raw.ask("tools/call", call(tool, &arguments)).await;
    let text = answer["result"]["content"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("{tool}: {answer}"));
    if answer["result"]["isError"] == true { format!("failed: {text}") } else { text.to_owned() }
}

#[tokio::test]
async fn every_tool_of_the_contract_is_listed() {
    let mut raw = connect(&[]).await;
    let list = raw.ask("tools/list", json!({})).await;
    let tools = list["result"]["tools"].as_array().unwrap();
    let mut names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let contract = "add_tool big block confirm echo exit fail fetch freeze progress publish remove_tool \
         run_code shell sleep stream";
    assert_eq!(names.join(" "), contract);
}

#[tokio::test]
async fn tools_return_what_they_promise() {
    let mut raw = connect(&[]).await;
    assert_eq!(text(&mut raw, "echo", json!({"message": "żółw"})).await, "żółw");
    assert_eq!(text(&mut raw, "sleep", json!({"ms": 1})).await, "slept 1 ms");
    assert_eq!(text(&mut raw, "block", json!({"ms": 1})).await, "blocked 1 ms");
    assert_eq!(text(&mut raw, "big", json!({"bytes": 100_000})).await.len(), 100_000);
    assert!(text(&mut raw, "big", json!({"bytes": 1u64 << 40})).await.starts_with("failed: "));
    assert_eq!(text(&mut raw, "progress", json!({"steps": 2})).await, "2 steps");
    for (tool, arguments) in [
        ("shell", json!({"command": "rm -rf /"})),
        ("fetch", json!({"url": "http://127.0.0.1/"})),
        ("run_code", json!({"code": "exit()"})),
    ] {
        assert!(text(&mut raw, tool, arguments).await.starts_with("would have "), "{tool}");
    }
    let event = json!({"channel": "desk.note", "count": 2});
    assert!(!text(&mut raw, "publish", event).await.starts_with("failed: "));
}

#[tokio::test]
async fn failures_are_as_requested() {
    let mut raw = connect(&[]).await;
    let arguments = json!({"code": 5003, "message": "no more paper", "data": {"tray": 2}});
    let error = &raw.ask("tools/call", call("fail", &arguments)).await["error"];
    assert_eq!((&error["code"], &error["message"]), (&json!(5003), &json!("no more paper")));
    assert_eq!(error["data"]["tray"], 2);
    let answer = raw.ask("tools/call", call("fail", &json!({"code": -32000}))).await;
    assert_eq!(answer["error"]["code"], -32000);
}

#[tokio::test]
async fn chunks_come_in_order_and_the_answer_is_whole() {
    let mut raw = connect(&[]).await;
    let received =
        raw.ask_all("tools/call", call("stream", &json!({"chunks": 3, "bytes": 2}))).await;
    let chunks: Vec<_> =
        received.iter().filter_map(|one| one["params"]["content"]["text"].as_str()).collect();
    assert_eq!(chunks, ["aa", "bb", "cc"]);
    assert_eq!(received.last().unwrap()["result"]["content"][0]["text"], "aabbcc");
}

#[tokio::test]
async fn the_list_changes_at_run_time() {
    let mut raw = connect(&[]).await;
    assert_eq!(text(&mut raw, "add_tool", json!({"name": "extra"})).await, "added `extra`");
    assert_eq!(text(&mut raw, "extra", json!({})).await, "extra");
    assert_eq!(text(&mut raw, "remove_tool", json!({"name": "extra"})).await, "removed `extra`");
    let again = text(&mut raw, "remove_tool", json!({"name": "extra"})).await;
    assert_eq!(again, "failed: there is no tool `extra`");
}

#[tokio::test]
async fn confirm_asks_the_user_in_both_eras() {
    for (answer, output) in [
        (json!({"action": "accept", "content": {"yes": true}}), "confirmed"),
        (json!({"action": "accept", "content": {"yes": false}}), "declined"),
        (json!({"action": "decline"}), "declined"),
        (json!({"action": "cancel"}), "no answer"),
    ] {
        let mut raw = connect(&[]).await;
        let params = call("confirm", &json!({"message": "Sure?"}));
        raw.write(&json!({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": params}))
            .await;
        let question = raw.receive().await;
        assert_eq!(question["params"]["message"], "Sure?");
        raw.write(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer})).await;
        assert_eq!(raw.receive().await["result"]["content"][0]["text"], output);

        let mut raw = super::raw::connect(server(&Settings::default()));
        let mut params = call("confirm", &json!({"message": "Sure?"}));
        params["_meta"] = modern_meta(&json!({"elicitation": {}}));
        let asked = raw.ask("tools/call", params.clone()).await;
        let requests = asked["result"]["inputRequests"].as_object().unwrap();
        let key = requests.keys().next().unwrap().clone();
        params["requestState"] = asked["result"]["requestState"].clone();
        params["inputResponses"] = json!({key: answer});
        let answer = raw.ask("tools/call", params).await;
        assert_eq!(answer["result"]["content"][0]["text"], output, "{answer}");
    }
}

#[tokio::test]
async fn security_is_shown_to_peers_that_negotiated_it() {
    let mut raw = connect(&["--extensions", "all"]).await;
    let list = raw.ask("tools/list", json!({})).await;
    let tools = list["result"]["tools"].as_array().unwrap();
    let of =
        |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap()["security"].clone();
    assert_eq!(of("shell")["risk_level"], "dangerous");
    assert_eq!(of("shell")["permissions_required"], json!(["shell.execute"]));
    assert_eq!(of("fetch")["validator"], "network_restricted");
    assert_eq!(of("run_code")["code_safety"]["level"], "strict");
}

#[tokio::test]
async fn flags_show_in_the_handshake() {
    let flags = ["--permissions", "shell.execute,com.example.print", "--server-id", "bench-7"];
    let mut raw = super::raw::connect(server(&settings(&flags).unwrap()));
    let capabilities = json!({"mgp": {"version": "0.3.0", "extensions": ["streaming"]}});
    let answer = raw.ask("initialize", hello("2025-11-25", &capabilities)).await;
    let mgp = &answer["result"]["capabilities"]["mgp"];
    let needed = mgp["permissions_required"].as_array().unwrap();
    for permission in ["shell.execute", "com.example.print"] {
        assert!(needed.contains(&json!(permission)), "{mgp}");
    }
    assert_eq!(mgp["server_id"], "bench-7");
    let mut raw = super::raw::connect(server(&settings(&["--extensions", "none"]).unwrap()));
    let answer = raw.ask("initialize", hello("2025-11-25", &capabilities)).await;
    assert_eq!(answer["result"]["capabilities"]["mgp"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_handshake_can_hang() {
    let mut raw = super::raw::connect(server(&settings(&["--hang-init"]).unwrap()));
    let hello = raw.ask("initialize", hello("2025-11-25", &json!({})));
    assert!(tokio::time::timeout(Duration::from_mins(10), hello).await.is_err());
}

#[test]
fn invalid_flags_are_refused_by_name() {
    let refused = |flags: &[&str]| settings(flags).unwrap_err();
    assert!(refused(&["--http"]).contains("`--http` needs a value"));
    assert!(refused(&["--colour"]).contains("unknown flag `--colour`"));
    assert!(refused(&["--server-id"]).contains("`--server-id` needs a value"));
    assert!(refused(&["--ready-after", "soon"]).contains("not `soon`"));
    assert!(refused(&["--extensions", "audit,colour"]).contains("unknown extension `colour`"));
    assert!(refused(&["--permissions", "no spaces"]).contains("no spaces"));
}
