//! 4004 and 4100 to 4102: servers that are registered and deregistered (MGP §15).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mgp_discovery::{Approved, Fleet, Known, Registrations, Servers};
use mgp_security::{AuditLayer, KernelToolsLayer};
use mgp_server_sdk::Server;
use mgp_types::mcp::Era;
use mgp_types::mgp::{Extension, ServerState, ServerSummary};
use mgp_types::service::{
    BoxFuture, Everyone, Hidden, MemoryAudit, ServerId, Stack, Visibility, visibility,
};
use mgp_types::store::MemoryStore;
use mgp_types::{ErrorCode, RpcError};
use serde_json::{Value, json};

use crate::heard::Heard;
use crate::peer::{PEERS, Peer, Tongue};

/// A configuration with the server `files`, and nothing that runs.
struct Configured;

impl Fleet for Configured {
    fn known(&self) -> Vec<Known> {
        let mut files = ServerSummary::new("files", ServerState::Connected);
        files.tools = vec!["read".to_owned()].into();
        vec![Known::new(files, [])]
    }
}

impl Servers for Configured {
    fn configured(&self, server: &ServerId) -> bool {
        server.as_str() == "files"
    }

    fn start(&self, _: Approved) -> BoxFuture<'static, Result<(), RpcError>> {
        Box::pin(async { Ok(()) })
    }

    fn drain(&self, _: &ServerId, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }

    fn remove(&self, _: &ServerId) -> BoxFuture<'static, Result<(), RpcError>> {
        Box::pin(async { Ok(()) })
    }
}

/// Registrations of whom somebody is let in, and where it is recorded.
fn registrations(may: impl Visibility + 'static) -> (Registrations, MemoryAudit) {
    let audit = MemoryAudit::new();
    let registrations = Registrations::builder(Arc::new(MemoryStore::new()), Arc::new(Configured))
        .may(Arc::new(may))
        .audit(Arc::new(audit.clone()))
        .build();
    (registrations, audit)
}

/// A server that answers the methods, as methods and as tools.
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

/// A server whose callers may register others.
fn registrar() -> Stack {
    let (registrations, audit) = registrations(Everyone);
    kernel(&registrations, &audit)
}

/// A program that nobody starts; a real one is larger, and this is read.
struct Program(PathBuf);

impl Program {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("mgp-errors-{}-{name}", std::process::id()));
        std::fs::write(&path, "\u{7f}ELF, as it were").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        Self(path)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Asks as each peer; plain ones do not know the method.
async fn heard_by_mgp(heard: Heard, method: &str, params: &Value) {
    let stack = registrar();
    for kind in PEERS {
        let mut peer = Peer::join(&stack, kind).await;
        let answer = peer.ask(method, params.clone()).await;
        if peer.tongue == Tongue::Mgp {
            heard.check_mgp(&answer);
        } else {
            let unknown = if peer.era == Era::Modern { -32021 } else { -32601 };
            assert_eq!(answer["error"]["code"], unknown, "{answer}");
        }
    }
}

#[tokio::test]
async fn code_4004_resource_not_found() {
    let heard = Heard::of(ErrorCode::RESOURCE_NOT_FOUND)
        .says(["no server `nothing` is registered", "`mgp/discovery/list`"])
        .details(["server_id"]);
    heard_by_mgp(heard, "mgp/discovery/deregister", &json!({ "id": "nothing" })).await;
}

#[tokio::test]
async fn code_4100_discovery_unavailable() {
    let script = json!({ "id": "made", "command": "sh", "args": ["-c", "exec mcp-files"] });
    let heard = Heard::of(ErrorCode::DISCOVERY_UNAVAILABLE)
        .says(["`made` is not registered: nothing here can judge", "have an operator register it"])
        .details(["server_id", "remedy"]);
    heard_by_mgp(heard, "mgp/discovery/register", &script).await;
}

#[tokio::test]
async fn code_4101_server_already_registered() {
    let program = Program::new("taken");
    let taken = json!({ "id": "files", "command": program.0 });
    let heard = Heard::of(ErrorCode::SERVER_ALREADY_REGISTERED)
        .says(["there is a server `files`", "choose another id"])
        .details(["server_id", "remedy"]);
    heard_by_mgp(heard, "mgp/discovery/register", &taken).await;

    // One that waits for an operator holds its id too.
    let stack = registrar();
    let mut peer = Peer::join(&stack, PEERS[0]).await;
    let params = json!({ "id": "made", "command": program.0 });
    let told = peer.ask("mgp/discovery/register", params).await;
    assert_eq!(told["result"]["status"], "pending_approval", "{told}");
    let params = json!({ "id": "made", "command": program.0, "args": ["--other"] });
    let answer = peer.ask("mgp/discovery/register", params).await;
    Heard::of(ErrorCode::SERVER_ALREADY_REGISTERED)
        .says(["it waits for an operator"])
        .details(["server_id", "remedy"])
        .check_mgp(&answer);
    let told = peer.ask("mgp/discovery/deregister", json!({ "id": "made" })).await;
    assert_eq!(told["result"]["status"], "deregistered", "{told}");
}

#[tokio::test]
async fn code_4102_cannot_deregister_config() {
    let heard = Heard::of(ErrorCode::CANNOT_DEREGISTER_CONFIG)
        .says(["`files` comes from the configuration", "`mgp.toml`"])
        .details(["server_id", "remedy"]);
    heard_by_mgp(heard, "mgp/discovery/deregister", &json!({ "id": "files" })).await;
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
            Heard::of(ErrorCode::CANNOT_DEREGISTER_CONFIG)
                .says(["`files` comes from the configuration"])
                .details(["server_id", "remedy"])
                .check(&peer, &answer);
        }

        // Whoever was not granted it hears so, and the audit of the call alone records it.
        let (registrations, audit) =
            registrations(visibility(|_, _, _| Err(Hidden::by("no entry"))));
        let mut peer = Peer::join(&kernel(&registrations, &audit), PEERS[0]).await;
        let answer = peer.ask("tools/call", call).await;
        Heard::of(ErrorCode::PERMISSION_DENIED)
            .says(["only operators may call `mgp/discovery/deregister`"])
            .details(["method", "remedy"])
            .check_mgp(&answer);
        let events = audit.events();
        let types: Vec<_> = events.iter().map(|event| event.event_type.as_str()).collect();
        assert_eq!(types, ["TOOL_BLOCKED", "PERMISSION_DENIED"]);
        // The method itself is recorded by whoever answers it.
        peer.ask("mgp/discovery/deregister", json!({ "id": "files" })).await;
        assert_eq!(audit.events()[2].event_type.as_str(), "PERMISSION_DENIED");
        assert_eq!(audit.events().len(), 3);
    }
}
