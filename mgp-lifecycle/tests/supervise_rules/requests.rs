//! Tests that requests to stop, start or restart a server override what its supervisor is doing, at any moment (MGP
//! §11.5).

use mgp_lifecycle::{SuperviseConfig, SupervisorEvent};
use mgp_types::mgp::{ServerState, ShutdownReason};

use super::world::{World, clean_exit, config, crash, secs, start_failed};

const OPERATOR: ShutdownReason = ShutdownReason::OperatorRequest;

#[test]
fn a_stop_during_a_wait_ends_the_restarts() {
    let mut world = World::connected(config("always"));
    world.send(crash());
    assert!(world.machine.deadline().is_some());
    world.send(SupervisorEvent::Stop(OPERATOR));
    assert_eq!(world.machine.deadline(), None);
    assert_eq!(
        (world.rest().state, &*world.rest().reason),
        (ServerState::Error, "operator_request")
    );
    world.pass(secs(1000));
    world.send(SupervisorEvent::Tick);
    assert_eq!(world.starts.len(), 1);

    let mut world = World::connected(config("always"));
    world.send(clean_exit());
    world.send(SupervisorEvent::Stop(OPERATOR));
    assert_eq!(
        (world.rest().state, &*world.rest().reason),
        (ServerState::Disconnected, "operator_request")
    );
    world.pass(secs(1000));
    world.send(SupervisorEvent::Tick);
    assert_eq!(world.starts.len(), 1);
}

#[test]
fn a_stop_during_a_start_stops_the_process_tree() {
    let mut world = World::new(config("always"));
    world.stops_at_once = false;
    world.send(SupervisorEvent::Start);
    world.send(SupervisorEvent::Stop(OPERATOR));
    assert_eq!(world.stops, [Some(OPERATOR)]);
    assert_eq!(world.machine.rest(), None, "not before the process tree has ended");
    for late in [SupervisorEvent::Ready, crash(), start_failed("stopped")] {
        world.send(late);
    }
    world.send(SupervisorEvent::Stopped);
    assert_eq!(world.path(9), "registered connecting disconnected");
    assert_eq!(world.starts.len(), 1);
}

#[test]
fn a_stop_during_the_cleanup_of_a_crash_ends_the_restarts() {
    let mut world = World::connected(config("always"));
    world.stops_at_once = false;
    world.send(crash());
    world.send(SupervisorEvent::Stop(OPERATOR));
    world.send(SupervisorEvent::Stopped);
    assert_eq!(
        (world.rest().state, &*world.rest().reason),
        (ServerState::Error, "operator_request")
    );
    assert_eq!(world.starts.len(), 1);
}

#[test]
fn a_crash_during_a_drain_does_not_count() {
    let mut world = World::connected(config("always"));
    world.stops_at_once = false;
    world.send(SupervisorEvent::Stop(OPERATOR));
    world.send(crash());
    assert!(world.is(&ServerState::Draining));
    world.send(SupervisorEvent::Stopped);
    assert_eq!(world.path(3), "connected draining disconnected");
    assert_eq!(world.starts.len(), 1);
}

#[test]
fn a_requested_restart_resets_the_count_and_starts_at_once() {
    let mut world = World::connected(SuperviseConfig::default());
    world.crash_loop(secs(1));
    world.send(SupervisorEvent::Restart);
    assert_eq!(world.path(3), "error restarting connecting");
    assert_eq!(world.starts.last(), Some(&world.now));
    world.send(SupervisorEvent::Ready);
    for _ in 0..5 {
        assert!(world.crash_after(secs(1)), "five restarts are allowed again");
    }
    assert!(!world.crash_after(secs(1)));
    assert_eq!(world.gave_up.len(), 2);
}

#[test]
fn a_requested_restart_ends_a_wait() {
    for wish in [SupervisorEvent::Restart, SupervisorEvent::Start] {
        let mut world = World::connected(SuperviseConfig::default());
        for _ in 0..4 {
            world.crash_after(secs(1));
        }
        world.send(crash());
        assert_eq!(world.starts.len(), 5);
        world.send(wish);
        assert_eq!((world.starts.len(), world.starts.last()), (6, Some(&world.now)));
        world.send(SupervisorEvent::Ready);
        world.send(crash());
        assert!(world.wait() <= secs(1), "the waits start again from the first");
    }
}

#[test]
fn a_restart_of_a_running_server_drains_it_whatever_its_policy() {
    for policy in ["never", "on_failure", "always"] {
        let mut world = World::connected(config(policy));
        world.send(SupervisorEvent::Restart);
        world.send(SupervisorEvent::Ready);
        assert_eq!(world.path(5), "connected draining restarting connecting connected");
        assert_eq!(world.stops, [Some(OPERATOR)]);
    }
}

#[test]
fn the_latest_request_counts() {
    let mut world = World::connected(SuperviseConfig::default());
    world.stops_at_once = false;
    world.send(SupervisorEvent::Restart);
    world.send(SupervisorEvent::Stop(OPERATOR));
    world.send(SupervisorEvent::Stopped);
    assert_eq!(world.path(2), "draining disconnected");

    let mut world = World::connected(SuperviseConfig::default());
    world.stops_at_once = false;
    world.send(SupervisorEvent::Stop(OPERATOR));
    world.send(SupervisorEvent::Start);
    assert_eq!(world.starts.len(), 1, "not before the old one has ended");
    world.send(SupervisorEvent::Stopped);
    assert_eq!(world.path(3), "draining restarting connecting");
}

#[test]
fn a_changed_configuration_does_not_undo_a_stop() {
    for change in [ShutdownReason::ConfigurationChange, ShutdownReason::ResourceLimit] {
        let mut world = World::connected(config("always"));
        world.stops_at_once = false;
        world.send(SupervisorEvent::Stop(OPERATOR));
        world.send(SupervisorEvent::Stop(change.clone()));
        world.send(SupervisorEvent::Stopped);
        world.send(SupervisorEvent::Stop(change));
        assert_eq!((world.rest().state, world.starts.len()), (ServerState::Disconnected, 1));
    }
}

#[test]
fn starting_a_running_server_changes_nothing() {
    let mut world = World::new(SuperviseConfig::default());
    for event in [
        SupervisorEvent::Start,
        SupervisorEvent::Start,
        SupervisorEvent::Ready,
        SupervisorEvent::Start,
    ] {
        world.send(event);
    }
    assert_eq!(
        (world.starts.len(), world.path(9).as_str()),
        (1, "registered connecting connected")
    );
}

#[test]
fn stopping_a_server_that_never_started_rests() {
    let mut world = World::new(SuperviseConfig::default());
    assert_eq!(world.machine.rest(), None);
    world.send(SupervisorEvent::Stop(ShutdownReason::ConfigurationChange));
    assert_eq!(world.machine.rest(), None);
    world.send(SupervisorEvent::Stop(OPERATOR));
    assert_eq!(world.rest().state, ServerState::Registered);
    assert_eq!(world.stops.len(), 0);
}
