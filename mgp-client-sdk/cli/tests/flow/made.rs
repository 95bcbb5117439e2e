//! Test of a server that an agent registers at run time: an operator approves the server, the kernel sandboxes it, and
//! only the session of this agent has its tool.

use std::sync::atomic::Ordering;

use mgp_types::mcp::Era;
use serde_json::{Value, json};

use crate::model::{Model, Speaks, Way};
use crate::world::World;
use mgp_testkit::until;

/// The configuration of a kernel whose only server is `tool.terminal`, with automatic approval of permissions.
const ALONE: &str = r#"
[[servers]]
id = "tool.terminal"
command = "{DESK}"
args = ["terminal"]
[servers.mgp]
default_policy = "opt-out"

[kernel]
permission_policy = "auto_approve"
auto_approve_except = []
tools_request = true

[kernel.registration]
programs = ["{DESK}"]

[tool_creation]
enabled = true
"#;

async fn request(model: &mut Model) -> Value {
    let wish = json!({"requirements": {"capabilities": ["statistics on CSV data"]}});
    model.learns("mgp_tools_request", wish, "tools_loaded").await
}

#[tokio::test]
async fn a_tool_that_an_agent_adds_waits_for_an_operator_and_is_in_its_session_alone() {
    let world = World::new(ALONE);
    let mut ada = Model::new(&world, Era::Legacy, Speaks::Plain, Way::ByName).await;
    let bob = world.host("bob", Era::Legacy, mgp_client_sdk::Client::builder("host", "1")).await;
    world.knows(4).await;
    let none = request(&mut ada).await;
    assert_eq!(none["status"], "unavailable", "{none}");

    // A registration requires an access grant; the automatic approval of permissions does not replace this grant.
    let asks = json!({
        "id": "made", "command": mgp_testkit::program("desk"), "args": ["data"], "justification": "statistics",
        "mgp": {"trust_level": "trusted"},
    });
    let refused = ada.host.call("mgp_discovery_register").args(&asks).await.unwrap();
    assert!(serde_json::to_string(&refused).unwrap().contains("1000"), "{refused:?}");
    world.quietly(&["access", "grant", "ada", "mgp", "mgp.discovery.register"]);
    let reply = ada.host.call("mgp_discovery_register").args(&asks).await.unwrap();
    let reply: Value = reply.structured_content.unwrap().get().unwrap();
    assert_eq!(reply["status"], "pending_approval", "{reply}");
    assert_eq!(request(&mut ada).await["status"], "creating", "not before it is approved");
    assert_eq!(world.json(&["tools", "ls"]).as_array().unwrap().len(), 4);

    let waiting = world.json(&["approvals", "ls"]);
    let id = reply["approval_id"].as_str().unwrap();
    assert!(waiting.to_string().contains(id), "{waiting}");
    world.quietly(&["approvals", "approve", id]);
    world.knows(5).await;
    let servers = world.json(&["servers", "ls", "made"]);
    assert_eq!(servers[0]["trust_level"], "sandboxed", "{servers}");

    // Even after the approval of the server, the agent still needs an access grant for it.
    assert_eq!(request(&mut ada).await["status"], "creating");
    let before = ada.changes.load(Ordering::Relaxed);
    world.quietly(&["access", "grant", "ada", "made", "analyze_csv", "--no-confirm"]);
    let reply = |ada: &Model| ada.changes.load(Ordering::Relaxed) > before;
    until("the list has changed", async || reply(&ada)).await;
    let given = request(&mut ada).await;
    assert_eq!(given["status"], "fulfilled", "{given}");
    assert_eq!(given["tools_loaded"][0]["server_id"], "made");
    assert!(ada.look().await.contains(&"analyze_csv".to_owned()));
    let figures = ada.calls("analyze_csv", json!({"csv": "a\n1\n3\n"})).await;
    assert!(figures.contains("2.0"), "{figures}");
    let session = ada.host.call("mgp_tools_session").await.unwrap();
    let session: Value = session.structured_content.unwrap().get().unwrap();
    assert!(session["cached"].as_array().unwrap().contains(&json!("analyze_csv")), "{session}");

    // Other agents neither list nor find the tool.
    let names: Vec<_> = bob.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert!(!names.contains(&"analyze_csv".to_owned()), "{names:?}");
    let found =
        bob.call("mgp_tools_discover").arg("query", "statistics on CSV data").await.unwrap();
    assert!(!serde_json::to_string(&found).unwrap().contains("analyze_csv"));

    // The tool is removed together with its server.
    world.quietly(&["access", "grant", "ada", "mgp", "mgp.discovery.deregister"]);
    ada.host.call("mgp_discovery_deregister").arg("id", "made").await.unwrap();
    until("the server is removed", async || !ada.look().await.contains(&"analyze_csv".to_owned()))
        .await;
    assert_eq!(request(&mut ada).await["status"], "creating");
    ada.host.close().await;
    bob.close().await;
}

#[tokio::test]
async fn a_registration_is_listed_without_a_kernel_but_not_decided() {
    let world = World::new(ALONE);
    let builder = mgp_client_sdk::Client::builder("host", "1");
    let ada = world.host("ada", Era::Legacy, builder).await;
    world.quietly(&["access", "grant", "ada", "mgp", "mgp.discovery.register"]);
    let asks = json!({
        "id": "made", "command": mgp_testkit::program("desk"), "args": ["data"], "justification": "statistics",
    });
    let reply = ada.call("mgp_discovery_register").args(&asks).await.unwrap();
    let reply: Value = reply.structured_content.unwrap().get().unwrap();
    let id = reply["approval_id"].as_str().unwrap();
    ada.close().await;
    // The kernel may have ended already, because its last host has left, so this command may fail.
    world.command(&["stop"]).output().unwrap();

    let listed = world.json(&["approvals", "ls"]);
    assert_eq!((&listed[0]["id"], &listed[0]["server_id"]), (&json!(id), &json!("made")));
    assert_eq!(world.json(&["approvals", "show", id])["kind"], "registration");
    for answer in ["approve", "deny"] {
        let output = world.command(&["approvals", answer, id]).output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{answer}: {error}");
        assert!(error.contains("`mgp approvals watch` starts a kernel"), "{answer}: {error}");
    }
    assert_eq!(world.json(&["approvals", "ls"]), listed);
}
