//! Tests of starts that take long, fail, or never end (MGP §11.5).

use mgp_lifecycle::{SuperviseConfig, SupervisorEvent};
use mgp_types::mgp::{ServerState, ShutdownReason};

use super::world::{World, clean_exit, config, crash, secs};

#[test]
fn an_end_before_it_was_ready_is_a_failed_start() {
    let mut world = World::new(config("on_failure"));
    world.send(SupervisorEvent::Start);
    world.send(clean_exit());
    assert_eq!(world.path(3), "connecting error restarting");
    assert_eq!(world.reasons[1], "exited with code 0 before it was ready");
}

#[test]
fn a_start_that_continues_is_not_a_restart_whatever_the_policy() {
    let mut world = World::new(config("never"));
    world.send(SupervisorEvent::Start);
    world.send(SupervisorEvent::StartContinues);
    assert_eq!((world.path(9).as_str(), world.starts.len()), ("registered connecting", 2));
    assert_eq!((world.stops.len(), world.machine.restarts()), (1, 0));
    world.send(SupervisorEvent::Ready);
    assert!(world.is(&ServerState::Connected));
    // Only a start can continue, so the event has no effect on a connected server.
    world.send(SupervisorEvent::StartContinues);
    assert!(world.is(&ServerState::Connected));

    let mut world = World::new(config("always"));
    world.stops_at_once = false;
    world.send(SupervisorEvent::Start);
    world.send(SupervisorEvent::StartContinues);
    world.send(SupervisorEvent::Start);
    assert!(world.machine.is_restart_decided());
    world.send(SupervisorEvent::Stop(ShutdownReason::OperatorRequest));
    world.send(SupervisorEvent::Stopped);
    assert_eq!((world.path(2).as_str(), world.starts.len()), ("connecting disconnected", 1));
}

#[test]
fn starts_of_a_program_get_more_time_until_one_is_ready() {
    let mut world = World::new(config("on_failure"));
    world.send(SupervisorEvent::Start);
    for limit in [30, 60, 120, 120] {
        assert_eq!(world.wait(), secs(limit));
        assert!(world.reasons.contains(&format!("not ready within {limit} s")));
        world.wait();
    }
    world.send(SupervisorEvent::Ready);
    world.send(crash());
    world.wait();
    assert_eq!(world.wait(), secs(30));

    let mut remote = config("on_failure");
    remote.gives_up = false;
    let mut world = World::new(remote);
    world.send(SupervisorEvent::Start);
    for _ in 0..3 {
        assert_eq!(world.wait(), secs(30));
        world.wait();
    }
}

#[test]
fn the_next_start_waits_until_the_process_tree_has_ended() {
    let mut world = World::connected(SuperviseConfig::default());
    world.stops_at_once = false;
    world.send(crash());
    assert!(world.is(&ServerState::Restarting));
    world.pass(secs(20));
    world.send(SupervisorEvent::Tick);
    assert_eq!(world.starts.len(), 1, "something of it still runs");
    world.send(SupervisorEvent::Stopped);
    assert_eq!(world.starts.len(), 2, "the wait is over already");
}

#[test]
fn a_process_tree_that_does_not_end_is_killed() {
    let mut world = World::connected(SuperviseConfig::default());
    world.stops_at_once = false;
    world.send(crash());
    world.wait();
    assert_eq!((world.kills, world.starts.len(), world.now), (1, 2, secs(60)));
}

#[test]
fn a_server_over_its_resource_limit_during_a_start_has_failed() {
    let mut world = World::new(SuperviseConfig::default());
    world.send(SupervisorEvent::Start);
    world.send(SupervisorEvent::Stop(ShutdownReason::ResourceLimit));
    assert_eq!(world.path(3), "connecting error restarting");
}

#[test]
fn a_server_that_is_not_ready_cannot_be_unhealthy() {
    let mut world = World::new(SuperviseConfig::default());
    world.send(SupervisorEvent::Unhealthy("late".into()));
    world.send(SupervisorEvent::Start);
    world.send(SupervisorEvent::Unhealthy("late".into()));
    assert_eq!(world.path(9), "registered connecting");
}

#[test]
fn a_server_that_an_operator_stops_is_not_started_because_it_is_unhealthy() {
    let mut world = World::new(config("always"));
    world.stops_at_once = false;
    world.send(SupervisorEvent::Start);
    world.send(SupervisorEvent::Ready);
    world.send(SupervisorEvent::Stop(ShutdownReason::OperatorRequest));
    world.send(SupervisorEvent::Unhealthy("late".into()));
    world.send(SupervisorEvent::Stopped);
    assert_eq!(world.path(9), "registered connecting connected draining disconnected");
    assert_eq!((world.starts.len(), world.machine.deadline()), (1, None));
}
