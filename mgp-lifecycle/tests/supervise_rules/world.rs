//! A supervisor, a clock, and a record of what it wanted.
//!
//! Applies to: outbound.

use std::time::Duration;

use mgp_lifecycle::{Action, Event, LimitExceeded, Rest, SuperviseConfig, Supervisor};
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

pub(crate) fn crash() -> Event {
    Event::Exited(Exit::failure("exited with code 1"))
}

pub(crate) fn goodbye() -> Event {
    Event::Exited(Exit::success("exited with code 0"))
}

/// What happened to one server.
pub(crate) struct World {
    pub(crate) core: Supervisor,
    pub(crate) now: Duration,
    /// The states it went through, the first included.
    pub(crate) states: Vec<ServerState>,
    pub(crate) reasons: Vec<String>,
    pub(crate) starts: Vec<Duration>,
    pub(crate) stops: Vec<Option<ShutdownReason>>,
    pub(crate) kills: usize,
    pub(crate) gave_up: Vec<LimitExceeded>,
    /// Whether stops complete at once.
    pub(crate) obeys: bool,
}

impl World {
    pub(crate) fn new(config: SuperviseConfig) -> Self {
        Self::seeded(config, 7)
    }

    pub(crate) fn seeded(config: SuperviseConfig, seed: u64) -> Self {
        Self {
            core: Supervisor::new(config, seed),
            now: Duration::ZERO,
            states: vec![ServerState::Registered],
            reasons: Vec::new(),
            starts: Vec::new(),
            stops: Vec::new(),
            kills: 0,
            gave_up: Vec::new(),
            obeys: true,
        }
    }

    /// A server that is connected.
    pub(crate) fn connected(config: SuperviseConfig) -> Self {
        let mut world = Self::new(config);
        world.send(Event::Start);
        world.send(Event::Ready);
        world
    }

    /// Tells an event, checks each change, and obeys.
    #[track_caller]
    pub(crate) fn send(&mut self, event: Event) {
        let mut stops = false;
        let told = format!("{event:?}");
        for action in self.core.handle(event, self.now) {
            match action {
                Action::Enter { from, to, reason, restarts } => {
                    assert_eq!(Some(&from), self.states.last(), "{told}");
                    assert!(from.can_become(&to), "{from} to {to} by {told}");
                    assert!(restarts <= self.core.restarts());
                    self.states.push(to);
                    self.reasons.push(reason.to_string());
                }
                Action::Start => self.starts.push(self.now),
                Action::Stop { reason } => {
                    self.stops.push(reason);
                    stops = true;
                }
                Action::Kill => self.kills += 1,
                Action::GiveUp(limit) => self.gave_up.push(limit),
                _ => panic!("unknown action {action:?}"),
            }
        }
        assert_eq!(Some(self.core.state()), self.states.last());
        if stops && self.obeys {
            self.send(Event::Stopped);
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Goes to the deadline and says so; how long it waited.
    #[track_caller]
    pub(crate) fn wait(&mut self) -> Duration {
        let due = self.core.deadline().expect("there is a deadline");
        let waited = due.saturating_sub(self.now);
        self.now = self.now.max(due);
        self.send(Event::Tick);
        waited
    }

    /// The server lives for some time and crashes; the supervisor waits, if it wants to; whether it started again.
    pub(crate) fn crash_after(&mut self, time: Duration) -> bool {
        self.pass(time);
        self.send(crash());
        let again = self.core.deadline().is_some();
        if again {
            self.wait();
            self.send(Event::Ready);
        }
        again
    }

    /// Crashes again and again until it is given up.
    #[track_caller]
    pub(crate) fn crash_loop(&mut self, time: Duration) {
        for _ in 0..100 {
            if !self.crash_after(time) {
                return;
            }
        }
        panic!("it goes on for ever");
    }

    pub(crate) fn rest(&self) -> Rest {
        self.core.rest().expect("it rests")
    }

    pub(crate) fn is(&self, state: &ServerState) -> bool {
        self.core.state() == state
    }

    /// The last states in words.
    pub(crate) fn path(&self, last: usize) -> String {
        let from = self.states.len().saturating_sub(last);
        let words: Vec<_> = self.states[from..].iter().map(ServerState::as_str).collect();
        words.join(" ")
    }
}
