//! Tests of properties that hold for every configuration and every order of events.

use std::time::Duration;

use mgp_lifecycle::{SuperviseConfig, SupervisorEvent};
use mgp_types::mgp::{RestartPolicy, ServerState, ShutdownReason};
use mgp_types::service::Exit;
use proptest::prelude::*;

use super::world::{World, ms};

#[derive(Clone, Debug)]
enum Step {
    Tell(SupervisorEvent),
    Pass(Duration),
    /// Advances the clock to the deadline, if any.
    Due,
}

fn configs() -> impl Strategy<Value = SuperviseConfig> {
    let policies = prop_oneof![Just("never"), Just("on_failure"), Just("always"), Just("?")];
    let times = (0..400_u64, 0..5_000_u64, 0..60_000_u64, 0..60_000_u64, 0..60_000_u64);
    (policies, 0..7_u32, times).prop_map(|(policy, max, (window, base, top, start, stop))| {
        let mut config = SuperviseConfig::default();
        config.policy = RestartPolicy::from(policy);
        (config.max_restarts, config.window) = (max, Duration::from_secs(window));
        (config.backoff_base, config.backoff_max) = (ms(base), ms(top));
        (config.start_timeout, config.stop_timeout) = (ms(start), ms(stop));
        config
    })
}

/// The kinds of requests that occur among the events.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Requests {
    Present,
    Absent,
}

fn steps(requests: Requests) -> impl Strategy<Value = Vec<Step>> {
    let kinds = if requests == Requests::Present { 0..46_u8 } else { 6..46_u8 };
    // Generate steps as numbers, because a proptest strategy for each step would take most of the time.
    prop::collection::vec((kinds, 0..100_000_u64), 0..200)
        .prop_map(|steps| steps.into_iter().map(|(kind, detail)| step(kind, detail)).collect())
}

fn step(kind: u8, detail: u64) -> Step {
    Step::Tell(match kind {
        0 | 1 => SupervisorEvent::Start,
        2 | 3 => SupervisorEvent::Restart,
        4 | 5 => SupervisorEvent::Stop(reason(detail)),
        6..14 => SupervisorEvent::Ready,
        14..16 => SupervisorEvent::StartFailed {
            how: "refused".into(),
            is_permanent: detail.is_multiple_of(8),
        },
        16..22 => exit(detail),
        22 if detail.is_multiple_of(2) => SupervisorEvent::Unhealthy("silent".into()),
        22 => SupervisorEvent::ReportedUnhealthy("no database".into()),
        23..30 => SupervisorEvent::Stopped,
        30..32 => SupervisorEvent::Tick,
        32..38 => return Step::Pass(ms(detail)),
        _ => return Step::Due,
    })
}

fn reason(n: u64) -> ShutdownReason {
    let known = ShutdownReason::KNOWN;
    let n = usize::try_from(n).expect("a small number") % (known.len() + 1);
    known.get(n).cloned().unwrap_or_else(|| "whim".into())
}

fn exit(n: u64) -> SupervisorEvent {
    let exit = if n.is_multiple_of(2) { Exit::success("ended") } else { Exit::failure("crashed") };
    SupervisorEvent::Exited(if n % 10 < 2 { exit.because(reason(n / 10)) } else { exit })
}

/// Applies all steps; every change is checked.
fn walk(world: &mut World, steps: Vec<Step>) {
    for step in steps {
        match step {
            Step::Tell(event) => world.send(event),
            Step::Pass(time) => world.pass(time),
            Step::Due => {
                if world.machine.deadline().is_some() {
                    world.wait();
                }
            }
        }
    }
}

fn runs_or_rests(world: &World) -> bool {
    use ServerState::{Connected, Disconnected, Error, Registered};
    matches!(world.machine.state(), Connected | Disconnected | Error | Registered)
        && world.machine.deadline().is_none()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_more_starts_than_the_window_allows(config in configs(), walked in steps(Requests::Absent), seed: u64) {
        let (window, max) = (config.window.max(Duration::from_secs(1)), config.max_restarts as usize);
        let mut world = World::seeded(config, seed);
        world.stops_at_once = false;
        world.send(SupervisorEvent::Start);
        walk(&mut world, walked);
        for starts in world.starts.windows(max + 2) {
            prop_assert!(starts[max + 1] >= starts[0] + window, "{:?}", world.starts);
        }
    }

    #[test]
    fn it_runs_or_rests_after_the_last_event(
        config in configs(), walked in steps(Requests::Present), seed: u64, becomes_ready: bool, stops_at_once: bool,
    ) {
        let max = config.max_restarts as usize;
        let mut world = World::seeded(config, seed);
        world.stops_at_once = false;
        world.send(SupervisorEvent::Start);
        walk(&mut world, walked);
        world.stops_at_once = stops_at_once;
        for _ in 0..3 * (max + 2) {
            let before = (world.states.len(), world.machine.deadline());
            if becomes_ready && world.is(&ServerState::Connecting) && !world.machine.is_stopping() {
                world.send(SupervisorEvent::Ready);
            }
            if world.machine.deadline().is_some() {
                world.wait();
                prop_assert_ne!(before, (world.states.len(), world.machine.deadline()), "a wait leads to a change");
            }
        }
        prop_assert!(runs_or_rests(&world), "{:?}", world.machine);
        prop_assert_eq!(world.machine.rest().is_some(), !world.is(&ServerState::Connected));
    }

    #[test]
    fn a_final_stop_ends_the_restarts_at_any_moment(config in configs(), before in steps(Requests::Present), after in steps(Requests::Absent), seed: u64) {
        let mut world = World::seeded(config, seed);
        world.stops_at_once = false;
        walk(&mut world, before);
        world.send(SupervisorEvent::Stop(ShutdownReason::OperatorRequest));
        let starts = world.starts.len();
        walk(&mut world, after);
        if world.machine.deadline().is_some() {
            world.wait();
        }
        prop_assert_eq!(world.starts.len(), starts);
        prop_assert!(world.machine.rest().is_some());
    }

    #[test]
    fn a_request_can_always_start_it(config in configs(), walked in steps(Requests::Present), seed: u64, restarts: bool) {
        let mut world = World::seeded(config, seed);
        world.stops_at_once = false;
        walk(&mut world, walked);
        world.send(if restarts { SupervisorEvent::Restart } else { SupervisorEvent::Start });
        if world.machine.is_stopping() {
            world.send(SupervisorEvent::Stopped);
        }
        prop_assert!(matches!(world.machine.state(), ServerState::Connecting | ServerState::Connected));
        prop_assert_eq!(world.is(&ServerState::Connected), world.machine.deadline().is_none());
    }

    #[test]
    fn one_server_at_a_time(config in configs(), walked in steps(Requests::Present), seed: u64) {
        // Before a second start, the first server is stopped, and the stop is complete or was ended by a kill.
        let mut world = World::seeded(config, seed);
        walk(&mut world, walked);
        prop_assert!(world.stops.len() + world.kills + 1 >= world.starts.len());
    }
}
