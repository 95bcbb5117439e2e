//! Tests of stops: nothing starts a server that was removed or whose kernel has stopped, a removal is announced before
//! the drain, and a server that drains receives the answers for which its calls wait, if they can arrive.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mgp_client_sdk::{Client, ServerChange, TestClient};
use mgp_discovery::{Isolation, ServerConfig};
use mgp_lifecycle::EraChoice;
use mgp_server_sdk::{ContextExt as _, Server, Tool};
use mgp_testkit::until;
use mgp_types::mcp::{ElicitParams, Era, Revision};
use mgp_types::mgp::{KernelEventsParams, LifecycleParams, ServerState};
use mgp_types::service::{Context, Stack, mock};
use mgp_types::{ErrorCode, RpcError};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::{Guest, World, counting_host, knows, open};
use crate::Kernel;

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_start_a_server_that_was_removed_meanwhile() {
    let world = World::new(Isolation::Shared).await;
    let (server, made) = (world.server(), world.made());
    world.kernel.0.fleet.remove(&"clock".into()).await;
    assert_eq!(server.operator_restart(None).await, ServerState::Disconnected);
    assert_eq!(world.made(), made);
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn no_operator_and_no_reload_starts_a_server_of_a_kernel_that_has_stopped() {
    let world = World::new(Isolation::Shared).await;
    let (id, made) = ("clock".into(), world.made());
    world.kernel.stop().await;
    assert_eq!(world.kernel.start_server(&id).await, Some(ServerState::Disconnected));
    assert_eq!(world.kernel.restart_server(&id).await, Some(ServerState::Disconnected));
    let config = ServerConfig::clone(&world.server().config());
    world.kernel.0.fleet.replace(config).await.unwrap();
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.made(), made);
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_comes_too_late_does_not_remove_the_server_that_replaced_the_removed_one() {
    let world = World::new(Isolation::Shared).await;
    let (fleet, old) = (world.kernel.0.fleet.clone(), world.server());
    fleet.replace(ServerConfig::clone(&old.config())).await.unwrap();
    fleet.remove_server(&old).await;
    let new = world.server();
    fleet.remove_server(&new).await;
    assert!(fleet.get("clock").is_none());
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_replaced_server_publishes_its_last_states_but_announces_them_to_no_client() {
    let world = World::new(Isolation::Shared).await;
    let (fleet, old) = (world.kernel.0.fleet.clone(), world.server());
    fleet.replace(ServerConfig::clone(&old.config())).await.unwrap();
    world.becomes(ServerState::Connected).await;
    let (send, mut announced) = mpsc::unbounded_channel();
    let note = move |change: &LifecycleParams| drop(send.send(change.reason.clone()));
    let builder = Client::builder("host", "1").era(EraChoice::Legacy).on_lifecycle(note);
    let host = TestClient::with_builder(world.kernel.server(), builder).await;
    assert!(!host.tools().await.unwrap().is_empty());
    old.client().state().enter(ServerState::Connecting, "a late start").unwrap();
    until("the change is published", async || {
        let recent = fleet.context().events.hub().recent(&KernelEventsParams::new()).unwrap();
        recent.events.iter().any(|event| event.as_str().contains("a late start"))
    })
    .await;
    world.kernel.stop_server(&"clock".into()).await;
    let first = announced.recv().await.unwrap().expect("a reason of the new server");
    assert_ne!(first, "a late start");
    world.kernel.stop().await;
}

/// Regression test: a call with an idempotency key runs on after its caller has left, but the server counted as idle.
#[tokio::test(start_paused = true)]
async fn a_server_is_not_idle_while_a_call_runs_without_its_caller() {
    let world = World::new(Isolation::Shared).await;
    let session = Arc::clone(world.server().main());
    let client = session.client().client().unwrap();
    // Call the client itself, because the session does not count a call that has left its caller.
    let call = tokio::spawn(async move { client.call("slow").await });
    sleep(Duration::from_secs(1)).await;
    assert!(!session.is_idle(Duration::ZERO));
    call.await.unwrap().unwrap();
    until("the server is idle", async || session.is_idle(Duration::ZERO)).await;
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_reaches_a_replaced_server_too_late_can_be_tried_again() {
    let world = World::new(Isolation::Shared).await;
    let server = world.server();
    // Send the call to the session, like a call that a person confirms while the server is replaced.
    let session = Arc::clone(server.main());
    let mut caller = mock::client(Stack::from_fn(move |call| session.send(call)));
    server.hold().set_replaced();
    server.stop().await;
    let refused = caller.request("tools/call", r#"{"name":"which"}"#).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::SERVER_RESTARTING, "{refused}");
    world.kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_removal_of_a_server_is_announced_before_its_running_calls_have_ended() {
    let world = World::new(Isolation::Shared).await;
    let (host, changes) = counting_host(&world.kernel, ServerChange::Tools).await;
    assert!(!host.tools().await.unwrap().is_empty());
    let client = world.client.clone();
    let slow = tokio::spawn(async move { client.text("slow", ()).await });
    sleep(Duration::from_secs(1)).await;
    let (kernel, before) = (world.kernel.clone(), changes.load(Ordering::SeqCst));
    let removal = tokio::spawn(async move { kernel.0.fleet.remove(&"clock".into()).await });
    until("the removal is announced", async || changes.load(Ordering::SeqCst) > before).await;
    assert!(!slow.is_finished() && !removal.is_finished());
    assert_eq!(slow.await.unwrap(), "done");
    removal.await.unwrap();
    world.kernel.stop().await;
}

/// Starts a kernel with a server whose tool `form` asks its caller, and connects a host that answers after some time.
async fn asking(isolation: Isolation, time: Duration) -> (Kernel, TestClient) {
    let asks = || {
        let form = Tool::new("form", "Asks", |cx: Context| async move {
            let guest = cx.elicit::<Guest>("Who comes?").await?.accepted();
            Ok::<_, RpcError>(guest.map(|guest| guest.name).unwrap_or_default())
        });
        let is_legacy = |revision: &Revision| revision.era() == Era::Legacy;
        Server::new("asks", "1").tool(form).offer(|offer| offer.revisions.retain(is_legacy))
    };
    let mgp = open(isolation, &["form"]);
    let kernel = Kernel::builder().local_with("asks", mgp, asks).build().await.unwrap();
    knows(&kernel, "asks").await;
    let slow = move |question: ElicitParams| async move {
        sleep(time).await;
        question.accept_with(&serde_json::json!({ "name": "Ann" }))
    };
    let host = Client::builder("host", "1").era(EraChoice::Modern).on_elicitation(slow);
    let host = TestClient::with_builder(kernel.server(), host).await;
    (kernel, host)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_drains_receives_the_answer_for_which_a_call_waits() {
    let (kernel, host) = asking(Isolation::Shared, Duration::from_secs(3)).await;
    let begun = Instant::now();
    let call = tokio::spawn(async move { host.text("form", ()).await });
    sleep(Duration::from_secs(1)).await;
    assert_eq!(kernel.restart_server(&"asks".into()).await, Some(ServerState::Connected));
    assert_eq!(call.await.unwrap(), "Ann");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    kernel.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_does_not_wait_for_an_answer_that_cannot_arrive() {
    for isolation in [Isolation::Shared, Isolation::PerAgent] {
        let (kernel, host) = asking(isolation, Duration::from_secs(20)).await;
        let begun = Instant::now();
        let call = tokio::spawn(async move { host.call("form").await.map(drop) });
        sleep(Duration::from_secs(1)).await;
        assert!(!call.is_finished());
        if isolation == Isolation::Shared {
            kernel.0.fleet.remove(&"asks".into()).await;
        } else {
            kernel.restart_server(&"asks".into()).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "{isolation:?}: {:?}", begun.elapsed());
        assert!(call.await.unwrap().is_err());
        kernel.stop().await;
    }
}
