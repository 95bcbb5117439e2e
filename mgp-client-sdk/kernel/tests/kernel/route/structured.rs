//! Tests of structured content that is not an object, which only the modern era has, and of that of refusals.

use mgp_client_sdk::ToolResult as _;
use mgp_discovery::GovernanceConfig;
use mgp_server_sdk::prelude::*;
use mgp_types::mcp::Era;
use mgp_types::{Payload, RawObject};
use serde_json::json;

use super::world::{PAIRS, host, host_of, kernel_with, limit_era, open, until};

/// Returns a server with the tool `names`, whose result is also text, and the tools `bare` and `free`, whose results
/// are not; `free` declares no schema.
fn lists() -> Server {
    async fn numbers() -> CallToolResult {
        let mut result = CallToolResult::new(Vec::new());
        result.structured_content = Some(Payload::from_trusted("[1,2]"));
        result
    }
    let names = Tool::new("names", "Lists names", || async { Json(vec!["Ann", "Bob"]) });
    let bare = Tool::new("bare", "Lists numbers", numbers);
    let schema = RawObject::of(&json!({ "type": "array" })).unwrap();
    let server = Server::new("a", "1").tool(names).tool(bare.output_schema(schema));
    server.tool(Tool::new("free", "Lists numbers too", numbers))
}

#[tokio::test]
async fn structured_content_that_is_no_object_is_text_for_legacy_hosts_and_kept_for_modern_ones() {
    for (above, below) in PAIRS {
        let create = move || limit_era(lists(), below);
        let kernel = kernel_with("a", open(&["names", "bare", "free"]), 3, create).await;
        let host = host(&kernel, "ann", host_of(above).without_mgp()).await;
        let is_kept = (above, below) == (Era::Modern, Era::Modern);
        let lists_all = async || host.tools().await.unwrap().iter().any(|tool| tool.name == "free");
        until("the tools are listed", lists_all).await;
        let tools = host.tools().await.unwrap();
        for name in ["names", "bare"] {
            let tool = tools.iter().find(|tool| tool.name == name).unwrap();
            assert_eq!(tool.output_schema.is_some(), is_kept, "{above:?} {below:?} {name}");
        }
        let names = host.call("names").await.unwrap();
        assert_eq!(names.to_text(), r#"["Ann","Bob"]"#, "{above:?} {below:?}");
        assert_eq!(names.structured_content.is_some(), is_kept, "{above:?} {below:?}");
        // A legacy server lists such a tool without its schema.
        if below == Era::Modern {
            for name in ["bare", "free"] {
                let numbers = host.call(name).await.unwrap();
                let text = if is_kept { "" } else { "[1,2]" };
                assert_eq!(numbers.to_text(), text, "{above:?} {name}");
                assert_eq!(numbers.structured_content.is_some(), is_kept, "{above:?} {name}");
            }
        }
    }
}

#[tokio::test]
async fn the_refusal_of_a_tool_with_an_output_schema_has_no_other_content_for_plain_hosts() {
    for era in [Era::Legacy, Era::Modern] {
        let create = || limit_era(lists(), Era::Modern);
        let kernel = kernel_with("a", GovernanceConfig::default(), 3, create).await;
        let host = host(&kernel, "ann", host_of(era).without_mgp()).await;
        // Some clients compare also the content of a failed result with the schema.
        for (tool, has_content) in [("names", false), ("a.bare", false), ("free", true)] {
            let refused = host.call(tool).await.unwrap();
            assert_eq!(refused.is_error, Some(true), "{era:?} {tool}");
            assert!(refused.to_text().contains("has no access"), "{era:?} {tool}: {refused:?}");
            assert_eq!(refused.structured_content.is_some(), has_content, "{era:?} {tool}");
        }
    }
}
