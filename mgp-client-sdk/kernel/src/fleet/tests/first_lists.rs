//! Tests that requests for lists do not wait for a list that a server does not return.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgp_client_sdk::{Client, ServerChange, TestClient, ToolResult as _};
use mgp_discovery::Isolation;
use mgp_server_sdk::{Prompt, Resource, Server, Tool};
use mgp_testkit::until;
use mgp_types::ErrorCode;
use mgp_types::mcp::{ListChanged, ListPromptsResult, UiResourceMeta, UiToolMeta};
use mgp_types::method::{
    PromptsList, Request as _, ResourcesList, ResourcesTemplatesList, ToolsList,
};
use mgp_types::service::{Reply, Stack, around};
use serde_json::json;
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

/// Regression test: a list of prompts waited 12 s for a server that did not return its prompts, and a list of resources
/// waited again every 30 s. The prompts of a server that did not return its resources were read only 30 s later.
#[tokio::test(start_paused = true)]
async fn only_the_first_list_waits_shortly_for_a_list_that_a_server_never_returns() {
    let hung = [
        ToolsList::METHOD,
        PromptsList::METHOD,
        ResourcesList::METHOD,
        ResourcesTemplatesList::METHOD,
    ];
    for hung in hung {
        let builder = Kernel::builder()
            .local_with("clock", open(Isolation::Shared, &["now"]), silent("none"))
            .local_with("hung", open(Isolation::Shared, &["now"]), silent(hung));
        let kernel = builder.build().await.unwrap();
        let (host, _) = counting_host(&kernel, ServerChange::Tools).await;
        let lists = async || {
            let begun = Instant::now();
            let prompts = host.list_prompts().await.unwrap().len();
            let resources = host.list_resources().await.unwrap().len();
            host.list_resource_templates().await.unwrap();
            (begun.elapsed(), prompts, resources)
        };
        let (waited, prompts, resources) = lists().await;
        assert!(waited < Duration::from_secs(4), "{hung}: {waited:?}");
        assert_eq!(prompts, if hung == PromptsList::METHOD { 1 } else { 2 }, "{hung}");
        assert_eq!(resources, if hung == ResourcesList::METHOD { 1 } else { 2 }, "{hung}");
        for _ in 0..3 {
            sleep(Duration::from_secs(40)).await;
            let (waited, ..) = lists().await;
            assert!(waited < Duration::from_secs(1), "{hung}: {waited:?}");
        }
        kernel.stop().await;
    }
}

/// A request that names an entry waits longer than a request for the list, as a call of a tool does.
#[tokio::test(start_paused = true)]
async fn a_prompt_and_a_resource_of_a_new_server_are_found_although_their_lists_are_slow() {
    let slow = || {
        let waits = around(|call, inner: Stack| async move {
            if [PromptsList::METHOD, ResourcesList::METHOD].contains(&call.method().as_str()) {
                sleep(Duration::from_secs(3)).await;
            }
            inner.send(call).await
        });
        let resource = Resource::text("test://late", "late", "news");
        let prompt = Prompt::new("late", "Asks", || async { "when" });
        clock().resource(resource).prompt(prompt).layer(waits)
    };
    let none: [(&str, &str); 0] = [];
    for asks_for_prompt in [true, false] {
        let builder = Kernel::builder()
            .local_with("clock", open(Isolation::Shared, &["now"]), silent("none"))
            .local_with("slow", open(Isolation::Shared, &["now"]), slow);
        let kernel = builder.build().await.unwrap();
        let (host, _) = counting_host(&kernel, ServerChange::Tools).await;
        if asks_for_prompt {
            host.get_prompt("late", none).await.unwrap();
        } else {
            host.read_resource("test://late").await.unwrap();
        }
        kernel.stop().await;
    }
}

/// Regression test: operators saw nothing of a list that a server never returned, unless it was the list of tools.
#[tokio::test(start_paused = true)]
async fn operators_see_which_list_a_server_does_not_return() {
    for (hung, list) in [(PromptsList::METHOD, "prompts"), (ResourcesList::METHOD, "resources")] {
        let kernel = kernel_with("clock", silent(hung)).await;
        sleep(Duration::from_secs(40)).await;
        let lacks = kernel.servers()[0].lacks.clone().unwrap_or_default();
        let expected = format!("its {list} could not be listed: no answer within ");
        assert!(lacks.starts_with(&expected), "{lacks}");
        assert!(lacks.ends_with("; see `mgp servers logs clock`"), "{lacks}");
        kernel.stop().await;
    }
}

/// Uses a server that announces no changes, so the kernel reads its lists again for each client.
#[tokio::test(start_paused = true)]
async fn a_list_that_becomes_slow_is_read_in_the_background_and_announced() {
    let is_slow = Arc::new(AtomicBool::new(false));
    let slow = Arc::clone(&is_slow);
    let server = move || {
        let slow = Arc::clone(&slow);
        let changes = around(move |call, inner: Stack| {
            let is_slow = slow.load(Ordering::SeqCst);
            async move {
                if call.method().as_str() == PromptsList::METHOD && is_slow {
                    sleep(Duration::from_secs(3)).await;
                    return Reply::of(&ListPromptsResult::new(Vec::new()));
                }
                inner.send(call).await
            }
        });
        let server = clock().prompt(Prompt::new("p", "Asks", || async { "p" }));
        server.offer(|offer| offer.capabilities.prompts = Some(ListChanged::new())).layer(changes)
    };
    let kernel = kernel_with("clock", server).await;
    let (host, changes) = counting_host(&kernel, ServerChange::Prompts).await;
    assert_eq!(host.prompts().await.unwrap().len(), 1);
    sleep(Duration::from_secs(10)).await;
    let before = changes.load(Ordering::SeqCst);
    is_slow.store(true, Ordering::SeqCst);
    // The host requests a list that it knows only after a notification. So let another host request it.
    let (other, _) = counting_host(&kernel, ServerChange::Prompts).await;
    let begun = Instant::now();
    assert_eq!(other.prompts().await.unwrap().len(), 1, "the known list");
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    until("the change is announced", async || changes.load(Ordering::SeqCst) > before).await;
    let (third, _) = counting_host(&kernel, ServerChange::Prompts).await;
    assert!(third.prompts().await.unwrap().is_empty());
    kernel.stop().await;
}

/// Regression test: a call of a tool that was not known yet waited 15 s for another server, although its own server had
/// listed the tool long before.
#[tokio::test(start_paused = true)]
async fn a_call_of_a_new_tool_does_not_wait_for_another_server_that_hangs() {
    let slow = late("clock", Duration::from_millis(300));
    let hung = || {
        let never = around(|call, inner: Stack| async move {
            if call.method().as_str() == ToolsList::METHOD {
                std::future::pending::<()>().await;
            }
            inner.send(call).await
        });
        let other = Tool::new("other", "Another tool", || async { "other" });
        Server::new("hung", "1").tool(other).layer(never)
    };
    let builder = Kernel::builder()
        .local_with("clock", open(Isolation::Shared, &["now"]), slow)
        .local_with("hung", open(Isolation::Shared, &["other"]), hung);
    let kernel = builder.build().await.unwrap();
    let (host, _) = counting_host(&kernel, ServerChange::Tools).await;
    let begun = Instant::now();
    assert_eq!(host.call("now").await.unwrap().to_text(), "clock");
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    kernel.stop().await;
}

/// Returns a server that lists its tool `now` after a delay. The tool returns the id of the server.
fn late(id: &'static str, delay: Duration) -> impl Fn() -> Server + Send + Sync + 'static {
    move || {
        let waits = around(move |call, inner: Stack| async move {
            if call.method().as_str() == ToolsList::METHOD {
                sleep(delay).await;
            }
            inner.send(call).await
        });
        let now = Tool::new("now", "The time", move || async move { id });
        Server::new(id, "1").tool(now).layer(waits)
    }
}

/// Starts a kernel with two servers that list their tool `now` after these delays.
async fn two_late(delays: [(&'static str, Duration); 2]) -> Kernel {
    let mut builder = Kernel::builder();
    for (id, delay) in delays {
        builder = builder.local_with(id, open(Isolation::Shared, &["now"]), late(id, delay));
    }
    builder.build().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_names_its_server_waits_for_it_although_another_has_listed_the_tool() {
    let kernel = two_late([("quick", Duration::ZERO), ("slow", Duration::from_secs(5))]).await;
    let (host, _) = counting_host(&kernel, ServerChange::Tools).await;
    let named = json!({ "name": "now", "server_id": "slow" });
    let answer = host.call("mgp_tools_call").args(named).await.unwrap();
    assert_eq!(answer.to_text(), "slow");
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_new_tool_that_two_servers_list_within_two_seconds_is_refused() {
    let delays = [1_000, 1_500].map(Duration::from_millis);
    let kernel = two_late([("first", delays[0]), ("second", delays[1])]).await;
    let host = TestClient::new(kernel.server()).await;
    let refused = host.call("now").await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::TOOL_NAME_CONFLICT, "{refused}");
    kernel.stop().await;
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
