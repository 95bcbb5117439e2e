//! Tests of the layers that the author adds to a server: of their position, and of the parts of a call that they see.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_security::AuditLayer;
use mgp_server_sdk::TasksConfig;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp;
use mgp_types::service::{MemoryAudit, Router, Stack, around, gate, mock};
use tower::limit::ConcurrencyLimitLayer;

use super::raw::connect_mock;

const MGP: &str = r#"{"mgp":{"version":"0.3.0","extensions":["streaming"]}}"#;

fn server() -> Server {
    Server::new("s", "1").tool(Tool::new("work", "Works", || async { "done" }))
}

#[tokio::test]
async fn a_gate_knows_the_caller_and_its_errors_are_translated() {
    let gated = || {
        server().layer(gate(|call| {
            assert!(call.cx().caller.info.is_some(), "the gate is below the handshake");
            match call.tool() {
                Some(_) => Err(RpcError::new(ErrorCode::PERMISSION_DENIED, "not today")),
                None => Ok(()),
            }
        }))
    };
    let (mut plain, _) = connect_mock(gated(), "{}").await;
    let result = plain.request("tools/call", r#"{"name":"work"}"#).await.unwrap();
    assert!(result.as_str().contains(r#""isError":true"#) && result.as_str().contains("not today"));
    assert!(!result.as_str().contains("_mgp"), "{result:?}");
    let (mut speaking, _) = connect_mock(gated(), MGP).await;
    let error = speaking.request("tools/call", r#"{"name":"work"}"#).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED);
    assert!(error.as_recovery().is_some());
}

#[tokio::test]
async fn the_last_gate_is_the_outermost_and_around_is_outside_all() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let seen = Arc::clone(&seen);
        around(move |call, next: Stack| {
            seen.lock().unwrap().push((name, call.cx().caller.info.is_some()));
            async move { next.send(call).await }
        })
    };
    let server = server().layer(note("inner")).around(note("around")).layer(note("outer"));
    let (mut client, _) = connect_mock(server, "{}").await;
    seen.lock().unwrap().clear();
    client.request("tools/call", r#"{"name":"work"}"#).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [("around", false), ("outer", true), ("inner", true)]);
}

#[tokio::test(start_paused = true)]
async fn a_stock_tower_layer_that_waits_for_readiness_works() {
    let slow = Tool::new("slow", "Takes a while", || async {
        tokio::time::sleep(Duration::from_millis(10)).await;
        "done"
    });
    let server = Server::new("s", "1").tool(slow).layer(ConcurrencyLimitLayer::new(1));
    let (mut client, _) = connect_mock(server, "{}").await;
    let calls: Vec<_> = (0..3).map(|_| client.call("tools/call", r#"{"name":"slow"}"#)).collect();
    for call in calls {
        assert!(tokio::spawn(call).await.unwrap().is_ok());
    }
}

#[tokio::test]
async fn a_tool_that_ran_is_audited_as_run_whatever_code_it_ends_with() {
    let refuse = |code| async move { Err::<&str, _>(RpcError::new(code, "no")) };
    let layered = Tool::new("layered", "Asks another", move || refuse(ErrorCode::TOOL_NOT_FOUND))
        .layer(around(|call, next: Stack| async move { next.send(call).await }));
    let gated = Tool::new("gated", "Is refused before", || async { "never" })
        .layer(gate(|_| Err(RpcError::new(ErrorCode::ACCESS_DENIED, "not you"))));
    let typed = Tool::new("typed", "Takes a number", |Args(_): Args<Number>| async { "done" });
    let log = MemoryAudit::new();
    let server = Server::new("s", "1")
        .tool(Tool::new("deny", "Asks another", move || refuse(ErrorCode::PERMISSION_DENIED)))
        .tool(layered)
        .tool(gated)
        .tool(typed)
        .layer(AuditLayer::new(Arc::new(log.clone())).server("s"));
    let (mut client, _) = connect_mock(server, MGP).await;
    let mut audited = Vec::new();
    for tool in ["deny", "layered", "gated", "typed"] {
        let params = format!(r#"{{"name":"{tool}","arguments":{{}}}}"#);
        let _ = client.request("tools/call", &params).await;
        audited.push(log.events().pop().unwrap().event_type.to_string());
    }
    assert_eq!(audited, ["TOOL_EXECUTED", "TOOL_EXECUTED", "TOOL_BLOCKED", "TOOL_BLOCKED"]);
}

#[derive(Deserialize, JsonSchema)]
struct Number {
    #[expect(dead_code, reason = "it is only asked for")]
    n: i64,
}

#[tokio::test]
async fn a_method_that_the_user_routes_reaches_the_users_endpoint() {
    let board = Stack::from_fn(|_| async {
        mgp_types::service::Reply::of(&mcp::CallToolResult::text("board"))
    });
    let server = server().endpoints(Router::new().route("tools/call", board));
    let (mut client, _) = connect_mock(server, "{}").await;
    let result = client.request("tools/call", r#"{"name":"anything"}"#).await.unwrap();
    assert!(result.as_str().contains("board"));
}

#[tokio::test(start_paused = true)]
async fn a_routed_tool_call_keeps_the_time_limit_of_its_server() {
    for (limit, expected) in [(Duration::from_secs(5), None), (Duration::MAX, Some("done"))] {
        let slow = Stack::from_fn(|_| async {
            tokio::time::sleep(Duration::from_hours(1)).await;
            mgp_types::service::Reply::of(&mcp::CallToolResult::text("done"))
        });
        let mut timeouts = mgp_lifecycle::Timeouts::default();
        timeouts.tool = limit;
        let server = Server::new("gateway", "1")
            .timeouts(timeouts)
            .endpoints(Router::new().route("tools/call", slow));
        let (mut client, _) = connect_mock(server, MGP).await;
        let outcome = client.request("tools/call", r#"{"name":"anything"}"#).await;
        match expected {
            Some(text) => assert!(outcome.unwrap().as_str().contains(text)),
            None => assert_eq!(outcome.unwrap_err().code(), ErrorCode::TIMEOUT),
        }
    }
}

/// A tool that takes some seconds and can become a task.
fn slow(seconds: u64) -> Tool {
    let slow = Tool::new("slow", "Takes a while", move || async move {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        "done"
    });
    slow.define(|tool| {
        let mut execution = mcp::ToolExecution::new();
        execution.task_support = Some(mcp::TaskSupport::Optional);
        tool.execution = Some(execution);
    })
}

/// The member `_meta` of requests whose caller supports tasks.
const TASKS: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}"#;

#[tokio::test(start_paused = true)]
async fn a_server_keeps_no_more_tasks_than_its_configuration_allows() {
    let mut tasks = TasksConfig::default();
    tasks.max_tasks = 2;
    let server = Server::new("s", "1").tool(slow(20)).tasks(tasks);
    let mut client = mock::client(server.into_stack().unwrap());
    let call = format!(r#"{{"name":"slow",{TASKS}}}"#);
    for _ in 0..2 {
        client.request("tools/call", &call).await.unwrap();
    }
    let answered = client.request("tools/call", &call).await.unwrap();
    assert!(answered.as_str().contains("done") && !answered.as_str().contains("taskId"));
}
