//! Tests of the lifecycle of a legacy connection, from the server's side (MCP lifecycle, all revisions).

use std::time::Duration;

use mgp_server_sdk::prelude::*;
use mgp_testkit::{RawPeer, hello, modern_meta};
use mgp_transport::duplex;
use mgp_types::Payload;
use mgp_types::mcp::{ElicitParams, Revision};
use mgp_types::method::{ElicitationCreate, Request as _};
use mgp_types::service::CallerRequest;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::Instant;

fn server() -> Server {
    Server::new("life", "1")
        .tool(Tool::new("echo", "Says so", || async { "so" }))
        .tool(Tool::new("sleep", "Sleeps for ever", || async {
            std::future::pending::<()>().await;
        }))
        .tool(Tool::new("ask", "Asks", |cx: Context| async move {
            let params = Payload::of(&ElicitParams::new("Really?"))?;
            cx.ask("really", CallerRequest::new(ElicitationCreate::METHOD, params)).await?;
            Ok::<_, RpcError>("asked")
        }))
}

const ELICITS: &str = r#"{"elicitation":{}}"#;

async fn initialized(mut raw: RawPeer, capabilities: &str) -> RawPeer {
    let capabilities = serde_json::from_str(capabilities).unwrap();
    let answer = raw.ask("initialize", hello("2025-11-25", &capabilities)).await;
    assert!(answer["result"].is_object(), "{answer}");
    raw
}

fn call(tool: &str) -> Value {
    json!({"name": tool, "arguments": {}})
}

// === Initialize first ===

#[tokio::test]
async fn a_request_before_initialize_is_answered_with_an_error_and_the_connection_survives() {
    let mut raw = super::raw::connect(server());
    for (method, params) in [
        ("tools/list", json!({})),
        ("tools/call", call("echo")),
        ("resources/list", json!({})),
        ("no/such/method", json!({})),
        ("logging/setLevel", json!({"level": "info"})),
    ] {
        let answer = raw.ask(method, params).await;
        let error = &answer["error"];
        assert_eq!(error["code"], -32600, "{method}: {answer}");
        assert!(error["message"].as_str().unwrap().contains("initialize"), "{answer}");
    }
    raw.notify("notifications/cancelled", json!({"requestId": 1})).await;
    let mut raw = initialized(raw, "{}").await;
    raw.notify("notifications/initialized", json!({})).await;
    let answer = raw.ask("tools/call", call("echo")).await;
    assert_eq!(answer["result"]["content"][0]["text"], "so");
}

#[tokio::test]
async fn a_second_initialize_is_refused_and_the_first_holds() {
    let mut raw = initialized(super::raw::connect(server()), "{}").await;
    let answer = raw.ask("initialize", hello("2024-11-05", &json!({}))).await;
    assert_eq!(answer["error"]["code"], -32600);
    assert!(raw.ask("tools/list", json!({})).await["result"]["tools"].is_array());
}

#[tokio::test]
async fn ping_is_answered_at_any_time() {
    let mut raw = super::raw::connect(server());
    assert_eq!(raw.ask("ping", json!({})).await["result"], json!({}));
    let mut raw = initialized(raw, "{}").await;
    assert_eq!(raw.ask("ping", json!({})).await["result"], json!({}));
    raw.notify("notifications/initialized", json!({})).await;
    assert_eq!(raw.ask("ping", json!({})).await["result"], json!({}));
    // Start a call that does not end; it must not block other calls.
    raw.send("tools/call", call("sleep")).await;
    for _ in 0..3 {
        assert_eq!(raw.ask("ping", json!({})).await["result"], json!({}));
    }
}

#[tokio::test]
async fn the_server_asks_nothing_before_the_client_is_ready() {
    let mut raw = initialized(super::raw::connect(server()), ELICITS).await;
    let received = raw.ask_all("tools/call", call("ask")).await;
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!(received[0]["result"]["isError"], true);
    raw.notify("notifications/initialized", json!({})).await;
    raw.send("tools/call", call("ask")).await;
    let question = raw.receive().await;
    assert_eq!(question["method"], "elicitation/create");
    raw.answer(&question, json!({"action": "accept"})).await;
    assert_eq!(raw.receive().await["result"]["content"][0]["text"], "asked");
}

// === Revisions ===

#[tokio::test]
async fn each_revision_is_answered_with_itself_or_with_the_newest() {
    let spoken = Revision::KNOWN.iter().map(Revision::as_str);
    for asked in spoken.chain(["2024-10-07", "1.0.0", "2099-01-01", ""]) {
        let mut raw = super::raw::connect(server());
        let answer = raw.ask("initialize", hello(asked, &json!({}))).await;
        let legacy = Revision::LEGACY.iter().any(|revision| revision.as_str() == asked);
        let settled = if legacy { asked } else { "2025-11-25" };
        assert_eq!(answer["result"]["protocolVersion"], settled, "{asked}");
        assert!(raw.ask("tools/list", json!({})).await["result"].is_object());
    }
}

/// Tests each pair of a revision that a client requests and a revision that a server supports.
#[tokio::test]
async fn every_pair_of_revisions_agrees_or_is_refused() {
    for only in Revision::KNOWN {
        for asked in Revision::KNOWN {
            let mut raw =
                super::raw::connect(server().offer(|offer| offer.revisions = vec![only.clone()]));
            let modern_params = json!({"_meta": modern_meta(&json!({}))});
            if *asked == Revision::MODERN {
                let answer = raw.ask("server/discover", modern_params).await;
                if asked == only {
                    assert_eq!(answer["result"]["supportedVersions"], json!(["2026-07-28"]));
                } else {
                    let data = json!({"supported": [only.as_str()], "requested": "2026-07-28"});
                    assert_eq!(answer["error"]["code"], -32022);
                    assert_eq!(answer["error"]["data"], data);
                }
            }
            let answer = raw.ask("initialize", hello(asked.as_str(), &json!({}))).await;
            if asked == only && *asked != Revision::MODERN {
                assert_eq!(answer["result"]["protocolVersion"], asked.as_str());
                continue;
            }
            // The error contains the revisions that the client can request instead.
            let error = json!({
                "code": -32602, "message": "Unsupported protocol version",
                "data": {"supported": [only.as_str()], "requested": asked.as_str()},
            });
            assert_eq!(answer["error"], error, "{only} {asked}");
            if *only != Revision::MODERN {
                let again = raw.ask("initialize", hello(only.as_str(), &json!({}))).await;
                assert_eq!(again["result"]["protocolVersion"], only.as_str());
            }
        }
    }
}

// === Errors ===

#[tokio::test]
async fn a_broken_initialize_is_refused_and_may_be_repeated() {
    let mut raw = super::raw::connect(server());
    for params in [json!({}), json!({"protocolVersion": 1}), json!([]), Value::Null] {
        let answer = raw.ask("initialize", params).await;
        assert!(matches!(answer["error"]["code"].as_i64(), Some(-32602 | -32600)), "{answer}");
    }
    let mut raw = initialized(raw, "{}").await;
    assert!(raw.ask("tools/list", json!({})).await["result"].is_object());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hangs_is_answered_when_its_time_is_over() {
    let server = server().timeout(Duration::from_millis(200));
    let mut raw = initialized(super::raw::connect(server), "{}").await;
    raw.notify("notifications/initialized", json!({})).await;
    let answer = raw.ask("tools/call", call("sleep")).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(answer.to_string().contains("`Server::timeout`"), "{answer}");
    assert!(raw.ask("tools/list", json!({})).await["result"].is_object());
}

// === Utilities ===

#[tokio::test]
async fn a_cancelled_call_ends_and_is_not_answered() {
    let server = server();
    let monitor = server.monitor();
    let mut raw = initialized(super::raw::connect(server), "{}").await;
    raw.notify("notifications/initialized", json!({})).await;
    let id = raw.send("tools/call", call("sleep")).await;
    raw.ask("ping", json!({})).await;
    assert_eq!(monitor.running(), 1);
    raw.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"})).await;
    // The answer to the ping is the next message, so the messages before it got no answer.
    let received = raw.ask_all("ping", json!({})).await;
    assert_eq!(received.len(), 1, "{received:?}");
    assert_eq!(monitor.running(), 0);
}

/// Regression test: after the end of its input, a server waited 2 s for the end of an open stream of changes, although
/// its client could no longer end the stream.
#[tokio::test(start_paused = true)]
async fn an_open_stream_does_not_keep_a_server_after_the_end_of_its_input() {
    let later = Tool::new("later", "Answers after a second", || async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        "done"
    });
    let (here, there) = duplex();
    let serving = tokio::spawn(server().tool(later).serve(there.reader, there.writer));
    let (mut lines, mut to) = (BufReader::new(here.reader).lines(), here.writer);
    let mut send = async |id: u64, method: &str, mut params: Value| {
        params["_meta"] = modern_meta(&json!({}));
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        to.write_all(format!("{request}\n").as_bytes()).await.unwrap();
    };
    let wish = json!({"notifications": {"toolsListChanged": true}});
    send(1, "subscriptions/listen", wish).await;
    let line = lines.next_line().await.unwrap().unwrap();
    assert!(line.contains("notifications/subscriptions/acknowledged"), "{line}");
    send(2, "tools/call", call("later")).await;
    to.shutdown().await.unwrap();
    let begun = Instant::now();
    let line = lines.next_line().await.unwrap().unwrap();
    assert!(line.contains(r#""id":2"#) && line.contains("done"), "{line}");
    serving.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
    assert!(lines.next_line().await.unwrap().is_none());
}
