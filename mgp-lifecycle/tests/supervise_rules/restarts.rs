//! Tests of the number and the delay of restarts: the window, the waits, the limit (MGP §11.5).

use std::time::Duration;

use mgp_lifecycle::{SuperviseConfig, SupervisorEvent};
use mgp_types::mgp::ServerState;

use super::world::{World, clean_exit, config, crash, ms, secs, start_failed};

#[test]
fn five_restarts_and_the_sixth_exit_ends_in_error() {
    let mut world = World::connected(SuperviseConfig::default());
    for _ in 0..5 {
        assert!(world.crash_after(secs(1)));
    }
    assert!(!world.crash_after(secs(1)));
    assert_eq!((world.starts.len(), world.machine.restarts()), (6, 5));
    let rest = world.rest();
    assert_eq!((rest.state, rest.restarts), (ServerState::Error, 5));
    assert_eq!(
        &*rest.reason,
        "restart_limit_exceeded: 5 restarts within 300 s; exited with code 1"
    );
    assert_eq!(rest.limit.unwrap().restarts, 5);
    assert_eq!(rest.limit.unwrap().window, secs(300));
}

#[test]
fn the_limit_is_reported_once() {
    let mut world = World::connected(SuperviseConfig::default());
    world.crash_loop(secs(1));
    for event in [
        crash(),
        SupervisorEvent::Tick,
        SupervisorEvent::Stopped,
        SupervisorEvent::Ready,
        SupervisorEvent::Unhealthy("x".into()),
    ] {
        world.pass(secs(1000));
        world.send(event);
    }
    assert_eq!((world.gave_up.len(), world.starts.len()), (1, 6));
    let limits = world.reasons.iter().filter(|reason| reason.contains("restart_limit_exceeded"));
    assert_eq!(limits.count(), 1);
    assert_eq!(world.path(2), "connected error");
}

#[test]
fn failed_starts_count_like_crashes() {
    let mut world = World::new(SuperviseConfig::default());
    world.send(SupervisorEvent::Start);
    for _ in 0..5 {
        world.send(start_failed("connection refused"));
        world.wait();
    }
    world.send(start_failed("connection refused"));
    assert_eq!((world.starts.len(), world.gave_up.len()), (6, 1));
}

#[test]
fn what_cannot_start_is_not_tried_five_times() {
    let mut world = World::new(SuperviseConfig::default());
    for _ in 0..2 {
        world.send(SupervisorEvent::Start);
        let how = "no such program".to_owned();
        world.send(SupervisorEvent::StartFailed { how, is_permanent: true });
        world.send(SupervisorEvent::Stopped);
        let rest = world.rest();
        assert_eq!((rest.state, rest.is_start_failure), (ServerState::Error, true));
        assert_eq!((&*rest.reason, rest.limit), ("no such program", None));
    }
    assert_eq!(world.starts.len(), 2, "once per request");
    world.send(SupervisorEvent::Start);
    world.send(SupervisorEvent::Ready);
    assert!(world.crash_after(secs(1)), "it did start, so a crash is followed by a restart");
}

#[test]
fn a_server_without_a_limit_is_tried_again_without_end() {
    let mut config = SuperviseConfig::default();
    config.gives_up = false;
    let mut world = World::new(config);
    world.send(SupervisorEvent::Start);
    for number in 0..200 {
        let before = world.now;
        world.send(start_failed("connection refused"));
        world.wait();
        let waited = world.now.saturating_sub(before);
        assert!(waited <= secs(30) && (number < 6 || waited >= secs(22)), "{number}: {waited:?}");
    }
    world.send(SupervisorEvent::Ready);
    world.pass(secs(31));
    let before = world.now;
    world.send(crash());
    world.wait();
    assert!(world.now.saturating_sub(before) <= secs(1), "after a connection that lasted");
    assert_eq!((world.starts.len(), world.gave_up.len()), (202, 0));
}

#[test]
fn the_policy_always_has_the_same_limit_for_successful_ends() {
    let mut world = World::connected(config("always"));
    for _ in 0..5 {
        world.send(clean_exit());
        world.wait();
        world.send(SupervisorEvent::Ready);
    }
    world.send(clean_exit());
    assert_eq!(world.path(2), "connected error");
    assert_eq!((world.starts.len(), world.gave_up.len()), (6, 1));
}

#[test]
fn a_new_connection_does_not_reset_the_count() {
    let mut world = World::connected(SuperviseConfig::default());
    // Each run takes 59 s, so there are six ends within 295 s of connected time.
    for _ in 0..5 {
        assert!(world.crash_after(secs(59)));
    }
    assert!(!world.crash_after(secs(59)));
    assert_eq!(world.gave_up.len(), 1);
}

#[test]
fn a_server_that_runs_long_enough_is_restarted_for_ever() {
    let mut world = World::connected(SuperviseConfig::default());
    for _ in 0..1000 {
        assert!(world.crash_after(secs(60)));
    }
    assert_eq!(world.machine.restarts(), 1000);
}

#[test]
fn a_stable_period_resets_count_and_waits() {
    let mut world = World::connected(SuperviseConfig::default());
    for _ in 0..5 {
        assert!(world.crash_after(secs(1)));
    }
    world.pass(secs(300));
    for number in 0..5 {
        world.send(crash());
        let wait = world.wait();
        assert!(wait >= ms(750) && (number > 0 || wait <= secs(1)), "{number}: {wait:?}");
        world.send(SupervisorEvent::Ready);
    }
    world.send(crash());
    assert_eq!((world.gave_up.len(), world.starts.len()), (1, 11));
}

#[test]
fn a_limit_of_zero_never_restarts() {
    for policy in ["on_failure", "always"] {
        let mut none = config(policy);
        none.max_restarts = 0;
        let mut world = World::connected(none);
        world.send(crash());
        assert_eq!((world.rest().state, world.starts.len()), (ServerState::Error, 1));
        assert_eq!(world.rest().limit.unwrap().restarts, 0);
        world.send(SupervisorEvent::Restart);
        assert_eq!(world.starts.len(), 2, "a requested restart does not count");
    }
}

#[test]
fn waits_double_with_jitter_up_to_the_longest() {
    for seed in 0..50 {
        let mut many = SuperviseConfig::default();
        many.max_restarts = 8;
        let mut world = World::seeded(many, seed);
        world.send(SupervisorEvent::Start);
        world.send(SupervisorEvent::Ready);
        for full in [1, 2, 4, 8, 16, 30, 30, 30] {
            world.send(crash());
            let waited = world.wait();
            assert!(waited <= secs(full), "{waited:?} of {full}");
            assert!(waited >= secs(full) * 3 / 4, "{waited:?} of {full}");
            world.send(SupervisorEvent::Ready);
        }
    }
}

#[test]
fn two_servers_wait_differently() {
    let waits: Vec<Duration> = (0..20)
        .map(|seed| {
            let mut world = World::seeded(SuperviseConfig::default(), seed);
            world.send(SupervisorEvent::Start);
            world.send(SupervisorEvent::Ready);
            world.send(crash());
            world.wait()
        })
        .collect();
    let (low, high) = (waits.iter().min().unwrap(), waits.iter().max().unwrap());
    assert!(*high > *low + ms(100), "{waits:?}");
}

#[test]
fn a_crash_loop_ends_even_if_its_waits_are_longer_than_the_window() {
    let mut short = SuperviseConfig::default();
    (short.window, short.backoff_base) = (secs(2), secs(20));
    let mut world = World::connected(short);
    world.crash_loop(ms(10));
    assert_eq!((world.starts.len(), world.gave_up.len()), (6, 1));
}

#[test]
fn no_wait_and_a_longest_wait_below_the_first_are_allowed() {
    let mut odd = SuperviseConfig::default();
    odd.backoff_base = Duration::ZERO;
    let mut world = World::connected(odd.clone());
    world.send(crash());
    assert_eq!(world.path(3), "error restarting connecting", "no wait at all");
    (odd.backoff_base, odd.backoff_max) = (secs(10), secs(2));
    let mut world = World::connected(odd.clone());
    world.send(crash());
    assert!(world.wait() <= secs(2));
    (odd.backoff_base, odd.backoff_max) = (secs(10), Duration::ZERO);
    let mut world = World::connected(odd);
    world.send(crash());
    assert!(world.is(&ServerState::Connecting));
}

#[test]
fn huge_values_neither_allocate_nor_overflow() {
    let mut huge = SuperviseConfig::default();
    (huge.max_restarts, huge.window) = (u32::MAX, Duration::MAX);
    (huge.backoff_base, huge.backoff_max) = (Duration::MAX, Duration::MAX);
    (huge.start_timeout, huge.stop_timeout) = (Duration::MAX, Duration::MAX);
    let mut world = World::connected(huge);
    for _ in 0..100 {
        world.send(crash());
        assert!(world.wait() <= secs(3600));
        world.send(SupervisorEvent::Ready);
    }
    assert_eq!(world.starts.len(), 101);
    world.now = Duration::MAX;
    world.send(crash());
    world.send(SupervisorEvent::Tick);
    world.now = Duration::ZERO;
    world.send(SupervisorEvent::Ready);
    world.send(crash());
    assert!(world.machine.deadline().is_some());
}

#[test]
fn a_long_reason_is_clipped() {
    let mut world = World::connected(SuperviseConfig::default());
    world.send(SupervisorEvent::Unhealthy("é".repeat(10_000)));
    assert!(world.reasons.iter().all(|reason| reason.len() <= 512 + "…".len()));
}
