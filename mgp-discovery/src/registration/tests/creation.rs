//! Tests of servers that agents create in a session.

use std::sync::atomic::AtomicBool;

use async_trait::async_trait;
use mgp_testkit::{FaultyStore, store_busy, until};

use super::*;

/// A judge that accepts every script.
struct Lenient;

#[async_trait]
impl CodeJudge for Lenient {
    async fn judge(&self, _: JudgedScript) -> Result<CodeVerdict, RpcError> {
        Ok(CodeVerdict::Accepted)
    }
}

fn world() -> World {
    World::with(|_| {}, |builder| builder.judge(Arc::new(Lenient)))
}

fn source() -> String {
    json!({ "id": "made", "command": "python3.11", "source": "print(1)" }).to_string()
}

/// Announces a creation in the session of a client, and registers its script there.
async fn create(world: &World, client: &mut mock::Client) {
    world.registrations.expect_creation(&client.cx, &["coffee".to_owned()]).unwrap();
    let reply = client.request(DiscoveryRegister::METHOD, &source()).await.unwrap();
    assert!(reply.as_str().contains("pending_approval"), "{reply:?}");
}

#[tokio::test]
async fn a_created_server_ends_with_its_session_waiting_or_running() {
    let world = world();
    world.registrations.open().await.unwrap();
    let mut client = world.client(maker());
    create(&world, &mut client).await;
    client.cx.scope.end();
    until("the request is withdrawn", async || world.stored().await == 0).await;

    let mut client = world.client(maker());
    create(&world, &mut client).await;
    assert!(world.waiting().await[0].notes.iter().any(|note| note.contains("coffee")));
    assert_eq!(world.approve().await.unwrap()["status"], "connected");
    assert!(world.new_events().contains(&"TOOL_CREATED_DYNAMIC SUCCESS by ada".to_owned()));
    client.cx.scope.end();
    until("the server is removed", async || world.stored().await == 0).await;
    assert!(world.fake.running().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_removes_no_server_of_the_same_id_from_another_session() {
    let world = world();
    let (mut first, mut second) = (world.client(maker()), world.client(maker()));
    create(&world, &mut first).await;
    let waiting = world.waiting().await.remove(0);
    world.registrations.reject(&operator(), &waiting.server, &waiting.fingerprint).await.unwrap();
    world.registrations.expect_creation(&second.cx, &["coffee".to_owned()]).unwrap();
    let other = source().replace("print(1)", "print(2)");
    second.request(DiscoveryRegister::METHOD, &other).await.unwrap();
    first.cx.scope.end();
    settle().await;
    assert_eq!(world.stored().await, 1);
    second.cx.scope.end();
    until("the request is withdrawn", async || world.stored().await == 0).await;
}

#[tokio::test(start_paused = true)]
async fn the_removal_of_a_created_server_is_tried_again_if_the_store_is_busy() {
    let mut world = world();
    let is_busy = Arc::new(AtomicBool::new(false));
    let busy = Arc::clone(&is_busy);
    let store = FaultyStore::new(world.store.clone()).on_commit(move |store, change| {
        if busy.load(Ordering::Relaxed) {
            store_busy("it is full")
        } else {
            store.inner().commit(change)
        }
    });
    let servers = Arc::new(Shared(Arc::clone(&world.fake)));
    world.registrations = Registrations::builder(Arc::new(store), servers)
        .authorized_by(Arc::new(visibility(granted)))
        .judge(Arc::new(Lenient))
        .config(config(&world.folder))
        .build();
    world.registrations.open().await.unwrap();
    let mut client = world.client(maker());
    create(&world, &mut client).await;
    world.approve().await.unwrap();
    is_busy.store(true, Ordering::Relaxed);
    client.cx.scope.end();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!((world.stored().await, world.fake.running().len()), (1, 1));
    is_busy.store(false, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!((world.stored().await, world.fake.running().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_creation_ends_with_its_session_although_its_request_was_dropped() {
    // Drop the request after each number of polls, i.e. at each point at which it waits.
    for polls in 1.. {
        let world = world();
        let mut client = world.client(maker());
        world.registrations.expect_creation(&client.cx, &[]).unwrap();
        let mut request = client.call(DiscoveryRegister::METHOD, &source());
        let done = polled(&mut request, polls).await;
        drop(request);
        tokio::time::sleep(Duration::from_secs(1)).await;
        client.cx.scope.end();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.stored().await, 0, "after {polls} polls");
        if done {
            break;
        }
    }
}

#[tokio::test]
async fn a_created_server_does_not_outlive_the_process_and_others_do() {
    let mut world = world();
    let mut client = world.client(maker());
    create(&world, &mut client).await;
    world.approve().await.unwrap();
    world.register(operator(), count("kept")).await.unwrap();
    world.killed();
    world.registrations.open().await.unwrap();
    until("it is removed", async || world.stored().await == 1).await;
    assert_eq!(world.registrations.approved(), [ServerId::from("kept")]);
}

#[tokio::test]
async fn only_an_agent_with_the_grant_a_session_and_a_judge_creates_a_server() {
    let world = world();
    let refused =
        |client: &mock::Client| world.registrations.expect_creation(&client.cx, &[]).unwrap_err();
    assert!(refused(&world.client(operator())).contains("directly"));
    let stranger = Principal::local().agent("stranger");
    assert!(refused(&world.client(stranger)).contains("an operator granted"));
    let mut client = world.client(maker());
    client.cx.scope = mgp_types::service::Scope::new(mgp_types::service::ScopeKind::Request);
    assert!(refused(&client).contains("session"));
    let unjudged = World::new();
    let client = unjudged.client(maker());
    assert!(unjudged.registrations.expect_creation(&client.cx, &[]).is_err());
    // Without a request for tools, a registration must not be bound to its session.
    let mut client = world.client(maker());
    client.request(DiscoveryRegister::METHOD, &source()).await.unwrap();
    client.cx.scope.end();
    settle().await;
    assert_eq!(world.stored().await, 1);
}
