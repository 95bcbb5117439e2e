//! Tests of the codes 2000 to 2099: servers that are not connected.

use std::sync::Arc;
use std::time::Duration;

use mgp_client_sdk::{Client, EraChoice, SuperviseConfig};
use mgp_lifecycle::{ReadyLayer, StateHandle};
use mgp_security::AuditLayer;
use mgp_server_sdk::{Server, Tool};
use mgp_testkit::RefusingAudit;
use mgp_transport::ChildCommand;
use mgp_types::ErrorCode;
use mgp_types::method::{Request, ToolsCall};
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{AuditError, Router, Stack};
use serde_json::json;

use super::expected_error::ExpectedError;
use super::gateway;
use super::held_tool::HeldTool;
use super::peer::{PEERS, Peer};
use crate::script;

#[tokio::test]
async fn code_2000_server_not_ready() {
    // Use a gateway whose own server has exited.
    let client = gateway::client(Server::new("below", "1")).await;
    client.close().await;
    let stack = gateway::to(client).into_stack().unwrap();
    ExpectedError::new(ErrorCode::SERVER_NOT_READY)
        .message(["connection closed"])
        .check_all_peers(&stack, "t")
        .await;

    // A call that cannot be recorded in the audit log must not run.
    let tool = Tool::new("t", "Does something", || async { "done" });
    let audit = AuditLayer::new(Arc::new(RefusingAudit(AuditError::Closed))).server("s");
    let stack = Server::new("s", "1").tool(tool).layer(audit).into_stack().unwrap();
    ExpectedError::new(ErrorCode::SERVER_NOT_READY)
        .message(["the call was not run", "the audit log is closed", "must be restarted"])
        .check_all_peers(&stack, "t")
        .await;

    // Use a supervised server that has never been started.
    let builder = Client::builder("gateway", "1").server_id("files");
    let config = SuperviseConfig::default();
    let files = builder.supervise(ChildCommand::new("no-such-program"), config).unwrap();
    let below = files.stack().clone();
    let calls = Router::new().route(ToolsCall::METHOD, below);
    let stack = Server::new("gateway", "1").endpoints(calls).into_stack().unwrap();
    ExpectedError::new(ErrorCode::SERVER_NOT_READY)
        .message(["server `files` was not started yet; start it first"])
        .details(["state", "server_id"])
        .started(false)
        .check_all_peers(&stack, "t")
        .await;
    for (state, words) in [
        (ServerState::Connecting, "server `files` is starting; try again in a moment"),
        (ServerState::Disconnected, "server `files` is stopped; start it first"),
        (ServerState::Error, "server `files` failed; restart it once the cause is gone"),
    ] {
        ExpectedError::new(ErrorCode::SERVER_NOT_READY)
            .message([words])
            .details(["state", "server_id"])
            .started(false)
            .check_all_peers(&in_state(StateHandle::new(state)), "t")
            .await;
    }

    // The server exits during a call, so the call may have run. The member `started` of the details reports this.
    for kind in PEERS {
        let held = HeldTool::default();
        let below = Server::new("below", "1").tool(held.tool("t"));
        let (client, serving) = gateway::through(Client::builder("gateway", "1"), below).await;
        let stack = gateway::to(client).into_stack().unwrap();
        let mut peer = Peer::join(&stack, kind).await;
        let call = peer.send("tools/call", json!({ "name": "t", "arguments": {} })).await;
        held.begun().await;
        serving.abort();
        let answer = peer.response(call).await;
        ExpectedError::new(ErrorCode::SERVER_NOT_READY)
            .message(["connection closed"])
            .no_retry()
            .started(true)
            .check(&peer, &answer);
    }
}

/// Returns a server with a `ReadyLayer` that has this state.
fn in_state(state: StateHandle) -> Stack {
    let tool = Tool::new("t", "Does something", || async { "done" });
    let gate = ReadyLayer::new(state).server("files");
    Server::new("s", "1").tool(tool).layer(gate).into_stack().unwrap()
}

#[tokio::test]
async fn code_2001_server_draining() {
    // A draining server refuses calls; the error recommends a retry only if the server will be started again.
    for (reason, comes_back, words) in [
        (
            ShutdownReason::OperatorRequest,
            false,
            "(operator_request) and starts no new calls; use another one",
        ),
        (
            ShutdownReason::IdleTimeout,
            false,
            "(idle_timeout) and starts no new calls; use another one",
        ),
        (
            ShutdownReason::ConfigurationChange,
            true,
            "starts no new calls; try again once it is back",
        ),
        (ShutdownReason::ResourceLimit, true, "starts no new calls; try again once it is back"),
    ] {
        let held = HeldTool::default();
        let server = Server::new("s", "1").tool(held.tool("t"));
        let drain = server.drain_handle();
        let stack = server.into_stack().unwrap();
        let mut first = Peer::join(&stack, PEERS[0]).await;
        let running = first.send("tools/call", json!({ "name": "t", "arguments": {} })).await;
        held.begun().await;
        drain.begin(reason, Duration::from_secs(30));
        let mut expected = ExpectedError::new(ErrorCode::SERVER_DRAINING)
            .message([words])
            .details(["state", "reason"])
            .started(false);
        if comes_back {
            expected = expected.after_a_second();
        }
        expected.check_all_peers(&stack, "t").await;
        // A call that began before the drain must run to its end.
        held.release();
        let answer = first.response(running).await;
        assert_eq!(answer["result"]["content"][0]["text"], "held", "{answer}");
    }

    // The `ReadyLayer` of a client must refuse calls to a server in the state `Draining`.
    for (reason, comes_back) in [("operator_request", false), ("configuration_change", true)] {
        let state = StateHandle::new(ServerState::Connected);
        state.enter(ServerState::Draining, reason).unwrap();
        let mut expected = ExpectedError::new(ErrorCode::SERVER_DRAINING)
            .message(["server `files` is draining and takes no new calls"])
            .details(["state", "server_id"])
            .started(false);
        if comes_back {
            expected = expected.after_a_second();
        }
        expected.check_all_peers(&in_state(state), "t").await;
    }
}

#[tokio::test]
async fn code_2002_server_restarting() {
    // Use a gateway whose own server forgets each session as soon as the client uses the session.
    let server =
        script::Server::legacy(|seen| (seen.method() == "tools/call").then(|| script::status(404)))
            .await;
    let builder = script::client().era(EraChoice::Legacy);
    let client = builder.connect_url(&server.url).await.unwrap();
    let stack = gateway::to(client).into_stack().unwrap();
    ExpectedError::new(ErrorCode::SERVER_RESTARTING)
        .message(["the server no longer has the session"])
        .check_all_peers(&stack, "t")
        .await;

    // The following error must refuse a call to a server that is being restarted.
    ExpectedError::new(ErrorCode::SERVER_RESTARTING)
        .message(["server `files` is being restarted; try again in a moment"])
        .details(["state", "server_id"])
        .started(false)
        .check_all_peers(&in_state(StateHandle::new(ServerState::Restarting)), "t")
        .await;
}
