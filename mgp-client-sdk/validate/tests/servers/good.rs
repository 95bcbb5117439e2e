//! Servers that keep every rule.

use std::sync::atomic::{AtomicU64, Ordering};

use mgp_server_sdk::prelude::*;
use mgp_transport::{Connection, duplex};
use mgp_validate::{Options, Status, Target};

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
                    tools.push(open);
                }
            }
            "tools/call" if message.value["params"]["name"] == "slow" => *replies = vec![refusal],
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
        [("hangs", hangs), ("ends", ends), ("lies", lies), ("floods", floods), ("garbage", garbage)]
    {
        let report = tokio::time::timeout(
            std::time::Duration::from_secs(30),
            judged(scripted::server(change), &options),
        );
        let report = report.await.unwrap_or_else(|_| panic!("{name} is not bounded"));
        assert!((1..=2).contains(&report.results.len()), "{name}");
        let is_good = name == "floods";
        assert_eq!(report.is_passed(), is_good, "{name}: {}", report.to_text());
    }
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
