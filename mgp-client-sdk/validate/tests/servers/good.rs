//! Tests of servers that keep every rule.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use mgp_server_sdk::prelude::*;
use mgp_transport::{Connection, duplex};
use mgp_validate::{Options, Status, Target};
use serde_json::{Value, json};

use crate::{broken_rules, judged, options, scripted};

#[tokio::test]
async fn a_server_that_keeps_every_rule_passes_and_every_rule_is_played() {
    let report = judged(scripted::server(|_, _| {}), &options()).await;
    assert_eq!(broken_rules(&report), [], "{}", report.to_text());
    assert!(report.is_passed());
    let skipped = report.results.iter().filter(|result| result.status == Status::Skipped);
    assert_eq!(skipped.map(|result| result.rule.id).collect::<Vec<_>>(), Vec::<&str>::new());
    let other: serde_json::Value = serde_json::from_str(&report.to_conformance_json()).unwrap();
    assert_eq!(
        (&other["server_name"], &other["server_version"]),
        (&"scripted".into(), &"1".into())
    );
    assert_eq!(other["summary"]["passed"], report.summary.passed + 7, "{other}");
    let names = (1..=7).map(|number| format!("CONF-00{number}"));
    for (name, result) in names.zip(other["results"].as_array().unwrap()) {
        assert_eq!((&result["test_id"], &result["status"]), (&name.into(), &"passed".into()));
    }
}

#[tokio::test]
async fn a_tool_that_is_neither_read_only_nor_named_is_not_called() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let without_hint: scripted::Change = |message, replies| {
        let tool = &message.value["params"]["name"];
        if message.method() == "tools/call" && (tool == "echo" || tool == "now") {
            CALLS.fetch_add(1, Ordering::Relaxed);
        }
        for reply in replies {
            if let Some(echo) = reply.pointer_mut("/result/tools/0") {
                echo["annotations"] = serde_json::json!({});
            }
        }
    };
    let rule = "mcp.tools.call.arguments";
    let status = |report: &mgp_validate::Report| {
        report.results.iter().find(|result| result.rule.id == rule).map(|result| result.status)
    };
    let report = judged(scripted::server(without_hint), &Options::new()).await;
    assert_eq!((status(&report), CALLS.load(Ordering::Relaxed)), (Some(Status::Skipped), 0));
    let mut only = options();
    only.only = vec![rule.to_owned()];
    let report = judged(scripted::server(without_hint), &only).await;
    assert_eq!((status(&report), CALLS.load(Ordering::Relaxed)), (Some(Status::Passed), 1));
    let report = judged(scripted::server(|_, _| {}), &Options::new()).await;
    assert_eq!(status(&report), Some(Status::Passed), "a read-only tool is called");
}

#[tokio::test]
async fn what_mcp_permits_breaks_no_rule() {
    let change: scripted::Change = |message, replies| {
        let refusal = serde_json::json!({ "jsonrpc": "2.0", "id": message.value["id"],
            "error": { "code": -32601, "message": "no" } });
        match message.method() {
            "tools/list" => {
                let lists = replies.iter_mut().filter_map(|one| one.pointer_mut("/result/tools"));
                for tools in lists.filter_map(serde_json::Value::as_array_mut) {
                    let task = serde_json::json!({ "name": "slow", "description": "Counts",
                        "inputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true },
                        "execution": { "taskSupport": "required" } });
                    let open = serde_json::json!({ "name": "open", "description": "Reads",
                        "inputSchema": { "type": "object", "properties": { "a": {} },
                            "patternProperties": { "^x-": {} }, "required": ["x-id"] } });
                    tools.insert(0, task);
                    let either = serde_json::json!({ "name": "either", "description": "Reads",
                        "inputSchema": { "type": "object",
                            "anyOf": [{ "required": ["a"] }, { "required": ["b"] }] },
                        "annotations": { "readOnlyHint": true } });
                    tools.insert(0, either);
                    tools.push(open);
                }
            }
            "tools/call" if message.value["params"]["name"] != "echo" => *replies = vec![refusal],
            "resources/templates/list" => *replies = vec![refusal],
            _ => {}
        }
    };
    let mut options = Options::new();
    let expected = [
        ("mcp.tools.required", Status::Passed),
        ("mcp.tools.call.result", Status::Skipped),
        ("mcp.resources.templates", Status::Skipped),
    ];
    options.only = expected.iter().map(|(rule, _)| (*rule).to_owned()).collect();
    let report = judged(scripted::server(change), &options).await;
    for (rule, status) in expected {
        let result = report.results.iter().find(|result| result.rule.id == rule).unwrap();
        assert_eq!(result.status, status, "{rule}: {}", report.to_text());
    }
}

#[track_caller]
fn check(report: &mgp_validate::Report, expected: &[(&str, Status)]) {
    for (rule, status) in expected {
        let result = report.results.iter().find(|result| result.rule.id == *rule).unwrap();
        assert_eq!(result.status, *status, "{rule}: {}", report.to_text());
    }
}

#[tokio::test]
async fn a_structured_result_must_fit_the_output_schema() {
    let change: scripted::Change = |message, replies| {
        for result in replies.iter_mut().filter_map(|reply| reply.get_mut("result")) {
            match message.method() {
                "tools/list" => {
                    result["tools"][0]["outputSchema"] = json!({ "type": "object",
                        "properties": { "count": { "type": "integer" } }, "required": ["count"] });
                }
                "tools/call" => {
                    let text = message.value["params"]["arguments"]["text"].as_str();
                    result["structuredContent"] =
                        text.unwrap_or_default().parse().unwrap_or_default();
                }
                _ => {}
            }
        }
    };
    let mut options = options();
    options.only = vec!["mcp.tools.call.result".to_owned()];
    for (structured, expected) in [
        (r#"{"count": 1.0, "more": "a"}"#, Status::Passed),
        (r#"{"count": "1"}"#, Status::Failed),
        (r#"{"more": 1}"#, Status::Failed),
    ] {
        options.tool = Some(("echo".to_owned(), json!({ "text": structured })));
        let report = judged(scripted::server(change), &options).await;
        check(&report, &[("mcp.tools.call.result", expected)]);
    }
}

#[tokio::test]
async fn a_refused_call_breaks_no_rule() {
    let limited: scripted::Change = |message, replies| {
        if message.method() == "tools/call" {
            let error = json!({ "code": 3000, "message": "too many calls" });
            *replies = vec![json!({ "jsonrpc": "2.0", "id": message.value["id"], "error": error })];
        }
    };
    let expected =
        ["mcp.tools.call.result", "modern.tools.call.result"].map(|rule| (rule, Status::Skipped));
    let mut options = options();
    options.only = expected.iter().map(|(rule, _)| (*rule).to_owned()).collect();
    check(&judged(scripted::server(limited), &options).await, &expected);
}

#[tokio::test]
async fn what_the_specification_of_mgp_leaves_open_breaks_no_rule() {
    let change: scripted::Change = |message, replies| {
        let id = &message.value["id"];
        let result = |result: Value| vec![json!({ "jsonrpc": "2.0", "id": id, "result": result })];
        let error = |code: i64| {
            let error = json!({ "code": code, "message": "no" });
            vec![json!({ "jsonrpc": "2.0", "id": id, "error": error })]
        };
        let has_fault = message.value.pointer("/params/capabilities/mgp") == Some(&json!("yes"));
        match message.method() {
            "initialize" if has_fault => *replies = error(-32602),
            "initialize" if message.has_mgp => {
                let capabilities = &mut replies[0]["result"]["capabilities"];
                capabilities.as_object_mut().unwrap().remove("tools");
            }
            "tools/list" if message.has_mgp => *replies = error(-32601),
            "mgp/discovery/deregister" => *replies = result(json!({ "status": "not_found" })),
            "mgp/tools/session/evict" => *replies = result(json!({ "evicted": [] })),
            _ => {}
        }
    };
    let expected = [
        ("mgp.malformed", Status::Passed),
        ("mgp.tools.security", Status::Skipped),
        ("mgp.discovery.deregister", Status::Passed),
        ("mgp.tools.evict", Status::Passed),
    ];
    let mut options = options();
    options.only = expected.iter().map(|(rule, _)| (*rule).to_owned()).collect();
    check(&judged(scripted::server(change), &options).await, &expected);
}

fn streams(message: &scripted::Message) -> bool {
    message.value.pointer("/params/_mgp/stream") == Some(&json!(true))
}

fn result_of(replies: &mut [Value]) -> &mut Value {
    replies.iter_mut().find_map(|reply| reply.get_mut("result")).unwrap()
}

#[tokio::test]
async fn streams_that_the_specification_permits_break_no_rule() {
    // The first two replies to a streamed call are its chunks.
    let many: scripted::Change = |message, replies| {
        if !streams(message) {
            return;
        }
        let chunk = replies[0].clone();
        let text = chunk["params"]["content"]["text"].as_str().unwrap().repeat(1000);
        let chunks = (0..1000).map(|index| {
            let mut chunk = chunk.clone();
            chunk["params"]["index"] = json!(index);
            chunk["params"]["done"] = json!(index == 999);
            chunk
        });
        replies.splice(0..2, chunks.collect::<Vec<_>>());
        let result = result_of(replies);
        result["content"][0]["text"] = json!(text);
        result["_mgp"]["chunks_sent"] = json!(1000);
    };
    let fails: scripted::Change = |message, replies| {
        if streams(message) {
            let result = result_of(replies);
            result["content"][0]["text"] = json!("disk full");
            result["isError"] = json!(true);
        }
    };
    let has_more: scripted::Change = |message, replies| {
        if streams(message) {
            result_of(replies)["content"][0]["text"] = json!("to be or not to be");
        }
    };
    let repeats: scripted::Change = |message, replies| {
        if streams(message) {
            let mut again = replies[0].clone();
            again["params"]["_mgp"] = json!({ "retransmit": true });
            replies.insert(2, again);
        }
    };
    let is_strict: scripted::Change = |message, replies| {
        static IDS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let id = &message.value["id"];
        if streams(message) && !IDS.lock().unwrap().insert(id.to_string()) {
            let error = json!({ "code": -32600, "message": "the id was used before" });
            *replies = vec![json!({ "jsonrpc": "2.0", "id": id, "error": error })];
        }
    };
    for (name, change, whole) in [
        ("many", many, Status::Passed),
        ("fails", fails, Status::Skipped),
        ("has more", has_more, Status::Passed),
        ("repeats", repeats, Status::Passed),
        ("is strict", is_strict, Status::Passed),
    ] {
        let mut options = options();
        options.only = vec!["mgp.stream.".to_owned()];
        let report = judged(scripted::server(change), &options).await;
        assert_eq!(broken_rules(&report), [], "{name}: {}", report.to_text());
        let others = ["mgp.stream.chunks", "mgp.stream.totals"].map(|rule| (rule, Status::Passed));
        check(&report, &[&others[..], &[("mgp.stream.whole", whole)]].concat());
    }
}

#[tokio::test]
async fn an_empty_cursor_ends_the_list_of_a_legacy_server() {
    let change: scripted::Change = |message, replies| {
        let is_first_page = message.value.pointer("/params/cursor").is_none();
        if message.method() == "tools/list" && !message.is_modern && is_first_page {
            result_of(replies)["nextCursor"] = json!("");
        }
    };
    let mut options = options();
    options.only = vec!["mcp.tools.".to_owned()];
    let report = judged(scripted::server(change), &options).await;
    assert_eq!(broken_rules(&report), [], "{}", report.to_text());
}

#[derive(Deserialize, JsonSchema)]
struct Words {
    text: String,
}

#[tokio::test]
async fn a_server_of_the_sdk_passes() {
    let target = Target::memory(|| {
        let echo = Tool::new(
            "echo",
            "Returns its text",
            |Args(words): Args<Words>, outlet: Outlet| async move {
                let (first, second) = words.text.split_at(words.text.len() / 2);
                for part in [first, second] {
                    let _ = outlet.text(part).await;
                }
                words.text.clone()
            },
        );
        let echo = echo.risk(mgp_types::mgp::RiskLevel::Safe);
        let server = Server::new("sdk", "1").tool(echo).logging();
        let (here, there) = duplex();
        let stack = server.into_stack().unwrap();
        tokio::spawn(Connection::new(there.reader, there.writer, stack).run());
        (here.reader, here.writer)
    });
    let report = judged(target, &options()).await;
    assert_eq!(broken_rules(&report), [], "{}", report.to_text());
    assert!(report.summary.passed > 50, "{}", report.to_text());
}

#[tokio::test]
async fn servers_that_hang_lie_flood_or_end_are_judged_in_bounded_time() {
    let mut options = Options::new();
    options.timeout = std::time::Duration::from_millis(100);
    options.only = vec!["mcp.ping".to_owned(), "mcp.tools.list".to_owned()];
    let hangs: scripted::Change = |_, replies| replies.clear();
    let ends: scripted::Change = |_, replies| *replies = vec![serde_json::json!({ "end": true })];
    let lies: scripted::Change = |message, replies| {
        let id = message.value["id"].clone();
        *replies = vec![serde_json::json!({ "jsonrpc": "2.0", "id": id, "result": [[[]]] })];
    };
    let floods: scripted::Change = |_, replies| {
        let noise = serde_json::json!({ "jsonrpc": "2.0", "method": "notifications/message", "params": {} });
        replies.splice(0..0, std::iter::repeat_n(noise, 20_000));
    };
    let garbage: scripted::Change = |_, replies| {
        *replies = vec![serde_json::json!({ "raw": "\u{0}\u{1b}[2J{\"jsonrpc\":" })];
    };
    for (name, change) in
        [("hangs", hangs), ("ends", ends), ("lies", lies), ("garbage", garbage), ("floods", floods)]
    {
        let is_good = name == "floods";
        if is_good {
            // This server answers, but a slow machine takes long to read all that it sends.
            options.timeout = std::time::Duration::from_secs(3);
        }
        let report = tokio::time::timeout(
            std::time::Duration::from_secs(30),
            judged(scripted::server(change), &options),
        );
        let report = report.await.unwrap_or_else(|_| panic!("{name} is not bounded"));
        assert!((1..=2).contains(&report.results.len()), "{name}");
        assert_eq!(report.is_passed(), is_good, "{name}: {}", report.to_text());
    }
}

#[tokio::test]
async fn an_answer_with_another_id_is_shown() {
    let change: scripted::Change = |message, replies| match message.method() {
        "initialize" => replies[0]["id"] = message.value["id"].to_string().into(),
        _ => replies.clear(),
    };
    let mut options = Options::new();
    options.timeout = std::time::Duration::from_secs(2);
    let report = judged(scripted::server(change), &options).await;
    let broken = broken_rules(&report);
    assert_eq!((broken.len(), broken[0].0), (1, "mcp.connect"), "{broken:?}");
    assert!(broken[0].1.contains("; it sent {"), "{broken:?}");
    assert!(broken[0].1.contains(r#""id":"1""#), "{broken:?}");
}

#[tokio::test]
async fn the_name_of_a_server_does_not_control_the_terminal() {
    let change: scripted::Change = |message, replies| {
        if message.method() == "initialize" {
            replies[0]["result"]["serverInfo"]["name"] = "a\u{1b}[2J\nb".into();
        }
    };
    let mut options = options();
    options.only = vec!["mcp.ping".to_owned()];
    let text = judged(scripted::server(change), &options).await.to_text();
    assert!(text.starts_with("a [2J b "), "{text}");
}

#[tokio::test]
async fn the_page_and_the_badge_escape_what_the_server_controls() {
    let change: scripted::Change = |message, replies| {
        if message.method() == "initialize" {
            replies[0]["result"]["serverInfo"]["name"] = "<script>alert(1)</script>\u{202e}".into();
        }
        if message.method() == "ping" {
            replies[0]["result"] = serde_json::json!({ "<img src=x>": "</pre><b>" });
        }
    };
    let mut options = options();
    options.only = vec!["mcp.ping".to_owned()];
    let report = judged(scripted::server(change), &options).await;
    let page = report.to_html();
    assert!(page.contains("&lt;script&gt;") && page.contains("&lt;img src=x&gt;"), "{page}");
    assert!(!page.contains("<script") && !page.contains("<img") && !page.contains('\u{202e}'));
    assert!(report.to_badge().contains("failed"));
}

/// Regression test: the report did not name the byte order mark that a server wrote before its answer.
#[tokio::test]
async fn a_text_in_place_of_an_answer_is_named() {
    let mut options = Options::new();
    options.timeout = std::time::Duration::from_secs(2);
    let marked: scripted::Change =
        |_, replies| *replies = vec![json!({ "raw": "\u{feff}{\"jsonrpc\":\"2.0\"}" })];
    let report = judged(scripted::server(marked), &options).await;
    let broken = broken_rules(&report);
    let [(rule, found)] = &broken[..] else { panic!("{}", report.to_text()) };
    assert_eq!(*rule, "mcp.connect");
    let wrote = "; it wrote what is not JSON: (byte order mark){\"jsonrpc\"";
    assert!(found.contains(wrote), "{found}");
}
