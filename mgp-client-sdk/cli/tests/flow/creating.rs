//! Tests of `mgp_tools_request` for tools that no server has (MGP §16.6), and for tools that need a permission.

use mgp_client_sdk::Client;
use mgp_types::mcp::Era;
use serde_json::{Value, json};

use crate::world::{DESK, ERAS, World};
use mgp_testkit::until;

async fn request(client: &Client, capability: &str) -> Value {
    let wish = json!({"requirements": {"capabilities": [capability]}});
    let answer = client.call("mgp_tools_request").args(wish).await.unwrap();
    answer.structured_content.unwrap().get().unwrap()
}

/// A capability that no server has.
const MISSING: &str = "brew espresso with the coffee machine";

#[tokio::test]
async fn no_tool_is_created_and_the_answer_has_the_reason() {
    let world = World::new(DESK);
    for era in ERAS {
        let host = world.host("ada", era, Client::builder("host", "1")).await;
        world.knows(5).await;
        let off = request(&host, MISSING).await;
        assert_eq!((&off["status"], &off["tools_loaded"]), (&json!("unavailable"), &json!([])));
        assert_eq!(off["notes"][0], "no tool is made for it: `tool_creation` is not enabled");

        world.configure(&format!("{DESK}[tool_creation]\nenabled = true\n"));
        let mut on = Value::Null;
        until("it is enabled", async || {
            on = request(&host, MISSING).await;
            !on["notes"][0].as_str().unwrap().contains("not enabled")
        })
        .await;
        // Even with this setting in the configuration, the agent also needs a grant to register servers.
        assert_eq!(on["status"], "unavailable");
        let why = on["notes"][0].as_str().unwrap();
        assert!(why.contains("callers an operator granted it to"), "{why}");

        world.configure(DESK);
        until("it is not enabled", async || {
            request(&host, MISSING).await["notes"][0].as_str().unwrap().contains("not enabled")
        })
        .await;
        host.close().await;
    }
}

#[tokio::test]
async fn automatic_approval_of_permissions_creates_no_tool() {
    let config = format!(
        "{DESK}[kernel]\npermission_policy = 'auto_approve'\nauto_approve_except = []\n\
         [tool_creation]\nenabled = true\n"
    );
    let world = World::new(&config);
    let host = world.host("ada", Era::Legacy, Client::builder("host", "1")).await;
    world.knows(5).await;
    let answer = request(&host, MISSING).await;
    assert_eq!(answer["status"], "unavailable");
    assert!(answer["notes"][0].as_str().unwrap().contains("an operator granted"), "{answer}");
    host.close().await;
}

#[tokio::test]
async fn a_tool_with_an_open_permission_is_pending_and_a_denied_one_is_not_loaded() {
    let waits = DESK.replace(r#"permissions = ["filesystem.read", "filesystem.write"]"#, "");
    let world = World::new(&waits);
    let host = world.host("ada", Era::Legacy, Client::builder("host", "1")).await;
    world.knows(5).await;
    let answer = request(&host, "read the contents of a file").await;
    assert_eq!(answer["status"], "pending_approval", "{answer}");
    let unmet = &answer["tools_unavailable"][0];
    assert_eq!(unmet["name"], "read_file");
    let why = unmet["reason"].as_str().unwrap();
    assert!(why.contains("filesystem.read") && !why.contains("mgp permissions"), "{why}");

    world.quietly(&["permissions", "approve", "tool.terminal", "filesystem.read"]);
    assert_eq!(request(&host, "read the contents of a file").await["status"], "fulfilled");

    world.quietly(&["permissions", "deny", "tool.terminal", "filesystem.read"]);
    let answer = request(&host, "read the contents of a file").await;
    let loaded = answer["tools_loaded"].as_array().unwrap();
    assert!(loaded.iter().all(|tool| tool["name"] != "read_file"), "{answer}");
    host.close().await;
}
