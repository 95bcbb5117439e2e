//! The test setup: a supervisor, a clock, and a record of the supervisor's actions.

use std::time::Duration;

use mgp_lifecycle::{
    RestState, RestartLimitExceeded, SuperviseConfig, Supervisor, SupervisorAction, SupervisorEvent,
};
use mgp_types::mgp::{RestartPolicy, ServerState, ShutdownReason};
use mgp_types::service::Exit;

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn config(policy: &str) -> SuperviseConfig {
    let mut config = SuperviseConfig::default();
    config.policy = RestartPolicy::from(policy);
    config
}

pub(crate) fn start_failed(how: &str) -> SupervisorEvent {
    SupervisorEvent::StartFailed { how: how.into(), is_permanent: false }
}

pub(crate) fn crash() -> SupervisorEvent {
    SupervisorEvent::Exited(Exit::failure("exited with code 1"))
}

pub(crate) fn clean_exit() -> SupervisorEvent {
    SupervisorEvent::Exited(Exit::success("exited with code 0"))
}

/// One supervised server, with a record of all actions.
pub(crate) struct World {
    pub(crate) machine: Supervisor,
    pub(crate) now: Duration,
    /// All states so far, including the first.
    pub(crate) states: Vec<ServerState>,
    pub(crate) reasons: Vec<String>,
    pub(crate) starts: Vec<Duration>,
    pub(crate) stops: Vec<Option<ShutdownReason>>,
    pub(crate) kills: usize,
    pub(crate) gave_up: Vec<RestartLimitExceeded>,
    /// `true` if stops complete immediately.
    pub(crate) stops_at_once: bool,
}

impl World {
    pub(crate) fn new(config: SuperviseConfig) -> Self {
        Self::seeded(config, 7)
    }

    pub(crate) fn seeded(config: SuperviseConfig, seed: u64) -> Self {
        Self {
            machine: Supervisor::new(config, seed),
            now: Duration::ZERO,
            states: vec![ServerState::Registered],
            reasons: Vec::new(),
            starts: Vec::new(),
            stops: Vec::new(),
            kills: 0,
            gave_up: Vec::new(),
            stops_at_once: true,
        }
    }

    /// Creates a world whose server is connected.
    pub(crate) fn connected(config: SuperviseConfig) -> Self {
        let mut world = Self::new(config);
        world.send(SupervisorEvent::Start);
        world.send(SupervisorEvent::Ready);
        world
    }

    /// Sends an event, checks each change, and executes the actions.
    #[track_caller]
    pub(crate) fn send(&mut self, event: SupervisorEvent) {
        let mut stops = false;
        let event_text = format!("{event:?}");
        for action in self.machine.handle(event, self.now) {
            match action {
                SupervisorAction::Enter { from, to, reason, restarts } => {
                    assert_eq!(Some(&from), self.states.last(), "{event_text}");
                    assert!(from.can_become(&to), "{from} to {to} by {event_text}");
                    assert!(restarts <= self.machine.restarts());
                    self.states.push(to);
                    self.reasons.push(reason.to_string());
                }
                SupervisorAction::Start => self.starts.push(self.now),
                SupervisorAction::Stop { reason } => {
                    self.stops.push(reason);
                    stops = true;
                }
                SupervisorAction::Kill => self.kills += 1,
                SupervisorAction::GiveUp(limit) => self.gave_up.push(limit),
                _ => panic!("unknown action {action:?}"),
            }
        }
        assert_eq!(Some(self.machine.state()), self.states.last());
        if stops && self.stops_at_once {
            self.send(SupervisorEvent::Stopped);
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Advances the clock to the deadline and sends the tick; returns the time waited.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> Duration {
        let due = self.machine.deadline().expect("there is a deadline");
        let waited = due.saturating_sub(self.now);
        self.now = self.now.max(due);
        self.send(SupervisorEvent::Tick);
        waited
    }

    /// Lets the server run for a time and crash, and waits for a restart; returns whether there was one.
    pub(crate) fn crash_after(&mut self, time: Duration) -> bool {
        self.pass(time);
        self.send(crash());
        let again = self.machine.deadline().is_some();
        if again {
            self.wait();
            self.send(SupervisorEvent::Ready);
        }
        again
    }

    /// Makes the server crash repeatedly until the supervisor does not restart it any more.
    #[track_caller]
    pub(crate) fn crash_loop(&mut self, time: Duration) {
        for _ in 0..100 {
            if !self.crash_after(time) {
                return;
            }
        }
        panic!("the restarts never end");
    }

    pub(crate) fn rest(&self) -> RestState {
        self.machine.rest().expect("it rests")
    }

    pub(crate) fn is(&self, state: &ServerState) -> bool {
        self.machine.state() == state
    }

    /// Returns the last states, separated by spaces.
    pub(crate) fn path(&self, last: usize) -> String {
        let from = self.states.len().saturating_sub(last);
        let words: Vec<_> = self.states[from..].iter().map(ServerState::as_str).collect();
        words.join(" ")
    }
}
