//! 3000 to 3099: limits and time.

use std::time::Duration;

use mgp_server_sdk::{LimitConfig, Quota, RateKey, RateLimit, Server, Tool};
use mgp_types::mcp::ToolAnnotations;
use mgp_types::mgp::ShutdownReason;
use mgp_types::service::{Call, Context, Deadline, Stack, around};
use mgp_types::{ErrorCode, RpcError};
use serde_json::json;

use crate::gateway;
use crate::heard::Heard;
use crate::held::Held;
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

    // A limit of our own says when the next call may come, to the millisecond.
    tokio::time::pause();
    let details = ["limit", "window_secs", "burst", "current", "by"];
    let limit = RateLimit::per_hour(1).by(RateKey::Tool);
    let stack = Server::new("s", "1").tool(now()).rate(limit).into_stack().unwrap();
    let answer = Peer::join(&stack, PEERS[0]).await.call("now").await;
    assert_eq!(answer["result"]["content"][0]["text"], "noon", "{answer}");
    Heard::of(ErrorCode::RATE_LIMITED)
        .says(["more than 1 call an hour by tool; try again in 3600s"])
        .details(details)
        .hint("retry_after_ms", json!(3_600_000))
        .heard_by_all(&stack, "now")
        .await;

    // Where no call may come, none is to be tried again.
    let none = Server::new("s", "1").tool(now()).rate(RateLimit::per_minute(0));
    Heard::of(ErrorCode::RATE_LIMITED)
        .says(["no call may come"])
        .details(details)
        .no_retry()
        .heard_by_all(&none.into_stack().unwrap(), "now")
        .await;
}

fn now() -> Tool {
    Tool::new("now", "The time", || async { "noon" })
}

#[tokio::test]
async fn code_3001_resource_exhausted() {
    let held = Held::default();
    let mut limit = LimitConfig::default();
    (limit.running, limit.waiting) = (1, 0);
    let stack = Server::new("s", "1").tool(held.tool("hold")).limit(limit).into_stack().unwrap();
    let mut first = Peer::join(&stack, PEERS[0]).await;
    let running = first.send("tools/call", json!({ "name": "hold" })).await;
    held.begun().await;
    Heard::of(ErrorCode::RESOURCE_EXHAUSTED)
        .says(["too many tool calls are running and waiting; try again in a moment"])
        .heard_by_all(&stack, "hold")
        .await;
    // Whoever is refused takes nothing from those who run.
    held.release();
    let answer = first.answer(running).await;
    assert_eq!(answer["result"]["content"][0]["text"], "held", "{answer}");

    // What is too large is so the next time too. A result is refused when the call has run.
    let sized = |arguments, result| {
        let server = Server::new("s", "1").tool(now());
        server.max_arguments(arguments).max_result(result).into_stack().unwrap()
    };
    for (stack, started, words) in [
        (sized(1, 1_000), false, "the arguments have 2 bytes, and may have 1"),
        (sized(1_000, 10), true, "bytes, and may have 10"),
    ] {
        Heard::of(ErrorCode::RESOURCE_EXHAUSTED)
            .says([words])
            .details(["limit", "size", "of"])
            .started(started)
            .no_retry()
            .heard_by_all(&stack, "now")
            .await;
    }
}

#[tokio::test]
async fn code_3002_quota_exceeded() {
    let details = ["quota", "used", "of", "period_secs", "resets_at"];
    let stack = Server::new("s", "1").tool(now()).quota(Quota::per_day(1)).into_stack().unwrap();
    let answer = Peer::join(&stack, PEERS[0]).await.call("now").await;
    assert_eq!(answer["result"]["content"][0]["text"], "noon", "{answer}");
    Heard::of(ErrorCode::QUOTA_EXCEEDED)
        .says(["the quota of 1 calls a day is used up; it starts anew at "])
        .details(details)
        .heard_by_all(&stack, "now")
        .await;

    // What a tool charges for itself; it has begun by then.
    let costly = Tool::new("costly", "Charges", |cx: Context| async move {
        Quota::charge(&cx, 10)?;
        Ok::<_, RpcError>("done")
    });
    let quota = Quota::per_day(1_000).units(9);
    let stack = Server::new("s", "1").tool(costly).quota(quota).into_stack().unwrap();
    Heard::of(ErrorCode::QUOTA_EXCEEDED)
        .says(["the quota of 9 units a day is used up"])
        .details(details)
        .heard_by_all(&stack, "costly")
        .await;
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
        .says(["no answer within 1.5s; it may have run: call again only if that does no harm"])
        .heard_by_all(&stack, "hang")
        .await;
    // A tool that only reads may be called again.
    let reads = Tool::new("reads", "Never ends", || async {
        std::future::pending::<()>().await;
        "never"
    });
    let mut hints = ToolAnnotations::new();
    hints.read_only_hint = Some(true);
    let stack = Server::new("s", "1").tool(reads.annotations(hints)).into_stack().unwrap();
    Heard::of(ErrorCode::TIMEOUT)
        .says(["no answer within 30s"])
        .of_repeatable()
        .heard_by_all(&stack, "reads")
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

    // What still runs when a drain is over has begun, and whoever calls is told so.
    for kind in PEERS {
        let held = Held::default();
        let server = Server::new("s", "1").tool(held.tool("hold"));
        let drain = server.drain_handle();
        let stack = server.into_stack().unwrap();
        let mut peer = Peer::join(&stack, kind).await;
        let call = peer.send("tools/call", json!({ "name": "hold", "arguments": {} })).await;
        held.begun().await;
        drain.begin(ShutdownReason::ConfigurationChange, Duration::from_millis(1500));
        let answer = peer.answer(call).await;
        Heard::of(ErrorCode::TIMEOUT)
            .says(["the server shut down before the call ended; it may have had effects"])
            .started(true)
            .check(&peer, &answer);
    }

    // Whose turn did not come in time has not begun.
    let held = Held::default();
    let mut limit = LimitConfig::default();
    (limit.running, limit.waiting) = (1, 9);
    let hurried = around(|mut call: Call, next: Stack| async move {
        if call.tool().is_some_and(|tool| tool.name == "now") {
            call.cx_mut().deadline = Deadline::after(Duration::from_millis(1500));
        }
        next.send(call).await
    });
    let server =
        Server::new("s", "1").tool(held.tool("hold")).tool(now()).limit(limit).timeout(HOUR);
    let stack = server.around(hurried).into_stack().unwrap();
    let mut first = Peer::join(&stack, PEERS[0]).await;
    first.send("tools/call", json!({ "name": "hold" })).await;
    held.begun().await;
    Heard::of(ErrorCode::TIMEOUT)
        .says([
            "no turn came within 1.5s; the call did not run, so call again when less is waiting",
        ])
        .started(false)
        .heard_by_all(&stack, "now")
        .await;
}

const HOUR: Duration = Duration::from_hours(1);

/// What the tool would answer.
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Number {
    n: i64,
}
