//! Tests of the three restart policies for each reason why a server can end (MGP §11.5).

use mgp_lifecycle::SupervisorEvent;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::Exit;

use super::world::{World, clean_exit, config, crash, secs, start_failed};

/// Returns every event that ends the server and counts as a failure.
fn failures() -> Vec<SupervisorEvent> {
    vec![
        crash(),
        SupervisorEvent::Exited(Exit::failure("killed by signal 9")),
        SupervisorEvent::Exited(Exit::failure("the connection was lost")),
        SupervisorEvent::Unhealthy("three pings unanswered".into()),
    ]
}

#[test]
fn a_server_that_reports_that_it_is_unhealthy_is_drained_and_counts_as_failed() {
    let ill = || SupervisorEvent::ReportedUnhealthy("unhealthy: no database".into());
    for policy in ["on_failure", "always"] {
        let mut world = World::connected(config(policy));
        for _ in 0..5 {
            world.stops_at_once = false;
            world.send(ill());
            assert!(world.is(&ServerState::Draining) && world.machine.is_restart_decided());
            assert_eq!(world.reasons.last().unwrap(), "unhealthy: no database");
            // A further report changes nothing.
            world.send(ill());
            world.stops_at_once = true;
            world.send(SupervisorEvent::Stopped);
            assert_eq!(world.path(3), "connected draining restarting");
            world.wait();
            world.send(SupervisorEvent::Ready);
        }
        world.send(ill());
        assert_eq!(world.path(4), "connected draining restarting error");
        let reason = Some(ShutdownReason::ResourceLimit);
        assert!(world.stops.len() == 6 && world.stops.iter().all(|stop| *stop == reason));
        assert!(world.rest().limit.is_some());
        assert_eq!((world.starts.len(), world.gave_up.len()), (6, 1));
    }
    let mut world = World::connected(config("never"));
    world.send(ill());
    assert_eq!(world.path(4), "connected draining restarting error");
    assert_eq!(&*world.rest().reason, "unhealthy: no database");
    let mut world = World::new(config("always"));
    world.send(SupervisorEvent::Start);
    world.send(ill());
    assert!(world.is(&ServerState::Connecting), "it has not been connected yet");
}

#[test]
fn the_policy_never_restarts_nothing() {
    for end in failures() {
        let mut world = World::connected(config("never"));
        world.send(end);
        assert_eq!(world.path(9), "registered connecting connected error");
        assert_eq!((world.rest().state, world.rest().limit), (ServerState::Error, None));
    }
    let mut world = World::connected(config("never"));
    world.send(clean_exit());
    assert_eq!(world.rest().state, ServerState::Disconnected);
    let mut world = World::new(config("never"));
    world.send(SupervisorEvent::Start);
    world.send(start_failed("no such program"));
    assert_eq!(
        (world.rest().state, &*world.rest().reason),
        (ServerState::Error, "no such program")
    );
}

#[test]
fn the_policy_on_failure_restarts_after_each_kind_of_failure() {
    for end in failures() {
        let mut world = World::connected(config("on_failure"));
        world.send(end);
        assert_eq!(world.path(2), "error restarting");
        world.wait();
        world.send(SupervisorEvent::Ready);
        assert_eq!(
            world.path(9),
            "registered connecting connected error restarting connecting connected"
        );
        assert_eq!((world.starts.len(), world.machine.restarts()), (2, 1));
    }
    let mut world = World::new(config("on_failure"));
    world.send(SupervisorEvent::Start);
    world.send(start_failed("no such program"));
    world.wait();
    assert_eq!(world.path(9), "registered connecting error restarting connecting");
}

#[test]
fn an_unknown_policy_never_restarts() {
    let mut world = World::connected(config("sometimes"));
    world.send(crash());
    assert_eq!(world.rest().state, ServerState::Error);
}

#[test]
fn no_policy_restarts_after_a_final_stop() {
    for policy in ["never", "on_failure", "always"] {
        for reason in ["operator_request", "idle_timeout", "kernel_shutdown", "whim"] {
            let mut world = World::connected(config(policy));
            world.send(SupervisorEvent::Stop(reason.into()));
            assert_eq!(world.path(9), "registered connecting connected draining disconnected");
            assert_eq!(&*world.rest().reason, reason);
            assert_eq!(world.stops, [Some(ShutdownReason::from(reason))]);
            world.pass(secs(100_000));
            world.send(SupervisorEvent::Tick);
            assert_eq!(world.starts.len(), 1, "{policy} after {reason}");
        }
    }
}

#[test]
fn no_policy_restarts_a_server_that_another_peer_stopped() {
    for policy in ["never", "on_failure", "always"] {
        for exit in [Exit::success("exited with code 0"), Exit::failure("exited with code 3")] {
            let mut world = World::connected(config(policy));
            world.send(SupervisorEvent::Exited(exit.because(ShutdownReason::OperatorRequest)));
            assert!(world.machine.rest().is_some(), "{policy}");
        }
    }
}

#[test]
fn a_changed_configuration_restarts_at_once_and_resets_the_count() {
    for policy in ["never", "on_failure", "always"] {
        let mut world = World::connected(config(policy));
        for _ in 0..20 {
            world.send(SupervisorEvent::Stop(ShutdownReason::ConfigurationChange));
            assert_eq!(world.path(4), "connected draining restarting connecting");
            world.send(SupervisorEvent::Ready);
        }
        assert_eq!((world.starts.len(), world.now), (21, secs(0)));
        assert_eq!(world.machine.restarts(), 20);
    }
}

#[test]
fn a_server_over_its_resource_limit_restarts_but_not_for_ever() {
    for policy in ["on_failure", "always"] {
        let mut world = World::connected(config(policy));
        for _ in 0..5 {
            world.send(SupervisorEvent::Stop(ShutdownReason::ResourceLimit));
            assert_eq!(world.path(3), "connected draining restarting");
            world.wait();
            world.send(SupervisorEvent::Ready);
        }
        world.send(SupervisorEvent::Stop(ShutdownReason::ResourceLimit));
        assert_eq!(world.path(4), "connected draining restarting error");
        assert!(world.rest().limit.is_some());
        assert_eq!((world.starts.len(), world.gave_up.len()), (6, 1));
        assert_eq!(world.stops.last(), Some(&Some(ShutdownReason::ResourceLimit)));
    }
    let mut world = World::connected(config("never"));
    world.send(SupervisorEvent::Stop(ShutdownReason::ResourceLimit));
    assert_eq!(world.path(3), "connected draining disconnected");
}
