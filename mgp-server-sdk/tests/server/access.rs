//! Tests that a server with access control notifies its clients when their access changes (MGP §5).

use mgp_security::{Access, AccessLayer, Policies};
use mgp_server_sdk::prelude::*;
use mgp_testkit::{hello, modern_meta};
use mgp_types::mgp::{AccessGrantParams, AccessRevokeParams};
use mgp_types::service::{Principal, gate};
use serde_json::{Value, json};

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
