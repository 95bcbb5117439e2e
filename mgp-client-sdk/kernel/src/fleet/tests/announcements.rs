//! Tests that a host is notified of changes after its first lists, but not of changes that these lists already contain.
//! Also tests that a list contains the changes that were made while it waited for a server, or for an answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use mgp_client_sdk::ServerChange;
use mgp_discovery::Isolation;
use mgp_server_sdk::{Prompt, Prompts, Resource, Server};
use mgp_testkit::until;
use mgp_types::method::{PromptsList, Request as _, ToolsList};
use mgp_types::service::{Stack, around};
use mgp_types::sync::Mutex;
use tokio::time::sleep;

use super::{clock, counting_host, kernel_with, open};
use crate::Kernel;
use crate::fleet::ListKind;

fn clock_with_all() -> Server {
    let resource = Resource::text("test://news", "news", "none");
    clock().resource(resource).prompt(Prompt::new("p", "Asks", || async { "p" }))
}

#[tokio::test]
async fn a_host_whose_first_list_waited_for_a_server_is_not_notified_of_its_start() {
    let slow = || {
        clock_with_all().layer(around(|call, inner: Stack| async move {
            if call.method().as_str() == ToolsList::METHOD {
                // Let hosts connect and request their lists in this time.
                sleep(Duration::from_millis(300)).await;
            }
            inner.send(call).await
        }))
    };
    let kernel = kernel_with("clock", slow).await;
    let mut hosts = Vec::new();
    for list in [ServerChange::Tools, ServerChange::Resources, ServerChange::Prompts] {
        hosts.push(counting_host(&kernel, list).await);
    }
    for tools in join_all(hosts.iter().map(|(host, _)| host.tools())).await {
        assert!(tools.unwrap().iter().any(|tool| tool.name == "now"));
    }
    sleep(Duration::from_secs(1)).await;
    let changes = hosts.iter().map(|(_, changes)| changes.load(Ordering::SeqCst));
    assert_eq!(changes.collect::<Vec<_>>(), [0, 0, 0]);
    kernel.stop().await;
}

#[tokio::test]
async fn a_change_right_after_the_first_list_is_announced_although_a_later_list_contains_it() {
    let handle: Arc<Mutex<Option<Prompts>>> = Arc::default();
    let made = Arc::clone(&handle);
    let changing = move || {
        let server = clock_with_all();
        *made.lock() = Some(server.prompts());
        server
    };
    let kernel = kernel_with("clock", changing).await;
    let (host, changes) = counting_host(&kernel, ServerChange::Prompts).await;
    assert_eq!(host.prompts().await.unwrap().len(), 1);
    let before = changes.load(Ordering::SeqCst);
    let prompts = handle.lock().clone().unwrap();
    prompts.add(Prompt::new("q", "Asks again", || async { "q" }));
    until("both prompts are listed", async || host.prompts().await.unwrap().len() == 2).await;
    until("the change is announced", async || changes.load(Ordering::SeqCst) > before).await;
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_first_list_that_waited_for_a_server_lacks_one_that_was_removed_meanwhile() {
    let late = || {
        let slow = around(|call, inner: Stack| async move {
            if call.method().as_str() == PromptsList::METHOD {
                sleep(Duration::from_millis(1_200)).await;
            }
            inner.send(call).await
        });
        Server::new("late", "1").prompt(Prompt::new("late", "Asks", || async { "p" })).layer(slow)
    };
    let mgp = open(Isolation::Shared, &["now"]);
    let builder = Kernel::builder().local_with("clock", mgp.clone(), clock_with_all);
    let kernel = builder.local_with("late", mgp, late).build().await.unwrap();
    let (host, _) = counting_host(&kernel, ServerChange::Prompts).await;
    let listing = tokio::spawn(async move { host.prompts().await.unwrap() });
    sleep(Duration::from_millis(600)).await;
    assert!(!listing.is_finished());
    kernel.0.fleet.remove(&"clock".into()).await;
    let prompts = listing.await.unwrap();
    assert_eq!(prompts.iter().map(|prompt| prompt.name.as_str()).collect::<Vec<_>>(), ["late"]);
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_arrives_late_does_not_replace_a_list_that_was_read_later() {
    let handle: Arc<Mutex<Option<Prompts>>> = Arc::default();
    let is_late = Arc::new(AtomicBool::new(false));
    let (made, late) = (Arc::clone(&handle), Arc::clone(&is_late));
    let changing = move || {
        let late = Arc::clone(&late);
        let server = clock_with_all().layer(around(move |call, inner: Stack| {
            let late = Arc::clone(&late);
            async move {
                let is_late = call.method().as_str() == PromptsList::METHOD
                    && late.swap(false, Ordering::SeqCst);
                let answer = inner.send(call).await;
                if is_late {
                    sleep(Duration::from_secs(3)).await;
                }
                answer
            }
        }));
        *made.lock() = Some(server.prompts());
        server
    };
    let kernel = kernel_with("clock", changing).await;
    let server = kernel.0.fleet.get("clock").unwrap();
    let listed = || server.lists().list(ListKind::Prompts).entries().len();
    until("the prompt is listed", async || listed() == 1).await;
    sleep(Duration::from_secs(1)).await;
    is_late.store(true, Ordering::SeqCst);
    let reading = Arc::clone(&server);
    let early = tokio::spawn(async move {
        reading.lists().reread(ListKind::Prompts, reading.id(), &reading.latest()).await
    });
    sleep(Duration::from_secs(1)).await;
    let prompts = handle.lock().clone().unwrap();
    prompts.add(Prompt::new("q", "Asks again", || async { "q" }));
    until("both prompts are listed", async || listed() == 2).await;
    assert!(!early.await.unwrap().unwrap(), "the late answer changes nothing");
    assert_eq!(listed(), 2);
    kernel.stop().await;
}
