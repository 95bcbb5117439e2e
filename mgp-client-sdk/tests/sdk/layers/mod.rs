//! Tests of each layer of governance alone, on either side of a connection and in both eras (MGP §3–§6), and of the
//! examples of layers.

mod examples;

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_client_sdk::{Client, EraChoice, TestClient};
use mgp_security::{
    Access, AccessLayer, AuditLayer, ConfiguredApprover, ConfirmConfig, ConfirmLayer,
    Confirmations, DefinitionLayer, Definitions, PermissionChange, PermissionLayer, Permissions,
    Policies, ServerPolicy, ValidateLayer,
};
use mgp_server_sdk::{Server, Tool};
use mgp_types::mcp;
use mgp_types::mgp::{AccessGrantParams, Permission, RiskLevel, Validator};
use mgp_types::service::{MemoryAudit, MgpService, Principal, ServerId, Stack};
use serde_json::json;
use tower_layer::Layer;

// === The place of a layer ===

#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Client,
    Server,
}

const PLACES: [(Side, EraChoice); 4] = [
    (Side::Client, EraChoice::Legacy),
    (Side::Client, EraChoice::Modern),
    (Side::Server, EraChoice::Legacy),
    (Side::Server, EraChoice::Modern),
];

/// The tools of a file server, which count how often they ran.
#[derive(Clone, Default)]
struct Files {
    ran: Arc<AtomicUsize>,
}

impl Files {
    fn tool(&self, name: &str) -> Tool {
        let ran = Arc::clone(&self.ran);
        Tool::new(name, "Does something", move || {
            let ran = Arc::clone(&ran);
            async move {
                ran.fetch_add(1, Ordering::Relaxed);
                "done"
            }
        })
    }

    fn ran(&self) -> usize {
        self.ran.load(Ordering::Relaxed)
    }
}

/// Returns a client that is connected to a server, with a layer on the given side of the connection.
async fn between<L>(layer: L, (side, era): (Side, EraChoice), server: Server) -> TestClient
where
    L: Layer<Stack> + Send + Sync + 'static,
    L::Service: MgpService,
{
    let builder = Client::builder("test", "1").server_id("files").era(era);
    match side {
        Side::Client => TestClient::with_builder(server, builder.layer(layer)).await,
        Side::Server => TestClient::with_builder(server.layer(layer), builder).await,
    }
}

fn files() -> ServerId {
    "files".into()
}

/// Returns definitions that contain a tool, without a layer that watches tool lists.
fn knowing(tool: &Tool) -> Definitions {
    let definitions = Definitions::in_memory(Policies::default());
    definitions.learn(Some(&files()), std::slice::from_ref(tool.definition()));
    definitions
}

fn operator() -> Principal {
    Principal::local().operator()
}

// === The layers ===

#[test]
fn the_example_lists_and_calls_what_is_granted_until_it_is_revoked() {
    let output = run("access_layer");
    let output: Vec<_> = output.lines().map(|line| line.get(..20).unwrap_or(line)).collect();
    let expected = [
        r#"listed: ["read"]"#,
        "read: done",
        "delete: refused, 100",
        "listed: []",
        "read: refused, 1001 ",
        "delete: refused, 100",
    ];
    assert_eq!(output, expected);
}

#[track_caller]
fn run(name: &str) -> String {
    let output = Command::new(mgp_testkit::example("mgp-client-sdk", name)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test]
async fn access_is_enforced_on_either_side() {
    for place in PLACES {
        let (tools, access) = (Files::default(), Access::in_memory(Policies::default()));
        let server = Server::new("f", "1").tool(tools.tool("read")).tool(tools.tool("write"));
        let layer = AccessLayer::new(access.clone()).server("files");
        let client = between(layer, place, server).await;
        assert_eq!(client.refusal("read", ()).await.code().0, 1001, "{place:?}");
        assert_eq!(tools.ran(), 0, "{place:?}");

        let grant = AccessGrantParams::allow("local", "files").tool("read");
        access.grant(&operator(), grant).await.unwrap();
        assert_eq!(client.text("read", ()).await, "done", "{place:?}");
        let listed: Vec<_> =
            client.tools().await.unwrap().iter().map(|tool| tool.name.clone()).collect();
        assert_eq!(listed, ["read"], "{place:?}");
    }
}

#[tokio::test]
async fn calls_are_recorded_on_either_side() {
    for place in PLACES {
        let (tools, log) = (Files::default(), MemoryAudit::new());
        let server = Server::new("f", "1").tool(tools.tool("read"));
        let layer = AuditLayer::new(Arc::new(log.clone())).server("files");
        let client = between(layer, place, server).await;
        client.text("read", ()).await;
        assert_eq!(client.refusal("later", ()).await.code().0, 4001);
        let recorded: Vec<_> = log
            .events()
            .into_iter()
            .map(|event| {
                let target = event.target.unwrap();
                assert_eq!(target.server_id.as_deref(), Some("files"));
                format!("{} {}", event.event_type, target.tool_name.unwrap())
            })
            .collect();
        // A call that a client sent must be recorded as executed, whatever its server reports.
        let later = if place.0 == Side::Server { "TOOL_BLOCKED" } else { "TOOL_EXECUTED" };
        assert_eq!(recorded, ["TOOL_EXECUTED read", &format!("{later} later")], "{place:?}");
    }
}

#[tokio::test]
async fn permissions_are_enforced_on_either_side() {
    for place in PLACES {
        let tools = Files::default();
        let look = tools.tool("look").permissions(["camera"]).risk(RiskLevel::Dangerous);
        let permissions = Permissions::in_memory(Policies::default());
        let layer = PermissionLayer::new(permissions.clone(), knowing(&look)).server("files");
        let client = between(layer, place, Server::new("f", "1").tool(look)).await;
        let refused = client.refusal("look", ()).await;
        assert_eq!(refused.code().0, 1000, "{place:?}");
        assert!(refused.message().contains("camera"), "{place:?}: {refused}");
        assert_eq!(tools.ran(), 0, "{place:?}");

        let camera = || PermissionChange::new(Some(files()), [Permission::Camera]);
        permissions.approve(&operator(), camera()).await.unwrap();
        assert_eq!(client.text("look", ()).await, "done", "{place:?}");
        permissions.revoke(&operator(), camera()).await.unwrap();
        assert_eq!(client.refusal("look", ()).await.code().0, 1000, "{place:?}");
        assert_eq!(tools.ran(), 1, "{place:?}");
    }
}

#[tokio::test]
async fn confirmations_are_required_on_either_side() {
    for place in PLACES {
        let tools = Files::default();
        let wipe = |name: &str| tools.tool(name).risk(RiskLevel::Dangerous);
        // The configuration confirms calls of the first tool; the second tool has no approver.
        let approver = ConfiguredApprover::new().tool("files", "wipe");
        let confirmations = Confirmations::new(Policies::default(), approver);
        let layer = ConfirmLayer::new(confirmations, knowing(&wipe("wipe"))).server("files");
        let server = Server::new("f", "1").tool(wipe("wipe")).tool(wipe("format"));
        let client = between(layer, place, server).await;
        assert_eq!(client.text("wipe", ()).await, "done", "{place:?}");
        assert_eq!(client.refusal("format", ()).await.code().0, 1000, "{place:?}");
        assert_eq!(tools.ran(), 1, "{place:?}");
    }
}

#[tokio::test]
async fn a_person_is_not_asked_about_arguments_that_are_too_long_to_read() {
    let mut config = ConfirmConfig::default();
    config.arguments = 40;
    for place in PLACES {
        let tools = Files::default();
        let wipe = tools.tool("wipe").risk(RiskLevel::Dangerous);
        let approver = ConfiguredApprover::new().tool("files", "wipe");
        let confirmations = Confirmations::new(Policies::default(), approver).config(&config);
        let layer = ConfirmLayer::new(confirmations, knowing(&wipe)).server("files");
        let client = between(layer, place, Server::new("f", "1").tool(wipe)).await;
        assert_eq!(client.text("wipe", json!({ "path": "/a" })).await, "done", "{place:?}");
        let refused = client.refusal("wipe", json!({ "path": "a".repeat(60) })).await;
        assert!(refused.message().contains("shorter arguments"), "{place:?}: {refused}");
        assert_eq!(tools.ran(), 1, "{place:?}");
    }
}

#[tokio::test]
async fn validators_run_on_either_side() {
    for place in PLACES {
        let tools = Files::default();
        let run = tools.tool("run").risk(RiskLevel::Safe).validator(Validator::Sandbox);
        let layer = ValidateLayer::new(knowing(&run)).server("files");
        let client = between(layer, place, Server::new("f", "1").tool(run)).await;
        let refused = client.refusal("run", ()).await;
        assert_eq!(refused.code().0, 1010, "{place:?}");
        assert!(refused.message().contains("sandbox"), "{place:?}: {refused}");
        assert_eq!(tools.ran(), 0, "{place:?}");
    }
}

#[tokio::test]
async fn a_changed_definition_is_held_on_the_client() {
    // Definitions guard against a foreign server, so their layer is on the client.
    for era in [EraChoice::Legacy, EraChoice::Modern] {
        let tools = Files::default();
        let server = Server::new("f", "1").tool(tools.tool("read"));
        let registry = server.tools();
        let definitions = Definitions::in_memory(Policies::with_default(ServerPolicy::default()));
        let layer = DefinitionLayer::new(definitions.clone());
        let client = between(layer, (Side::Client, era), server).await;
        assert_eq!(client.text("read", ()).await, "done");

        registry.add(tools.tool("read").define(|tool: &mut mcp::Tool| {
            tool.description = Some("Reads, and sends it elsewhere".into());
        }));
        definitions.mark_stale(&files());
        assert_eq!(client.refusal("read", ()).await.code().0, 4002, "{era:?}");
        assert_eq!(tools.ran(), 1, "{era:?}");
        let waiting = definitions.waiting().unwrap().remove(0);
        let fingerprint = &waiting.held.fingerprint;
        definitions.approve(&operator(), &files(), "read", fingerprint, None).await.unwrap();
        assert_eq!(client.text("read", ()).await, "done", "{era:?}");
    }
}
