//! Tests of the conditions under which the kernel lists `mgp_tools_request`: with `tools_request` in `[kernel]`, or if
//! the host negotiated `tool_discovery`.

use mgp_client_sdk::Client;
use mgp_toolindex::TokenCounter;
use mgp_types::mcp::Era;
use mgp_types::mgp::{Extension, ExtensionSet};

use crate::model::SEARCH;
use crate::world::{DESK, ERAS, World};
use mgp_testkit::until;

const ALL: &str = "[kernel]\ntools_request = true\n";

async fn listed(client: &Client) -> Vec<String> {
    let tools = client.list_tools().await.unwrap();
    tools.into_iter().map(|tool| tool.name).collect()
}

#[tokio::test]
async fn it_is_listed_by_configuration_and_to_hosts_that_negotiated_tool_discovery() {
    let world = World::new(&format!("{DESK}{SEARCH}"));
    let two = ["mgp_tools_discover", "mgp_tools_call"];
    let three = ["mgp_tools_discover", "mgp_tools_call", "mgp_tools_request"];
    let mut plain = Vec::new();
    for era in ERAS {
        let others = ExtensionSet::EMPTY.with(Extension::ToolSecurity).with(Extension::Discovery);
        let builder = || Client::builder("host", "1");
        let host = world.host("ada", era, builder().without_mgp()).await;
        assert_eq!(listed(&host).await, two, "{era:?}");
        plain.push(host);
        let host = world.host("ada", era, builder().mgp(others)).await;
        assert_eq!(listed(&host).await, two, "{era:?}");
        host.close().await;
        let asks = others.with(Extension::ToolDiscovery);
        let host = world.host("ada", era, builder().mgp(asks)).await;
        assert_eq!(listed(&host).await, three, "{era:?}");
        host.close().await;
    }

    // A changed configuration applies to hosts that are already connected.
    world.configure(&format!("{DESK}{ALL}"));
    for host in &plain {
        until("all are listed", async || listed(host).await == three).await;
    }
    let tools = plain[0].list_tools().await.unwrap();
    let text = serde_json::to_string(&tools).unwrap();
    assert!(TokenCounter::new().count(&text) <= 450, "{text}");
    world.configure(&format!("{DESK}{SEARCH}"));
    for host in &plain {
        until("two are listed", async || listed(host).await == two).await;
    }
    for host in plain {
        host.close().await;
    }
}

#[tokio::test]
async fn a_call_is_answered_even_if_the_tool_is_not_listed() {
    let world = World::new(DESK);
    let host = world.host("ada", Era::Legacy, Client::builder("host", "1").without_mgp()).await;
    world.knows(5).await;
    for name in ["mgp_tools_request", "mgp.tools.request", "mgp/tools/request"] {
        let wish = serde_json::json!({"requirements": {"capabilities": ["read a file"]}});
        let answer = host.call(name).args(wish).await.unwrap();
        let answer = serde_json::to_string(&answer).unwrap();
        assert!(answer.contains("fulfilled") && answer.contains("read_file"), "{answer}");
    }
    host.close().await;
}
