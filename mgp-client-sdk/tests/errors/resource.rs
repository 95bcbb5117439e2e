//! 3000 to 3099: limits and time.

use std::sync::Arc;
use std::time::Duration;

use mgp_lifecycle::LimitConfig;
use mgp_server_sdk::{Server, Tool};
use mgp_types::ErrorCode;
use serde_json::json;
use tokio::sync::Notify;

use crate::gateway;
use crate::heard::Heard;
use crate::peer::{PEERS, Peer, Tongue};
use crate::script;

#[tokio::test]
async fn code_3000_rate_limited() {
    // A server at a URL that says so in the words of HTTP.
    let server = script::Server::modern(|seen| {
        let wait = vec![("Retry-After", "7".to_owned())];
        (seen.method() == "tools/call").then(|| script::Said::Whole(429, wait, "", String::new()))
    })
    .await;
    let client = script::client().connect_url(&server.url).await.unwrap();
    let stack = gateway::to(client).into_stack().unwrap();
    Heard::of(ErrorCode::RATE_LIMITED)
        .says(["takes no more requests", "HTTP 429"])
        .hint("retry_after_ms", json!(7000))
        .heard_by_all(&stack, "t")
        .await;
}

#[tokio::test]
async fn code_3001_resource_exhausted() {
    let (begun, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (started, end) = (Arc::clone(&begun), Arc::clone(&release));
    let hold = Tool::new("hold", "Waits to be let go", move || {
        let (started, end) = (Arc::clone(&started), Arc::clone(&end));
        async move {
            started.notify_one();
            end.notified().await;
            "held"
        }
    });
    let mut limit = LimitConfig::default();
    (limit.running, limit.waiting) = (1, 0);
    let stack = Server::new("s", "1").tool(hold).limit(limit).into_stack().unwrap();
    let mut first = Peer::join(&stack, PEERS[0]).await;
    let running = first.send("tools/call", json!({ "name": "hold" })).await;
    begun.notified().await;
    Heard::of(ErrorCode::RESOURCE_EXHAUSTED)
        .says(["too many tool calls are running and waiting"])
        .heard_by_all(&stack, "hold")
        .await;
    // Whoever is refused takes nothing from those who run.
    release.notify_one();
    let answer = first.answer(running).await;
    assert_eq!(answer["result"]["content"][0]["text"], "held", "{answer}");
}

#[tokio::test(start_paused = true)]
async fn code_3003_timeout() {
    let hang = Tool::new("hang", "Never ends", || async {
        std::future::pending::<()>().await;
        "never"
    });
    let server = Server::new("s", "1").tool(hang).timeout(Duration::from_millis(1500));
    let stack = server.into_stack().unwrap();
    Heard::of(ErrorCode::TIMEOUT)
        .says(["no answer within 1.5s"])
        .heard_by_all(&stack, "hang")
        .await;
    // A tool that says what it promises cannot have a refusal where its result would be.
    for kind in PEERS.into_iter().filter(|(_, tongue)| *tongue == Tongue::Plain) {
        let typed = Tool::new("typed", "Never ends", || async {
            std::future::pending::<()>().await;
            "never"
        });
        let typed = typed.output::<Number>();
        let stack = Server::new("s", "1").tool(typed).into_stack().unwrap();
        let answer = Peer::join(&stack, kind).await.call("typed").await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(answer["result"].get("structuredContent").is_none(), "{answer}");
    }
}

/// What the tool would answer.
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Number {
    n: i64,
}
