//! Tests that the kernel recommends servers of a registry for needs that no connected server meets (extension
//! `server_recommendations`).

use std::path::Path;

use mgp_client_sdk::{Client, ToolResult};
use mgp_kernel::Kernel;
use mgp_testkit::temp_dir;
use mgp_types::mcp::Era;
use mgp_types::mgp::{
    Extension, RequestStatus, RequestToolsParams, RequestToolsResult, ToolRequirements,
};
use mgp_types::proposal::{MatchConfidence, RecommendServersResult, ServerRecommendation};
use mgp_types::service::Principal;
use serde_json::json;

use super::intent;
use crate::route::world;
use crate::route::world::{build, build_with_tools, config_of, host, host_as, host_of, open};

const REGISTRY: &str = r#"{"servers": [
    {"server": {"name": "io.example/figma", "title": "Figma", "description": "Design mockups and prototypes",
        "websiteUrl": "https://registry.example/figma", "auth_flow": "oauth2_device"}},
    {"server": {"name": "io.example/weather", "description": "Weather forecasts for any city",
        "repository": {"url": "https://git.example/weather"}}},
    {"server": {"name": "io.example/mail", "description": "Sends and reads e-mail"}}
]}"#;

async fn kernel(folder: &Path) -> Kernel {
    let file = folder.join("registry.json");
    std::fs::write(&file, REGISTRY).unwrap();
    let config = format!("[kernel.registry]\nfile = '{}'", file.display());
    let builder = Kernel::builder().config(config_of(&config)).local_with(
        "issues",
        open(&["list", "recent"]),
        || intent::server("recent"),
    );
    build_with_tools(builder, [("issues", 2)]).await
}

fn speaking(era: Era) -> mgp_client_sdk::ClientBuilder {
    host_of(era).extension(Extension::ServerRecommendations)
}

async fn request(client: &Client, need: &str) -> RequestToolsResult {
    let mut wanted = ToolRequirements::new();
    wanted.capabilities = vec![need.to_owned()].into();
    let params = RequestToolsParams::new(wanted);
    // Repeat the request: the first one builds the tokenizer, which can exceed the time limit on a busy machine.
    for _ in 0..10 {
        if let Ok(result) = client.mgp().tools_request(&params).await {
            return result;
        }
    }
    client.mgp().tools_request(&params).await.unwrap()
}

fn recommended(result: &RequestToolsResult) -> Vec<ServerRecommendation> {
    let found = result.extra.get("recommendations");
    found.map_or_else(Vec::new, |all| all.get().unwrap())
}

#[tokio::test]
async fn a_need_that_no_server_meets_is_answered_with_servers_of_the_registry_in_both_eras() {
    let folder = temp_dir();
    let kernel = kernel(folder.path()).await;
    for era in [Era::Legacy, Era::Modern] {
        let client = host(&kernel, "ada", speaking(era)).await;
        let result = request(&client, "design mockup").await;
        assert_eq!(result.status, RequestStatus::Unavailable);
        let first = &recommended(&result)[0];
        assert_eq!(first.server, "io.example/figma", "{era:?}");
        assert_eq!(first.registry_url.as_deref(), Some("https://registry.example/figma"));
        assert_eq!(first.auth_flow.as_deref(), Some("oauth2_device"));
        let confidence = first.match_confidence.as_ref().map(|level| &level.0);
        assert_eq!(confidence, Some(&MatchConfidence::High));
        // The result must recommend nothing for a need that a connected server meets, or that no server of the registry
        // meets.
        assert!(recommended(&request(&client, "lists recent incidents").await).is_empty());
        assert!(recommended(&request(&client, "teleport a giraffe").await).is_empty());
        client.close().await;

        let plain = host(&kernel, "bob", host_of(era)).await;
        assert!(recommended(&request(&plain, "design mockup").await).is_empty());
        plain.close().await;
    }
    kernel.stop().await;
}

#[tokio::test]
async fn servers_are_recommended_by_a_method_and_by_a_tool() {
    let folder = temp_dir();
    let kernel = kernel(folder.path()).await;
    let agent = Principal::local().agent("ada");
    let client = host_as(&kernel, agent, speaking(Era::Modern)).await;
    let found = client.recommend_servers("a weather forecast").await.unwrap();
    assert_eq!(found[0].server, "io.example/weather");
    assert_eq!(found[0].registry_url.as_deref(), Some("https://git.example/weather"));
    assert_eq!(client.recommend_servers(" ").await.unwrap_err().code().0, -32602);

    let arguments = json!({"capability_needed": "send an e-mail"});
    let result = client.call("recommend_servers").args(arguments).await.unwrap();
    let result = result.get::<RecommendServersResult>().unwrap();
    assert_eq!(result.capability_needed, "send an e-mail");
    assert_eq!(result.recommendations[0].server, "io.example/mail");
    client.close().await;
    kernel.stop().await;
}

#[tokio::test]
async fn without_a_registry_nothing_is_recommended() {
    let kernel = build(Kernel::builder()).await;
    let client = host(&kernel, "ada", world::host_of(Era::Modern)).await;
    assert_eq!(client.recommend_servers("mail").await.unwrap_err().code().0, -32601);
    client.close().await;
    let client = host(&kernel, "ada", speaking(Era::Modern)).await;
    assert!(client.recommend_servers("mail").await.unwrap().is_empty());
}
