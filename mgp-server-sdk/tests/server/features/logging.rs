//! Tests of log messages to callers, and of the levels that callers set.

use mgp_server_sdk::prelude::*;
use mgp_server_sdk::{ContextExt, LogLevel, Logger, Prompt};
use mgp_types::mcp::Era;
use serde_json::{Value, json};

use super::wire::{Wire, code};

fn server() -> Server {
    let tool = Tool::new("work", "Logs at each level", |cx: Context| async move {
        for level in LogLevel::ALL {
            cx.log(*level, level.as_str()).await;
        }
        "done"
    });
    let prompt = Prompt::new("work", "Logs under a name", |log: Logger| async move {
        log.named("prompts").error(&json!({ "rows": 3 })).await;
        "done"
    });
    let tell = Tool::new("tell", "Informs the user", |cx: Context| async move {
        cx.inform("almost done").await;
        "done"
    });
    Server::new("logs", "1").tool(tool).tool(tell).prompt(prompt)
}

async fn levels(wire: &mut Wire) -> Vec<String> {
    wire.ask("tools/call", json!({ "name": "work" })).await.unwrap();
    let level = |notice: Value| {
        assert_eq!(notice["method"], "notifications/message");
        assert_eq!(notice["params"]["data"], notice["params"]["level"]);
        notice["params"]["level"].as_str().unwrap().to_owned()
    };
    wire.notices().await.into_iter().map(level).collect()
}

const ALL: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

#[tokio::test]
async fn a_legacy_session_sets_its_level_for_itself() {
    let stack = server().logging().into_stack().unwrap();
    let mut wire = Wire::to(&stack, Era::Legacy, json!({})).await;
    let mut other = Wire::to(&stack, Era::Legacy, json!({})).await;
    assert_eq!(levels(&mut wire).await, ALL[1..], "information and above by default");
    for (level, from) in [("debug", 0), ("warning", 3), ("emergency", 7)] {
        wire.ask("logging/setLevel", json!({ "level": level })).await.unwrap();
        assert_eq!(levels(&mut wire).await, ALL[from..]);
    }
    assert_eq!(levels(&mut other).await, ALL[1..]);
    for params in [json!({}), json!({ "level": "loud" }), json!({ "level": 3 })] {
        assert_eq!(code(&wire.ask("logging/setLevel", params).await), -32602);
    }
    assert_eq!(levels(&mut wire).await, ALL[7..], "a wrong level changes nothing");
}

#[tokio::test]
async fn a_modern_request_names_its_own_level() {
    let mut wire = Wire::join(server().logging(), Era::Modern).await;
    assert!(levels(&mut wire).await.is_empty(), "no level was requested");
    wire.meta = json!({ "io.modelcontextprotocol/logLevel": "error" });
    assert_eq!(levels(&mut wire).await, ALL[4..]);
    wire.meta = json!({ "io.modelcontextprotocol/logLevel": "loud" });
    assert!(levels(&mut wire).await.is_empty());
    assert_eq!(code(&wire.ask("logging/setLevel", json!({ "level": "debug" })).await), -32601);
}

#[tokio::test]
async fn messages_have_a_name_and_data() {
    let mut wire = Wire::join(server().logging(), Era::Legacy).await;
    wire.ask("prompts/get", json!({ "name": "work" })).await.unwrap();
    let expected = json!({ "level": "error", "logger": "prompts", "data": { "rows": 3 } });
    assert_eq!(wire.notice().await["params"], expected);
}

#[tokio::test]
async fn a_server_without_logging_sends_no_messages() {
    for era in [Era::Legacy, Era::Modern] {
        let mut wire = Wire::join(server(), era).await;
        assert!(wire.hello["capabilities"].get("logging").is_none());
        wire.meta = json!({ "io.modelcontextprotocol/logLevel": "debug" });
        assert!(levels(&mut wire).await.is_empty());
        assert_eq!(code(&wire.ask("logging/setLevel", json!({ "level": "debug" })).await), -32601);
    }
}

#[tokio::test]
async fn information_is_a_log_message_only_if_the_server_logs_and_the_caller_takes_its_level() {
    for era in [Era::Legacy, Era::Modern] {
        for (is_logging, level, is_sent) in
            [(true, "notice", true), (true, "warning", false), (false, "notice", false)]
        {
            let server = if is_logging { server().logging() } else { server() };
            let mut wire = Wire::join(server, era).await;
            wire.meta = json!({ "io.modelcontextprotocol/logLevel": level });
            if era == Era::Legacy && is_logging {
                wire.ask("logging/setLevel", json!({ "level": level })).await.unwrap();
            }
            wire.ask("tools/call", json!({ "name": "tell" })).await.unwrap();
            let sent = wire.notices().await.into_iter();
            let sent: Vec<_> = sent
                .map(|notice| (notice["params"]["level"].clone(), notice["params"]["data"].clone()))
                .collect();
            let expected = is_sent.then(|| (json!("notice"), json!("almost done")));
            let expected: Vec<_> = expected.into_iter().collect();
            assert_eq!(sent, expected, "{era:?} {level} {is_logging}");
        }
    }
}
