//! Tests of the codes 4004 and 4100 to 4102: registration and deregistration of servers (MGP §15).

use std::sync::Arc;
use std::time::Duration;

use mgp_discovery::{
    ApprovedRegistration, KnownServer, RegistrationAllowList, Registrations, ServerCatalog,
    ServerRunner,
};
use mgp_security::{AuditLayer, KernelToolsLayer};
use mgp_server_sdk::Server;
use mgp_types::mcp::Era;
use mgp_types::mgp::{Extension, ServerState, ServerSummary};
use mgp_types::service::{
    AllVisible, BoxFuture, Hidden, MemoryAudit, ServerId, Stack, Visibility, visibility,
};
use mgp_types::store::MemoryStore;
use mgp_types::{ErrorCode, RpcError};
use serde_json::{Value, json};

use super::expected_error::ExpectedError;
use super::peer::{Dialect, PEERS, Peer};

/// A kernel that has the server `files` in its configuration and never starts a server.
struct Configured;

impl ServerCatalog for Configured {
    fn known(&self) -> Vec<KnownServer> {
        let mut files = ServerSummary::new("files", ServerState::Connected);
        files.tools = vec!["read".to_owned()].into();
        vec![KnownServer::new(files, [])]
    }
}

impl ServerRunner for Configured {
    fn allow_list(&self) -> RegistrationAllowList {
        RegistrationAllowList::new(["cat"], [""; 0])
    }

    fn is_configured(&self, server: &ServerId) -> bool {
        server.as_str() == "files"
    }

    fn start(&self, _: ApprovedRegistration) -> BoxFuture<'static, Result<(), RpcError>> {
        Box::pin(async { Ok(()) })
    }

    fn drain(&self, _: &ServerId, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn remove(&self, _: &ServerId) -> BoxFuture<'static, Result<(), RpcError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Creates the registry of servers that agents register, with this access rule. Also returns the audit log in which the
/// registry records its events.
fn registrations(may: impl Visibility + 'static) -> (Registrations, MemoryAudit) {
    let audit = MemoryAudit::new();
    let registrations = Registrations::builder(Arc::new(MemoryStore::new()), Arc::new(Configured))
        .authorized_by(Arc::new(may))
        .audit(Arc::new(audit.clone()))
        .build();
    (registrations, audit)
}

/// Returns a server that serves the registration methods, both as methods and as tools.
fn kernel(registrations: &Registrations, audit: &MemoryAudit) -> Stack {
    Server::new("kernel", "1")
        .endpoints(registrations.router())
        .layer(KernelToolsLayer::new(registrations.router()))
        .layer(AuditLayer::new(Arc::new(audit.clone())))
        .offer(|offer| {
            let mgp = offer.mgp.as_mut().unwrap();
            mgp.extensions = mgp.extensions.with(Extension::Discovery);
        })
        .into_stack()
        .unwrap()
}

/// Returns a server that lets its callers register servers.
fn registrar() -> Stack {
    let (registrations, audit) = registrations(AllVisible);
    kernel(&registrations, &audit)
}

/// Sends a request as each kind of peer. MGP peers must get this error, and plain peers the error about an unknown
/// method.
async fn check_mgp_peers(expected: ExpectedError, method: &str, params: &Value) {
    let stack = registrar();
    for kind in PEERS {
        let mut peer = Peer::join(&stack, kind).await;
        let answer = peer.ask(method, params.clone()).await;
        if peer.dialect == Dialect::Mgp {
            expected.check_mgp(&answer);
        } else {
            let unknown = if peer.era == Era::Modern { -32021 } else { -32601 };
            assert_eq!(answer["error"]["code"], unknown, "{answer}");
        }
    }
}

#[tokio::test]
async fn code_4004_resource_not_found() {
    let expected = ExpectedError::new(ErrorCode::RESOURCE_NOT_FOUND)
        .message(["no server `nothing` is registered", "`mgp/discovery/list`"])
        .details(["server_id"]);
    check_mgp_peers(expected, "mgp/discovery/deregister", &json!({ "id": "nothing" })).await;
}

#[tokio::test]
async fn code_4100_discovery_unavailable() {
    let script = json!({ "id": "made", "command": "sh", "args": ["-c", "exec mcp-files"] });
    let expected = ExpectedError::new(ErrorCode::DISCOVERY_UNAVAILABLE)
        .message([
            "`made` is not registered: this kernel cannot judge the code",
            "ask an operator to register it",
        ])
        .details(["server_id", "remedy"]);
    check_mgp_peers(expected, "mgp/discovery/register", &script).await;
}

#[tokio::test]
async fn code_4101_server_already_registered() {
    let taken = json!({ "id": "files", "command": "cat" });
    let expected = ExpectedError::new(ErrorCode::SERVER_ALREADY_REGISTERED)
        .message(["there is a server `files`", "choose another id"])
        .details(["server_id", "remedy"]);
    check_mgp_peers(expected, "mgp/discovery/register", &taken).await;

    // If a registration still waits for an operator, the id of its server is also taken.
    let stack = registrar();
    let mut peer = Peer::join(&stack, PEERS[0]).await;
    let params = json!({ "id": "made", "command": "cat" });
    let result = peer.ask("mgp/discovery/register", params).await;
    assert_eq!(result["result"]["status"], "pending_approval", "{result}");
    let params = json!({ "id": "made", "command": "cat", "args": ["--other"] });
    let answer = peer.ask("mgp/discovery/register", params).await;
    ExpectedError::new(ErrorCode::SERVER_ALREADY_REGISTERED)
        .message(["it waits for an operator"])
        .details(["server_id", "remedy"])
        .check_mgp(&answer);
    let result = peer.ask("mgp/discovery/deregister", json!({ "id": "made" })).await;
    assert_eq!(result["result"]["status"], "deregistered", "{result}");
}

#[tokio::test]
async fn code_4102_cannot_deregister_config() {
    let expected = ExpectedError::new(ErrorCode::CANNOT_DEREGISTER_CONFIG)
        .message(["`files` comes from the configuration", "`mgp.toml`"])
        .details(["server_id", "remedy"]);
    check_mgp_peers(expected, "mgp/discovery/deregister", &json!({ "id": "files" })).await;
}

#[tokio::test]
async fn as_tools_the_methods_answer_the_same_in_every_spelling_and_are_recorded_once() {
    let spellings =
        ["mgp_discovery_deregister", "mgp.discovery.deregister", "mgp/discovery/deregister"];
    for spelling in spellings {
        let call = json!({ "name": spelling, "arguments": { "id": "files" } });
        for kind in PEERS {
            let mut peer = Peer::join(&registrar(), kind).await;
            let answer = peer.ask("tools/call", call.clone()).await;
            ExpectedError::new(ErrorCode::CANNOT_DEREGISTER_CONFIG)
                .message(["`files` comes from the configuration"])
                .details(["server_id", "remedy"])
                .check(&peer, &answer);
        }

        // A caller without a grant must be refused. If it calls the method as a tool, only the audit layer around the
        // call records the refusal.
        let (registrations, audit) =
            registrations(visibility(|_, _, _| Err(Hidden::new("no entry"))));
        let mut peer = Peer::join(&kernel(&registrations, &audit), PEERS[0]).await;
        let answer = peer.ask("tools/call", call).await;
        ExpectedError::new(ErrorCode::PERMISSION_DENIED)
            .message(["only operators may call `mgp/discovery/deregister`"])
            .details(["method", "remedy"])
            .check_mgp(&answer);
        let events = audit.events();
        let types: Vec<_> = events.iter().map(|event| event.event_type.as_str()).collect();
        assert_eq!(types, ["TOOL_BLOCKED", "PERMISSION_DENIED"]);
        // If a peer calls the method directly and not as a tool, the handler of the method records the refusal.
        peer.ask("mgp/discovery/deregister", json!({ "id": "files" })).await;
        assert_eq!(audit.events()[2].event_type.as_str(), "PERMISSION_DENIED");
        assert_eq!(audit.events().len(), 3);
    }
}
