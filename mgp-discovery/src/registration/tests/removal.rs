//! Tests of deregistration.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_long_drain_is_reported_and_continues_by_itself() {
    let world = World::new();
    world.register(operator(), count("made")).await.unwrap();
    let held = Arc::new(Semaphore::new(0));
    *world.fake.held.lock().unwrap() = Some(Arc::clone(&held));
    let reply = world.deregister(operator(), "made").await.unwrap();
    assert_eq!(reply["status"], "draining");
    // A repeated request must wait for the same drain, and the id must not be free yet.
    assert_eq!(world.deregister(operator(), "made").await.unwrap()["status"], "draining");
    refused(world.register(operator(), count("made")).await, 4101, "try again once it is gone");
    let known = world.registrations.fleet().known();
    assert_eq!(known.len(), 1);
    assert_eq!(world.stored().await, 1);
    held.add_permits(1);
    settle().await;
    assert_eq!(world.fake.log(), ["start made --all", "drain made 30", "remove made"]);
    assert_eq!(world.stored().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_drains_is_removed_after_its_time() {
    let world = World::new();
    world.register(operator(), count("made")).await.unwrap();
    *world.fake.held.lock().unwrap() = Some(Arc::new(Semaphore::new(0)));
    assert_eq!(world.deregister(operator(), "made").await.unwrap()["status"], "draining");
    tokio::time::sleep(Duration::from_secs(41)).await;
    assert_eq!(world.stored().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_removal_is_tried_again() {
    let world = World::new();
    world.register(operator(), count("made")).await.unwrap();
    world.fake.stuck.store(3, Ordering::Relaxed);
    assert_eq!(world.deregister(operator(), "made").await.unwrap()["status"], "draining");
    assert_eq!(world.stored().await, 1, "its record stays until everything is removed");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(world.stored().await, 0);
    assert_eq!(world.fake.log().iter().filter(|it| *it == "remove made").count(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_and_a_kernel_that_is_killed_change_nothing() {
    // Drop the request after each number of polls, i.e. at each point at which it waits.
    for polls in 1..40 {
        let world = World::new();
        world.register(operator(), count("made")).await.unwrap();
        world.fake.log();
        let mut client = world.client(operator());
        let mut request = client.call(DiscoveryDeregister::METHOD, r#"{"id":"made"}"#);
        let done = polled(&mut request, polls).await;
        drop(request);
        tokio::time::sleep(Duration::from_secs(1)).await;
        // Either the removal never began, or it must have been completed.
        match world.stored().await {
            1 => assert!(world.fake.log().is_empty(), "after {polls} polls"),
            _ => assert_eq!(world.fake.log(), ["drain made 30", "remove made"], "after {polls}"),
        }
        if done {
            break;
        }
    }

    for polls in 1..40 {
        let world = World::new();
        let mut client = world.client(operator());
        let mut request = client.call(DiscoveryRegister::METHOD, &count("made").to_string());
        let done = polled(&mut request, polls).await;
        drop(request);
        tokio::time::sleep(Duration::from_secs(1)).await;
        match world.stored().await {
            0 => assert!(world.fake.log().is_empty(), "after {polls} polls"),
            _ => assert_eq!(world.fake.log(), ["start made --all"], "after {polls}"),
        }
        if done {
            break;
        }
    }

    let mut world = World::new();
    world.register(operator(), count("made")).await.unwrap();
    *world.fake.held.lock().unwrap() = Some(Arc::new(Semaphore::new(0)));
    world.deregister(operator(), "made").await.unwrap();
    world.killed();
    world.registrations.open().await.unwrap();
    settle().await;
    assert_eq!(world.fake.log(), ["drain made 30", "remove made"], "it was not started");
    assert_eq!(world.stored().await, 0);
}

#[tokio::test(start_paused = true)]
async fn only_its_creator_and_operators_deregister_a_server() {
    let world = World::new();
    world.fake.configure("made-by-hand");
    world.fake.configure("files");
    world.register(maker(), count("made")).await.unwrap();
    world.approve().await.unwrap();
    world.register(operator(), count("secret")).await.unwrap();
    let other = Principal::local().agent("maker-two");
    // This caller can see the server, so the error contains the reason.
    let error = refused(
        world.deregister(other.clone(), "made").await,
        1000,
        "the principal who registered",
    );
    assert_eq!(
        error.as_recovery().unwrap().details.as_ref().unwrap().get("server_id").unwrap().as_str(),
        "\"made\""
    );
    refused(world.deregister(other.clone(), "made-by-hand").await, 4102, "configuration");
    // For a caller that cannot see a server, the server must seem unknown.
    for id in ["secret", "files", "nothing"] {
        refused(world.deregister(other.clone(), id).await, 4004, "no server");
    }
    refused(world.deregister(operator(), "files").await, 4102, "configuration");
    refused(world.deregister(operator(), "nothing").await, 4004, "mgp/discovery/list");
    let same_agent_of_another_tenant = Principal::new("acme", "local").agent("maker");
    refused(
        world.deregister(same_agent_of_another_tenant, "made").await,
        1000,
        "the principal who",
    );
    assert_eq!(world.deregister(maker(), "made").await.unwrap()["status"], "deregistered");
}

#[tokio::test(start_paused = true)]
async fn a_hanging_start_is_aborted_when_its_server_is_deregistered() {
    struct Hangs(Arc<Fake>);
    impl ServerCatalog for Hangs {
        fn known(&self) -> Vec<KnownServer> {
            Vec::new()
        }
    }
    impl ServerRunner for Hangs {
        fn is_configured(&self, _: &ServerId) -> bool {
            false
        }
        fn start(&self, _: ApprovedRegistration) -> BoxFuture<'static, Result<(), RpcError>> {
            Box::pin(std::future::pending())
        }
        fn drain(&self, server: &ServerId, within: Duration) -> BoxFuture<'static, ()> {
            Shared(Arc::clone(&self.0)).drain(server, within)
        }
        fn remove(&self, server: &ServerId) -> BoxFuture<'static, Result<(), RpcError>> {
            Shared(Arc::clone(&self.0)).remove(server)
        }
    }
    let mut world = World::new();
    let servers = Arc::new(Hangs(Arc::clone(&world.fake)));
    world.registrations = Registrations::builder(Arc::new(world.store.clone()), servers)
        .config(config(&world.folder))
        .build();
    let reply = world.register(operator(), count("made")).await.unwrap();
    assert_eq!(reply["status"], "connecting");
    let known = world.registrations.fleet().known();
    assert_eq!(known[0].summary.status, ServerState::Connecting);
    let reply = world.deregister(operator(), "made").await.unwrap();
    assert_eq!(reply["status"], "deregistered");
    assert_eq!(world.fake.log(), ["drain made 30", "remove made"]);
}
