//! Tests of the stated purpose of calls, and of suggestions of better tools (extension `intent_hints`).

use mgp_client_sdk::{Client, ToolResult};
use mgp_kernel::Kernel;
use mgp_server_sdk::FromCaller;
use mgp_server_sdk::prelude::*;
use mgp_testkit::temp_dir;
use mgp_types::mcp::Era;
use mgp_types::mgp::Extension;
use mgp_types::proposal::{Intent, Suggestion};

use crate::route::world::{
    PAIRS, build_with_tools, config_of, host, host_of, limit_era, open, recorded_calls, until,
    wait_for_tools,
};

/// A server whose tool `list` returns the stated intent, and suggests another tool: the one that `better` names.
pub(crate) fn server(better: &'static str) -> Server {
    let list = Tool::new(
        "list",
        "Lists issues",
        move |intent: FromCaller<Intent>, cx: Context| async move {
            if intent.0.is_some() {
                cx.add_to_result(&Suggestion::new(better))?;
            }
            Ok::<_, RpcError>(intent.0.map_or_else(|| "no intent".to_owned(), |intent| intent.0))
        },
    );
    let recent = Tool::new("recent", "Lists recent incidents", || async { "none" });
    Server::new("issues", "1").tool(list).tool(recent).extension(Extension::IntentHints)
}

async fn kernel(config: &str, server: impl Fn() -> Server + Send + Sync + 'static) -> Kernel {
    let builder = Kernel::builder().config(config_of(config)).local_with(
        "issues",
        open(&["list", "recent"]),
        server,
    );
    build_with_tools(builder, [("issues", 2)]).await
}

fn with_intent(client: &Client) -> mgp_client_sdk::ToolCall {
    client.call("list").with(&Intent("the last incident".to_owned()))
}

#[tokio::test]
async fn an_intent_reaches_the_server_and_its_suggestion_the_caller_in_each_pair_of_eras() {
    for (above, below) in PAIRS {
        let kernel = kernel("", move || limit_era(server("recent"), below)).await;
        let client = host(&kernel, "ada", host_of(above).extension(Extension::IntentHints)).await;
        let result = with_intent(&client).await.unwrap();
        assert_eq!(result.to_text(), "the last incident", "{above:?} {below:?}");
        let suggestion = result.member::<Suggestion>().unwrap().unwrap();
        assert_eq!(suggestion.recommended_tool, "recent", "{above:?} {below:?}");
    }
}

#[tokio::test]
async fn a_suggestion_of_a_tool_that_the_caller_does_not_see_is_removed() {
    for better in ["missing", "other.secret"] {
        let kernel = kernel("", move || server(better)).await;
        let host_builder = host_of(Era::Modern).extension(Extension::IntentHints);
        let client = host(&kernel, "ada", host_builder).await;
        let result = with_intent(&client).await.unwrap();
        assert_eq!(result.to_text(), "the last incident");
        assert_eq!(result.member::<Suggestion>().unwrap(), None, "{better}");
    }
}

#[tokio::test]
async fn the_audit_log_has_the_intent_unless_the_configuration_leaves_it_out() {
    for (config, expected) in [("", true), ("[kernel.audit]\nintent = false", false)] {
        let folder = temp_dir();
        let builder = Kernel::builder().config(config_of(config)).local_with(
            "issues",
            open(&["list", "recent"]),
            || server("recent"),
        );
        let kernel = builder.in_folder(folder.path()).await.unwrap();
        wait_for_tools(&kernel, "issues", 2).await;
        let client =
            host(&kernel, "ada", host_of(Era::Modern).extension(Extension::IntentHints)).await;
        with_intent(&client).await.unwrap();
        let recorded = || recorded_calls(&kernel, "issues");
        until("the call is recorded", || async { recorded().await != "[]" }).await;
        let events = recorded().await;
        assert_eq!(events.contains(r#""intent":"the last incident""#), expected, "{events}");
        client.close().await;
        kernel.stop().await;
    }
}
