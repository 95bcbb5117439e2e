//! Tests of the notes with which a search explains to a model why it may have found nothing.

use mgp_client_sdk::ToolResult as _;
use mgp_discovery::GovernanceConfig;
use mgp_kernel::Kernel;
use mgp_server_sdk::{Server, Tool};
use mgp_types::mcp::Era;
use mgp_types::mgp::AccessGrantParams;
use mgp_types::service::{Call, Stack, around};

use super::world::{build, grant, host, host_of, open};

/// Returns the text of a search by an agent.
async fn search(kernel: &Kernel, agent: &str) -> String {
    let host = host(kernel, agent, host_of(Era::Legacy)).await;
    let found = host.call("mgp_tools_discover").arg("query", "look out").await.unwrap();
    found.to_text()
}

fn counting() -> Server {
    Server::new("small", "1").tool(Tool::new("count", "Counts", || async { "1" }))
}

/// Regression test: while servers were starting, an agent received an empty result like one that is final.
#[tokio::test(start_paused = true)]
async fn a_search_before_a_server_has_listed_its_tools_is_noted() {
    let slow =
        || Server::new("slow", "1").around(around(|_: Call, _: Stack| std::future::pending()));
    let builder = Kernel::builder()
        .local_with("slow", GovernanceConfig::default(), slow)
        .local_with("small", open(&["count"]), counting);
    let kernel = build(builder).await;
    grant(&kernel, AccessGrantParams::allow("ann", "slow").tool("look")).await;
    for (agent, sees_slow) in [("ann", true), ("bob", false)] {
        let found = search(&kernel, agent).await;
        assert_eq!(found.contains("still loading"), sees_slow, "{found}");
    }
    kernel.stop().await;
}

#[tokio::test]
async fn a_search_without_access_to_any_tool_returns_the_remedy() {
    let closed = GovernanceConfig::default();
    let kernel = build(Kernel::builder().local_with("small", closed, counting)).await;
    let found = search(&kernel, "ann").await;
    assert!(found.contains("ask an operator for access"), "{found}");
    kernel.stop().await;
}
