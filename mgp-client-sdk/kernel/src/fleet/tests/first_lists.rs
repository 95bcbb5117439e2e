//! Tests that requests for tools do not wait for the other lists of a new server.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mgp_client_sdk::{Client, ServerChange, TestClient};
use mgp_discovery::Isolation;
use mgp_server_sdk::{Prompt, Resource, Server, Tool};
use mgp_types::mcp::{UiResourceMeta, UiToolMeta};
use mgp_types::method::{PromptsList, Request as _, ResourcesList};
use mgp_types::service::{Stack, around};
use tokio::time::{Instant, sleep};

use super::{clock, counting_host, kernel_with, open};
use crate::Kernel;

/// Returns a server with a tool, a resource and a prompt that never answers this method.
fn silent(method: &'static str) -> impl Fn() -> Server + Send + Sync + 'static {
    move || {
        let never = around(move |call, inner: Stack| async move {
            if call.method().as_str() == method {
                std::future::pending::<()>().await;
            }
            inner.send(call).await
        });
        let resource = Resource::text("test://news", "news", "none");
        let prompt = Prompt::new("p", "Asks", || async { "p" });
        clock().resource(resource).prompt(prompt).layer(never)
    }
}

/// Regression test: the first list of tools waited 8 s for a server that did not return its prompts.
#[tokio::test(start_paused = true)]
async fn the_first_tools_do_not_wait_for_another_list_that_the_server_never_returns() {
    for hung in [PromptsList::METHOD, ResourcesList::METHOD] {
        let kernel = kernel_with("clock", silent(hung)).await;
        let (host, _) = counting_host(&kernel, ServerChange::Tools).await;
        let begun = Instant::now();
        let tools = host.tools().await.unwrap();
        let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["now"], "{hung}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{hung}: {:?}", begun.elapsed());
        kernel.stop().await;
    }
}

/// Regression test: a list of tools with a page waited for the resources of every server.
#[tokio::test(start_paused = true)]
async fn a_tool_with_a_page_does_not_wait_for_the_resources_of_another_server() {
    const PAGE: &str = "ui://clock/face.html";
    let face = || {
        let page = Resource::app(PAGE, "face", "<!doctype html>", &UiResourceMeta::new());
        let shows = Tool::new("show", "Shows the time", || async { "noon" }).app(PAGE);
        Server::new("face", "1").resource(page).tool(shows)
    };
    let builder = Kernel::builder().local_with("face", open(Isolation::Shared, &["show"]), face);
    let silent = silent(ResourcesList::METHOD);
    let builder = builder.local_with("clock", open(Isolation::Shared, &["now"]), silent);
    let kernel = builder.build().await.unwrap();
    let host = Client::builder("host", "1").without_mgp().apps();
    let host = TestClient::with_builder(kernel.server(), host).await;
    let begun = Instant::now();
    let tools = host.list_tools().await.unwrap();
    let page = tools.iter().find_map(UiToolMeta::of).and_then(|page| page.resource_uri);
    assert_eq!(page.as_deref(), Some(PAGE));
    assert!(tools.iter().any(|tool| tool.name == "now"), "{tools:?}");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_read_after_the_first_tools_is_announced_once() {
    let late = || {
        clock().prompt(Prompt::new("p", "Asks", || async { "p" })).layer(around(
            |call, inner: Stack| async move {
                if call.method().as_str() == PromptsList::METHOD {
                    sleep(Duration::from_secs(3)).await;
                }
                inner.send(call).await
            },
        ))
    };
    let kernel = kernel_with("clock", late).await;
    let mut hosts = Vec::new();
    for list in [ServerChange::Tools, ServerChange::Prompts] {
        hosts.push(counting_host(&kernel, list).await);
    }
    for (host, _) in &hosts {
        assert_eq!(host.tools().await.unwrap().len(), 1);
    }
    sleep(Duration::from_secs(10)).await;
    let changes = hosts.iter().map(|(_, changes)| changes.load(Ordering::SeqCst));
    assert_eq!(changes.collect::<Vec<_>>(), [0, 1]);
    assert_eq!(hosts[1].0.prompts().await.unwrap().len(), 1);
    kernel.stop().await;
}
