//! 2000 to 2099: a server that is not there, or not any more.

use std::sync::Arc;

use mgp_client_sdk::EraChoice;
use mgp_security::AuditLayer;
use mgp_server_sdk::{Server, Tool};
use mgp_types::ErrorCode;
use mgp_types::mgp::AuditEvent;
use mgp_types::service::{AuditSink, Audited, Start, Ticket, Unaudited};

use crate::gateway;
use crate::heard::Heard;
use crate::script;

/// A log that was closed.
struct Closed;

impl AuditSink for Closed {
    fn begin(&self, _: Start) -> Audited<Ticket> {
        Audited::Ready(Err(Unaudited::Closed))
    }

    fn record(&self, _: AuditEvent) -> Audited<()> {
        Audited::Ready(Err(Unaudited::Closed))
    }
}

#[tokio::test]
async fn code_2000_server_not_ready() {
    // The server behind a gateway has gone.
    let client = gateway::client(Server::new("below", "1")).await;
    client.close().await;
    let stack = gateway::to(client).into_stack().unwrap();
    Heard::of(ErrorCode::SERVER_NOT_READY)
        .says(["connection closed"])
        .heard_by_all(&stack, "t")
        .await;

    // What cannot be recorded does not run.
    let tool = Tool::new("t", "Does something", || async { "done" });
    let audit = AuditLayer::new(Arc::new(Closed)).server("s");
    let stack = Server::new("s", "1").tool(tool).layer(audit).into_stack().unwrap();
    Heard::of(ErrorCode::SERVER_NOT_READY)
        .says(["the call was not run", "the audit log is closed"])
        .heard_by_all(&stack, "t")
        .await;
}

#[tokio::test]
async fn code_2002_server_restarting() {
    // The server behind a gateway forgets each session as soon as it is used.
    let server =
        script::Server::legacy(|seen| (seen.method() == "tools/call").then(|| script::status(404)))
            .await;
    let builder = script::client().era(EraChoice::Legacy);
    let client = builder.connect_url(&server.url).await.unwrap();
    let stack = gateway::to(client).into_stack().unwrap();
    Heard::of(ErrorCode::SERVER_RESTARTING)
        .says(["the server no longer has the session"])
        .heard_by_all(&stack, "t")
        .await;
}
