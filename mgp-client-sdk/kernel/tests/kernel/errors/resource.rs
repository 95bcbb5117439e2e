//! Tests of the codes 3000 to 3099: limits and time-outs.

use std::time::Duration;

use mgp_server_sdk::{LimitConfig, Quota, RateKey, RateLimit, Server, Tool};
use mgp_types::mcp::{CallToolResult, ToolAnnotations};
use mgp_types::mgp::ShutdownReason;
use mgp_types::service::{Call, Context, Deadline, Stack, around};
use mgp_types::{ErrorCode, RpcError};
use serde_json::json;

use super::expected_error::ExpectedError;
use super::gateway;
use super::held_tool::HeldTool;
use super::peer::{Dialect, PEERS, Peer};
use crate::script;

#[tokio::test]
async fn code_3000_rate_limited() {
    // The server behind a gateway is at a URL, and answers with the HTTP status 429 (too many requests). If it demands
    // a wait of more than a day, the error contains a day.
    for (wait, shown_ms) in [("7", 7000), ("1000000000000000", 86_400_000)] {
        let server = script::Server::modern(move |seen| {
            let wait = vec![("Retry-After", wait.to_owned())];
            (seen.method() == "tools/call")
                .then(|| script::Response::Whole(429, wait, "", String::new()))
        })
        .await;
        let client = script::client().connect_url(&server.url).await.unwrap();
        let stack = gateway::to(client).into_stack().unwrap();
        ExpectedError::new(ErrorCode::RATE_LIMITED)
            .message(["takes no more requests", "HTTP 429"])
            .hint("retry_after_ms", json!(shown_ms))
            .check_all_peers(&stack, "t")
            .await;
    }

    // Pause the clock: the server's own rate limit returns the time until the next call is permitted, exact to the
    // millisecond.
    tokio::time::pause();
    let details = ["limit", "window_secs", "burst", "current", "by"];
    let limit = RateLimit::per_hour(1).by(RateKey::Tool);
    let stack = Server::new("s", "1").tool(now()).rate(limit).into_stack().unwrap();
    let answer = Peer::join(&stack, PEERS[0]).await.call("now").await;
    assert_eq!(answer["result"]["content"][0]["text"], "noon", "{answer}");
    ExpectedError::new(ErrorCode::RATE_LIMITED)
        .message(["more than 1 call an hour by tool; try again in 3600 s"])
        .details(details)
        .hint("retry_after_ms", json!(3_600_000))
        .check_all_peers(&stack, "now")
        .await;

    // If the limit is zero, a later call never succeeds.
    let none = Server::new("s", "1").tool(now()).rate(RateLimit::per_minute(0));
    ExpectedError::new(ErrorCode::RATE_LIMITED)
        .message(["no call is allowed"])
        .details(details)
        .no_retry()
        .check_all_peers(&none.into_stack().unwrap(), "now")
        .await;
}

fn now() -> Tool {
    Tool::new("now", "The time", || async { "noon" })
}

#[tokio::test]
async fn code_3001_resource_exhausted() {
    let held = HeldTool::default();
    let mut limit = LimitConfig::default();
    (limit.max_running, limit.max_waiting) = (1, 0);
    let stack = Server::new("s", "1").tool(held.tool("hold")).limit(limit).into_stack().unwrap();
    let mut first = Peer::join(&stack, PEERS[0]).await;
    let running = first.send("tools/call", json!({ "name": "hold" })).await;
    held.begun().await;
    ExpectedError::new(ErrorCode::RESOURCE_EXHAUSTED)
        .message(["too many tool calls are running and waiting; try again in a moment"])
        .check_all_peers(&stack, "hold")
        .await;
    // The refused call must not affect the calls that are running.
    held.release();
    let answer = first.response(running).await;
    assert_eq!(answer["result"]["content"][0]["text"], "held", "{answer}");

    // Neither error may recommend a retry, because a repeated call has arguments and a result of the same size. The
    // size of a result is checked after the call has run.
    let sized = |arguments, result| {
        let server = Server::new("s", "1").tool(now());
        server.max_arguments(arguments).max_result(result).into_stack().unwrap()
    };
    for (stack, started, words) in [
        (sized(1, 1_000), false, "the arguments have 2 bytes, and may have 1"),
        (sized(1_000, 10), true, "bytes, and may have 10"),
    ] {
        ExpectedError::new(ErrorCode::RESOURCE_EXHAUSTED)
            .message([words])
            .details(["limit", "size", "of"])
            .started(started)
            .no_retry()
            .check_all_peers(&stack, "now")
            .await;
    }
}

#[tokio::test]
async fn code_3002_quota_exceeded() {
    let details = ["quota", "used", "of", "period_secs", "resets_at"];
    let stack = Server::new("s", "1").tool(now()).quota(Quota::per_day(1)).into_stack().unwrap();
    let answer = Peer::join(&stack, PEERS[0]).await.call("now").await;
    assert_eq!(answer["result"]["content"][0]["text"], "noon", "{answer}");
    ExpectedError::new(ErrorCode::QUOTA_EXCEEDED)
        .message(["the quota of 1 calls a day is used up; it is reset at "])
        .details(details)
        .check_all_peers(&stack, "now")
        .await;

    // The tool itself charges units during the call, so the call has already begun when it is refused.
    let costly = Tool::new("costly", "Charges", |cx: Context| async move {
        Quota::charge(&cx, 10)?;
        Ok::<_, RpcError>("done")
    });
    let quota = Quota::per_day(1_000).units(9);
    let stack = Server::new("s", "1").tool(costly).quota(quota).into_stack().unwrap();
    ExpectedError::new(ErrorCode::QUOTA_EXCEEDED)
        .message(["the quota of 9 units a day is used up"])
        .details(details)
        .check_all_peers(&stack, "costly")
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
    ExpectedError::new(ErrorCode::TIMEOUT)
        .message(["no answer within 1.5 s; it may have run: call again only if that does no harm"])
        .details(["timeout_ms", "tool"])
        .check_all_peers(&stack, "hang")
        .await;
    // A client may repeat a call that timed out if the tool only reads.
    let reads = Tool::new("reads", "Never ends", || async {
        std::future::pending::<()>().await;
        "never"
    });
    let mut hints = ToolAnnotations::new();
    hints.read_only_hint = Some(true);
    let stack = Server::new("s", "1").tool(reads.annotations(hints)).into_stack().unwrap();
    ExpectedError::new(ErrorCode::TIMEOUT)
        .message(["no answer within 30 s"])
        .details(["timeout_ms", "tool"])
        .of_repeatable()
        .check_all_peers(&stack, "reads")
        .await;
    // Structured content must match the tool's output schema. So the refusal is only in the text of the result.
    for kind in PEERS.into_iter().filter(|(_, dialect)| *dialect == Dialect::Plain) {
        let typed = Tool::new("typed", "Never ends", || async {
            std::future::pending::<()>().await;
            CallToolResult::text("never")
        });
        let typed = typed.output::<Number>();
        let stack = Server::new("s", "1").tool(typed).into_stack().unwrap();
        let answer = Peer::join(&stack, kind).await.call("typed").await;
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        assert!(answer["result"].get("structuredContent").is_none(), "{answer}");
    }

    // The call still runs when the drain times out. The member `started` of the details reports this.
    for kind in PEERS {
        let held = HeldTool::default();
        let server = Server::new("s", "1").tool(held.tool("hold"));
        let drain = server.drain_handle();
        let stack = server.into_stack().unwrap();
        let mut peer = Peer::join(&stack, kind).await;
        let call = peer.send("tools/call", json!({ "name": "hold", "arguments": {} })).await;
        held.begun().await;
        drain.begin(ShutdownReason::ConfigurationChange, Duration::from_millis(1500));
        let answer = peer.response(call).await;
        ExpectedError::new(ErrorCode::TIMEOUT)
            .message(["the server shut down before the call ended; it may have had effects"])
            .started(true)
            .check(&peer, &answer);
    }

    // A call that times out while it waits for its turn has not begun.
    let held = HeldTool::default();
    let mut limit = LimitConfig::default();
    (limit.max_running, limit.max_waiting) = (1, 9);
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
    ExpectedError::new(ErrorCode::TIMEOUT)
        .message([
            "the call waited 1.5 s because too many calls run, and did not start; call again when fewer calls run",
        ])
        .started(false)
        .check_all_peers(&stack, "now")
        .await;
}

const HOUR: Duration = Duration::from_hours(1);

/// The output of the tool.
#[derive(schemars::JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct Number {
    n: i64,
}
