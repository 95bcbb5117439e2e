//! Tests of restarts, of changed files, and of changes of the configuration.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_restart_of_what_was_changed_meanwhile_is_refused_and_a_rejection_leaves_it_to_be_removed()
 {
    let world = World::new();
    world.register(operator(), script("made")).await.unwrap();
    let server = world.fake.running().remove(0);
    assert!(server.launch().await.is_ok());
    fs::remove_file(world.folder.join("made.py")).unwrap();
    let gone = server.launch().await.unwrap_err().to_string();
    assert!(gone.contains("`made` is not started") && gone.contains("cannot be read"), "{gone}");
    assert!(world.waiting().await.is_empty(), "a missing file is not up for approval");

    fs::write(world.folder.join("made.py"), "evil()").unwrap();
    let refused = RpcError::from(server.launch().await.unwrap_err());
    assert_eq!(refused.code().0, 2000);
    assert!(!refused.as_recovery().unwrap().is_retryable());
    assert!(server.launch().await.is_err(), "nor before it was approved");
    let waiting = world.waiting().await.remove(0);
    world.registrations.reject(&operator(), &waiting.server, &waiting.fingerprint).await.unwrap();
    world.fake.log();
    world.deregister(operator(), "made").await.unwrap();
    assert_eq!(world.fake.log(), ["drain made 30", "remove made"], "the server had tools and pins");
    assert_eq!(world.stored().await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_failed_start_is_reported_and_the_registration_stays() {
    let world = World::new();
    world.fake.broken.store(1, Ordering::Relaxed);
    let reply = world.register(operator(), count("made")).await.unwrap();
    assert_eq!(reply["status"], "error");
    assert!(reply["message"].as_str().unwrap().contains("no answer"), "{reply}");
    assert_eq!(
        world.new_events(),
        ["server_registered SUCCESS by ada", "server_registered FAILURE by kernel"]
    );
    assert_eq!(world.deregister(operator(), "made").await.unwrap()["status"], "deregistered");
}

#[tokio::test(start_paused = true)]
async fn the_configuration_takes_precedence_at_any_time() {
    let world = World::new();
    world.register(operator(), count("made")).await.unwrap();
    world.registrations.open().await.unwrap();
    let server = world.fake.running().remove(0);
    world.fake.log();

    // The reloaded configuration uses the id, so the registered server is drained and suspended.
    world.fake.configure("made");
    world.registrations.reconfigured().await.unwrap();
    assert_eq!(world.fake.log(), ["drain made 30"]);
    assert!(server.launch().await.is_err());
    world.registrations.reconfigured().await.unwrap();
    assert!(world.fake.log().is_empty(), "it is suspended already");
    // If the registration is removed while the configuration uses its id, only its record must be removed.
    let reply = world.deregister(operator(), "made").await.unwrap();
    assert_eq!(reply["status"], "deregistered");
    assert!(world.fake.log().is_empty());
    assert_eq!(world.stored().await, 0);
    refused(world.deregister(operator(), "made").await, 4102, "`mgp.toml`");
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_starts_nothing_and_is_not_overwritten() {
    use mgp_types::Payload;
    use mgp_types::store::Change;
    let world = World::new();
    let odd = Change::new().put("registrations", "made", Payload::from_trusted(r#"{"v":9}"#));
    world.store.commit(odd).await.unwrap();
    world.registrations.open().await.unwrap();
    settle().await;
    assert!(world.fake.log().is_empty());
    assert_eq!(world.register(operator(), count("made")).await.unwrap_err().code().0, 3001);
    assert!(world.register(operator(), count("other")).await.is_ok());
}
