//! What holds for a tool that comes in at run time because an agent lacked it (C38): an operator approves it, its server
//! is sandboxed, and it is in the session of whoever asked, and in nobody else's.

use std::sync::atomic::Ordering;

use mgp_types::mcp::Era;
use serde_json::{Value, json};

use crate::model::{Model, Speaks, Way};
use crate::world::{World, program, until};

/// The terminal alone; whatever can be approved without a person is.
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

[tool_creation]
enabled = true
"#;

async fn request(model: &mut Model) -> Value {
    let wish = json!({"requirements": {"capabilities": ["statistics on CSV data"]}});
    model.learns("mgp_tools_request", wish, "tools_loaded").await
}

#[tokio::test]
async fn a_tool_that_an_agent_brings_in_waits_for_an_operator_and_is_in_its_session_alone() {
    let world = World::new(ALONE);
    let mut ada = Model::new(&world, Era::Legacy, Speaks::Plain, Way::ByName).await;
    let bob = world.host("bob", Era::Legacy, mgp_client_sdk::Client::builder("host", "1")).await;
    world.knows(4).await;
    let none = request(&mut ada).await;
    assert_eq!(none["status"], "unavailable", "{none}");

    // Nothing is taken from whoever was not granted it; a policy that approves permissions does not stand in for that.
    let asks = json!({
        "id": "made", "command": program("desk"), "args": ["data"], "justification": "statistics",
        "mgp": {"trust_level": "trusted"},
    });
    let refused = ada.host.call("mgp_discovery_register").args(&asks).await.unwrap();
    assert!(serde_json::to_string(&refused).unwrap().contains("1000"), "{refused:?}");
    world.quietly(&["access", "grant", "ada", "mgp", "mgp.discovery.register"]);
    let told = ada.host.call("mgp_discovery_register").args(&asks).await.unwrap();
    let told: Value = told.structured_content.unwrap().get().unwrap();
    assert_eq!(told["status"], "pending_approval", "{told}");
    assert_eq!(request(&mut ada).await["status"], "unavailable", "not before it is approved");
    assert_eq!(world.json(&["tools", "ls"]).as_array().unwrap().len(), 4);

    let waiting = world.json(&["approvals", "ls"]);
    let id = told["approval_id"].as_str().unwrap();
    assert!(waiting.to_string().contains(id), "{waiting}");
    world.quietly(&["approvals", "approve", id]);
    world.knows(5).await;
    let servers = world.json(&["servers", "ls", "made"]);
    assert_eq!(servers[0]["trust_level"], "sandboxed", "{servers}");

    // Approved is not granted: whom it is for is for an operator to say too.
    assert_eq!(request(&mut ada).await["status"], "unavailable");
    let before = ada.changes.load(Ordering::Relaxed);
    world.quietly(&["access", "grant", "ada", "made", "analyze_csv", "--no-confirm"]);
    let told = |ada: &Model| ada.changes.load(Ordering::Relaxed) > before;
    until("the list has changed", async || told(&ada)).await;
    let given = request(&mut ada).await;
    assert_eq!(given["status"], "fulfilled", "{given}");
    assert_eq!(given["tools_loaded"][0]["server_id"], "made");
    assert!(ada.look().await.contains(&"analyze_csv".to_owned()));
    let figures = ada.calls("analyze_csv", json!({"csv": "a\n1\n3\n"})).await;
    assert!(figures.contains("2.0"), "{figures}");
    let session = ada.host.call("mgp_tools_session").await.unwrap();
    let session: Value = session.structured_content.unwrap().get().unwrap();
    assert!(session["cached"].as_array().unwrap().contains(&json!("analyze_csv")), "{session}");

    // Nobody else has it.
    let names: Vec<_> = bob.list_tools().await.unwrap().into_iter().map(|tool| tool.name).collect();
    assert!(!names.contains(&"analyze_csv".to_owned()), "{names:?}");
    let found =
        bob.call("mgp_tools_discover").arg("query", "statistics on CSV data").await.unwrap();
    assert!(!serde_json::to_string(&found).unwrap().contains("analyze_csv"));

    // It goes with its server, for whoever has it.
    world.quietly(&["access", "grant", "ada", "mgp", "mgp.discovery.deregister"]);
    ada.host.call("mgp_discovery_deregister").arg("id", "made").await.unwrap();
    until("it is gone", async || !ada.look().await.contains(&"analyze_csv".to_owned())).await;
    assert_eq!(request(&mut ada).await["status"], "unavailable");
    ada.host.close().await;
    bob.close().await;
}
