//! How much there may be, and what lists show of it.
//!
//! Applies to: inbound.

use mgp_types::method::DiscoveryList;
use mgp_types::mgp::DiscoveryListResult;
use mgp_types::service::Everyone;

use super::*;
use crate::registry::list_router;

#[tokio::test(start_paused = true)]
async fn registrations_are_counted_in_all_and_for_each() {
    let bounds = |config: &mut RegistrationConfig| {
        (config.most, config.most_each) = (5, 3);
        (config.waiting, config.waiting_each) = (3, 2);
    };
    let world = World::with(bounds, |builder| builder);
    let two = Principal::local().agent("maker-two");
    for id in ["a", "b"] {
        world.register(maker(), count(id)).await.unwrap();
    }
    let error = refused(world.register(maker(), count("c")).await, 3001, "of your registrations");
    assert!(!error.as_recovery().unwrap().is_retryable(), "somebody must decide first");
    world.register(two.clone(), count("c")).await.unwrap();
    refused(world.register(two.clone(), count("d")).await, 3001, "3 registrations wait");

    for _ in 0..2 {
        world.approve().await.unwrap();
    }
    world.register(maker(), count("d")).await.unwrap();
    refused(world.register(maker(), count("e")).await, 3001, "3 of your servers");
    world.register(operator(), count("e")).await.unwrap();
    refused(world.register(operator(), count("f")).await, 3001, "5 servers are registered");
    // One that goes makes room.
    world.deregister(maker(), "a").await.unwrap();
    world.register(operator(), count("f")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn none_are_taken_where_none_may_be() {
    let world = World::with(|config| config.most = 0, |builder| builder);
    refused(world.register(operator(), count("a")).await, 4100, "not registered here");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_one_is_told_to_wait_and_the_next_is_served() {
    let world = World::with(|config| config.per_minute = 3, |builder| builder);
    for _ in 0..3 {
        refused(world.register(maker(), json!({ "id": "?" })).await, -32602, "id");
    }
    let error = refused(world.deregister(maker(), "a").await, 3000, "too fast");
    assert_eq!(error.as_recovery().unwrap().retry_after_ms, Some(60_000));
    let two = Principal::local().agent("maker-two");
    world.register(two, count("a")).await.unwrap();
    tokio::time::advance(Duration::from_secs(60)).await;
    refused(world.deregister(maker(), "b").await, 4004, "b");
}

#[tokio::test(start_paused = true)]
async fn lists_have_what_is_registered_with_its_state() {
    let world = World::new();
    world.fake.configure("files");
    world.register(maker(), count("made")).await.unwrap();
    world.approve().await.unwrap();
    world.register(maker(), count("waits")).await.unwrap();
    world.fake.broken.store(1, Ordering::Relaxed);
    world.register(operator(), count("broken")).await.unwrap();

    let router = list_router(world.registrations.fleet(), Arc::new(Everyone));
    let listed = async |by: Principal, params: &str| {
        let mut client = mock::client(Stack::new(router.clone()));
        client.cx.principal = by;
        let answer = client.request(DiscoveryList::METHOD, params).await.unwrap();
        let result: DiscoveryListResult = answer.get().unwrap();
        let one = |it: &ServerSummary| format!("{} {}", it.id, it.status);
        result.servers.iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(
        listed(operator(), "{}").await,
        ["made connected", "files connected", "broken error", "waits registered"]
    );
    assert_eq!(
        listed(operator(), r#"{"filter":{"status":"registered"}}"#).await,
        ["waits registered"]
    );
    // What has no tool is no server to anybody else.
    assert_eq!(listed(maker(), "{}").await, ["made connected", "files connected"]);

    let known = world.registrations.fleet().known();
    let waits = &known.iter().find(|it| it.summary.id == "waits").unwrap().summary;
    assert_eq!(waits.extra.get("registration").unwrap().as_str(), "\"pending_approval\"");
    assert_eq!(waits.trust_level.as_ref().unwrap().as_str(), "sandboxed");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_changes_nothing_and_what_it_kept_late_is_found() {
    let world = World::new();
    // Nobody opened it, and the router works all the same.
    assert_eq!(world.register(maker(), count("a")).await.unwrap()["status"], "pending_approval");
    let mut changes = world.registrations.changes();
    changes.mark_unchanged();
    world.approve().await.unwrap();
    assert!(changes.has_changed().unwrap());
}

/// Fits a future's own promise: it may be sent to another thread.
#[test]
fn futures_can_be_sent() {
    fn sent<T: Send>(_: T) {}
    let world = World::new();
    let (cx, by) = (mock::client(Stack::new(world.registrations.router())).cx, operator());
    let (server, hash) = (ServerId::from("a"), mgp_types::Hash::of(b""));
    sent(world.registrations.register(&cx, mgp_types::mgp::RegisterParams::new("a")));
    sent(world.registrations.deregister(&cx, mgp_types::mgp::DeregisterParams::new("a")));
    sent(world.registrations.approve(&by, &server, &hash, &[]));
    sent(world.registrations.reject(&by, &server, &hash));
    sent(world.registrations.open());
    sent(world.registrations.reconfigured());
}
