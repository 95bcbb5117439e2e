//! Tests that a server with access control notifies its clients when their access changes (MGP §5), and asks no person
//! about calls that cannot run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_security::{
    Access, AccessLayer, Approver, Decision, Governance, Policies, Question, ServerPolicy,
};
use mgp_server_sdk::prelude::*;
use mgp_testkit::{hello, modern_meta};
use mgp_types::mgp::{AccessGrantParams, AccessRevokeParams, DefaultPolicy, GrantDecision};
use mgp_types::service::{Call, MemoryAudit, Principal, Reply, Stack, around, gate};
use serde_json::{Value, json};
use tower_layer::Layer;

fn names(list: &Value) -> Vec<&str> {
    let tools = list["result"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_revoked_tool_is_gone_from_the_next_list_and_call() {
    let access = Access::in_memory(Policies::default());
    let operator = Principal::local().operator();
    for tool in ["read", "write"] {
        let grant = AccessGrantParams::allow("local", "files").tool(tool);
        access.grant(&operator, grant).await.unwrap();
    }
    let tool = |name: &str| Tool::new(name, "A tool", || async { "done" });
    let server = Server::new("files", "1")
        .tool(tool("read"))
        .tool(tool("write"))
        .tool(tool("erase"))
        .layer(AccessLayer::new(access.clone()).server("files"));
    let tools = server.tools();
    access.on_change(move || tools.notify_changed());

    let mut client = super::raw::connect(server);
    client.ask("initialize", hello("2025-11-25", &json!({}))).await;
    client.notify("notifications/initialized", json!({})).await;
    assert_eq!(names(&client.ask("tools/list", json!({})).await), ["read", "write"]);
    let write = json!({ "name": "write" });
    let done = client.ask("tools/call", write.clone()).await;
    assert_eq!(done["result"]["isError"], false, "{done}");

    let revoke = AccessRevokeParams::server_grant("local", "files").tool("write");
    access.revoke(&operator, revoke).await.unwrap();
    assert_eq!(client.receive().await["method"], "notifications/tools/list_changed");
    assert_eq!(names(&client.ask("tools/list", json!({})).await), ["read"]);
    let modern_params = json!({ "_meta": modern_meta(&json!({})) });
    assert_eq!(
        names(&client.ask("tools/list", modern_params).await),
        ["read"],
        "in the modern era too"
    );
    let refused = client.ask("tools/call", write).await;
    let reason = &refused["result"]["structuredContent"];
    assert_eq!((&reason["code"], &reason["details"]["tool"]), (&json!(1001), &json!("write")));
}

#[tokio::test]
async fn the_error_for_an_unknown_tool_names_no_tool_that_the_caller_might_not_see() {
    let server = || Server::new("files", "1").tool(Tool::new("write", "Writes", || async { "" }));
    let disabled = server();
    assert!(disabled.tools().disable("write"));
    for (server, hint) in [
        (server(), "did you mean `write`?"),
        (disabled, "use a name from `tools/list`"),
        (server().hide_denied_tools(), "use a name from `tools/list`"),
        (server().layer(gate(|_| Ok(()))), "use a name from `tools/list`"),
        (server().around(gate(|_| Ok(()))), "use a name from `tools/list`"),
    ] {
        let mut client = super::raw::connect(server);
        client.ask("initialize", hello("2025-11-25", &json!({}))).await;
        let refused = client.ask("tools/call", json!({ "name": "wrote" })).await;
        assert!(refused["error"]["message"].as_str().unwrap().ends_with(hint), "{refused}");
    }
}

#[tokio::test]
async fn a_server_with_a_principal_serves_its_peer_as_that_principal() {
    let whoami = |principal: Principal| async move { principal.name().to_owned() };
    let server = Server::new("names", "1").tool(Tool::new("whoami", "The caller", whoami));
    let mut client = super::raw::connect(server.principal(Principal::local().agent("editor")));
    client.ask("initialize", hello("2025-11-25", &json!({}))).await;
    let answer = client.ask("tools/call", json!({ "name": "whoami" })).await;
    assert_eq!(answer["result"]["content"][0]["text"], "editor", "{answer}");
}

/// An approver that approves each call, and counts the questions.
struct CountingApprover(Arc<AtomicUsize>);

#[async_trait::async_trait]
impl Approver for CountingApprover {
    async fn decide(&self, _: &Context, _: Question) -> Result<Decision, RpcError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Decision::new(GrantDecision::Approved, "ann"))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Number {
    #[expect(dead_code, reason = "it is only asked for")]
    n: i64,
}

#[tokio::test]
async fn a_governed_server_asks_no_person_about_a_call_that_cannot_run() {
    let (asked, log) = (Arc::new(AtomicUsize::new(0)), MemoryAudit::new());
    let policy = ServerPolicy::default().default_policy(DefaultPolicy::OptOut);
    let governance = Governance::builder()
        .policies(Policies::with_default(policy))
        .approver(CountingApprover(Arc::clone(&asked)))
        .audit(Arc::new(log.clone()))
        .build();
    let tool = |name: &str| Tool::new(name, "A tool", |Args(_): Args<Number>| async { "done" });
    let server = Server::new("disk", "1")
        .tool(tool("wipe"))
        .tool(tool("disabled"))
        .tool(tool("hidden").visible_to(|_| false))
        .check_arguments()
        .governed(&governance, "disk");
    assert!(server.tools().disable("disabled"));
    let mgp = r#"{"mgp":{"version":"0.3.0","extensions":["streaming"]}}"#;
    let (mut client, _) = super::raw::connect_mock(server, mgp).await;
    for (call, code) in [
        (r#"{"name":"absent"}"#, ErrorCode::TOOL_NOT_FOUND),
        (r#"{"name":"disabled"}"#, ErrorCode::TOOL_DISABLED),
        (r#"{"name":"hidden"}"#, ErrorCode::TOOL_NOT_FOUND),
        (r#"{"name":"wipe","arguments":{"n":"one"}}"#, ErrorCode::INVALID_TOOL_ARGS),
    ] {
        let refused = client.request("tools/call", call).await.unwrap_err();
        let recorded = log.events().pop().unwrap().event_type.to_string();
        assert_eq!((refused.code(), &*recorded), (code, "TOOL_BLOCKED"), "{call}");
    }
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    client.request("tools/call", r#"{"name":"wipe","arguments":{"n":1}}"#).await.unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// Returns a server with a layer that sends calls of the tool `other` to the server `below`.
fn forwarding(below: Stack) -> Server {
    let layer = around(move |mut call: Call, next: Stack| {
        let is_other = call.tool().is_some_and(|tool| tool.name == "other");
        let to = if is_other { below.clone() } else { next };
        if is_other {
            call.cx_mut().server = Some("below".into());
        }
        async move { to.send(call).await }
    });
    Server::new("disk", "1").tool(Tool::new("wipe", "Wipes", || async { "" })).layer(layer)
}

#[tokio::test]
async fn a_person_is_asked_about_a_tool_that_a_layer_forwards_to_another_server() {
    let asked = Arc::new(AtomicUsize::new(0));
    let policy = ServerPolicy::default().default_policy(DefaultPolicy::OptOut);
    let governance = Governance::builder()
        .policies(Policies::with_default(policy))
        .approver(CountingApprover(Arc::clone(&asked)))
        .build();
    let below = Stack::from_fn(|_| async { Reply::of(&CallToolResult::text("done")) });
    let governed_below = Stack::new(governance.own("below").layer(below.clone()));
    let servers = [forwarding(below).governed(&governance, "disk"), forwarding(governed_below)];
    for (earlier, server) in servers.into_iter().enumerate() {
        let mgp = r#"{"mgp":{"version":"0.3.0","extensions":["streaming"]}}"#;
        let (mut client, _) = super::raw::connect_mock(server, mgp).await;
        client.request("tools/call", r#"{"name":"other"}"#).await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), earlier + 1);
    }
}
