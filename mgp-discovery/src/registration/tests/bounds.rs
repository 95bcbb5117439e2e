//! Tests of the limits, and of lists.

use mgp_testkit::{FaultyStore, RefusingAudit, store_busy};
use mgp_types::method::DiscoveryList;
use mgp_types::mgp::DiscoveryListResult;
use mgp_types::service::{AllVisible, AuditError, AuditFuture, AuditSink, CallRecord, Ticket};

use super::*;
use crate::registry::list_router;

#[tokio::test(start_paused = true)]
async fn registrations_are_counted_in_all_and_for_each() {
    let bounds = |config: &mut RegistrationConfig| {
        (config.max, config.max_each) = (5, 3);
        (config.max_pending, config.max_pending_each) = (3, 2);
    };
    let world = World::with(bounds, |builder| builder);
    let two = Principal::local().agent("maker-two");
    for id in ["a", "b"] {
        world.register(maker(), count(id)).await.unwrap();
    }
    let error = refused(world.register(maker(), count("c")).await, 3001, "of your registrations");
    assert!(!error.as_recovery().unwrap().is_retryable(), "an operator must decide first");
    world.register(two.clone(), count("c")).await.unwrap();
    refused(world.register(two.clone(), count("d")).await, 3001, "3 registrations wait");

    for _ in 0..2 {
        world.approve().await.unwrap();
    }
    world.register(maker(), count("d")).await.unwrap();
    refused(world.register(maker(), count("e")).await, 3001, "3 of your servers");
    world.register(operator(), count("e")).await.unwrap();
    refused(world.register(operator(), count("f")).await, 3001, "5 servers are registered");
    // After a removal, another registration must be within the limit again.
    world.deregister(maker(), "a").await.unwrap();
    world.register(operator(), count("f")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_agents_of_another_tenant_leave_registrations_for_others() {
    let bounds = |config: &mut RegistrationConfig| {
        (config.max_pending, config.max_pending_each) = (3, 1);
    };
    let world = World::with(bounds, |builder| builder);
    let of_acme = |id: &str| Principal::new("acme", "local").agent(format!("maker-{id}"));
    for id in ["a", "b"] {
        world.register(of_acme(id), count(id)).await.unwrap();
    }
    let words = "2 requests of your tenant wait";
    refused(world.register(of_acme("c"), count("c")).await, 3001, words);
    world.register(maker(), count("c")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn for_operators_only_the_total_is_limited() {
    let bounds = |config: &mut RegistrationConfig| {
        (config.max, config.max_each) = (4, 1);
        (config.max_pending, config.max_pending_each) = (1, 1);
    };
    let world = World::with(bounds, |builder| builder);
    world.register(maker(), count("a")).await.unwrap();
    for id in ["b", "c", "d"] {
        world.register(operator(), count(id)).await.unwrap();
    }
    refused(world.register(operator(), count("e")).await, 3001, "4 servers are registered");
}

#[tokio::test(start_paused = true)]
async fn a_kernel_without_registrations_refuses_all() {
    let world = World::with(|config| config.max = 0, |builder| builder);
    refused(world.register(operator(), count("a")).await, 4100, "not registered here");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_one_caller_is_limited_and_another_caller_is_served() {
    let world = World::with(|config| config.per_minute = 3, |builder| builder);
    for _ in 0..3 {
        refused(world.register(maker(), json!({ "id": "?" })).await, -32602, "id");
    }
    let error = refused(world.deregister(maker(), "a").await, 3000, "too fast");
    assert_eq!(error.as_recovery().unwrap().retry_after_ms, Some(60_000));
    let two = Principal::local().agent("maker-two");
    world.register(two, count("a")).await.unwrap();
    tokio::time::advance(Duration::from_mins(1)).await;
    refused(world.deregister(maker(), "b").await, 4004, "b");
}

#[tokio::test(start_paused = true)]
async fn lists_show_registrations_with_their_state() {
    let world = World::new();
    world.fake.configure("files");
    world.register(maker(), count("made")).await.unwrap();
    world.approve().await.unwrap();
    let mut waits = count("waits");
    waits["mgp"] = json!({ "extensions": ["streaming"] });
    world.register(maker(), waits).await.unwrap();
    world.fake.broken.store(1, Ordering::Relaxed);
    world.register(operator(), count("broken")).await.unwrap();

    let router = list_router(world.registrations.fleet(), Arc::new(AllVisible));
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
    // Callers who are not operators must not see servers without tools, e.g. a server that still waits.
    assert_eq!(listed(maker(), "{}").await, ["made connected", "files connected"]);

    let known = world.registrations.fleet().known();
    let waits = &known.iter().find(|it| it.summary.id == "waits").unwrap().summary;
    assert_eq!(waits.extra.get("registration").unwrap().as_str(), "\"pending_approval\"");
    assert_eq!(waits.trust_level.as_ref().unwrap().as_str(), "sandboxed");
    assert_eq!(waits.extensions.join(" "), "streaming");
}

#[tokio::test(start_paused = true)]
async fn a_refused_commit_changes_nothing_and_a_late_one_is_found() {
    let mut world = World::new();
    // With `mood` 1, the store commits a change but never answers. With `mood` 2, the store refuses the change.
    let mood = Arc::new(AtomicU32::new(2));
    let current_mood = Arc::clone(&mood);
    let store = FaultyStore::new(world.store.clone()).on_commit(move |store, change| {
        match current_mood.load(Ordering::Relaxed) {
            1 => {
                drop(store.inner().commit(change));
                Box::pin(std::future::pending())
            }
            2 => store_busy("it is full"),
            _ => store.inner().commit(change),
        }
    });
    let store = Arc::new(store);
    let servers = Arc::new(Shared(Arc::clone(&world.fake)));
    world.registrations =
        Registrations::builder(store, servers).config(config(&world.folder)).build();
    world.registrations.open().await.unwrap();
    refused(world.register(operator(), count("a")).await, 3001, "it is full");
    assert_eq!(world.stored().await, 0);
    mood.store(1, Ordering::Relaxed);
    refused(world.register(operator(), count("a")).await, 3003, "may still be kept");
    mood.store(0, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.fake.log(), ["start a --all"], "a stored record is worked on");
    refused(world.register(operator(), count("a")).await, 4101, "a");
    mood.store(1, Ordering::Relaxed);
    refused(world.deregister(operator(), "a").await, 3003, "may still be kept");
    mood.store(0, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(world.fake.log(), ["drain a 30", "remove a"]);
    assert_eq!(world.stored().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_cannot_be_recorded_is_not_made() {
    let full = Arc::new(RefusingAudit(AuditError::Full));
    let world = World::with(|_| {}, |builder| builder.audit(full));
    refused(world.register(operator(), count("a")).await, 2000, "nothing was changed");
    assert_eq!(world.stored().await, 0);
    assert!(world.fake.log().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_log_that_takes_its_events_from_the_store_gets_them_with_the_change() {
    struct Outbox;
    impl AuditSink for Outbox {
        fn begin(&self, _: CallRecord) -> AuditFuture<Ticket> {
            AuditFuture::Ready(Err(AuditError::Closed))
        }
        fn record(&self, _: AuditEvent) -> AuditFuture<()> {
            panic!("the sink takes events from the store")
        }
        fn outbox(&self, _: &dyn Store) -> Option<&str> {
            Some("log")
        }
    }
    let world = World::with(|_| {}, |builder| builder.audit(Arc::new(Outbox)));
    world.register(maker(), count("a")).await.unwrap();
    let pending = world.store.pending_events("log", 9).await.unwrap();
    let names: Vec<_> = pending.iter().map(|it| it.event.event_type.as_str()).collect();
    assert_eq!(names, ["dev.cloto.server_registered", "dev.cloto.approval_requested"]);
}

/// Checks that the futures can be sent to another thread.
#[test]
fn futures_can_be_sent() {
    fn sent<T: Send>(_: T) {}
    let world = World::new();
    let (cx, by) = (mock::client(Stack::new(world.registrations.router())).cx, operator());
    let (server, hash) = (ServerId::from("a"), mgp_types::Sha256Hash::digest(b""));
    sent(world.registrations.register(&cx, mgp_types::mgp::RegisterParams::new("a")));
    sent(world.registrations.deregister(&cx, mgp_types::mgp::DeregisterParams::new("a")));
    sent(world.registrations.approve(&by, &server, &hash, &[]));
    sent(world.registrations.reject(&by, &server, &hash));
    sent(world.registrations.open());
    sent(world.registrations.reconfigured());
}
