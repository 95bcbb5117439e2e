//! The supervisor: events in, actions out; no clock, no input and no output (MGP §11.2, §11.5).
//!
//! Applies to: outbound.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::Exit;

use super::backoff::Window;
use super::config::SuperviseConfig;
use super::event::{Action, Event, LimitExceeded, Rest};
use super::verdict::{is_final, restarts_after};

/// What a server says of its end may be long; as much of it is kept, in bytes.
const WORDS: usize = 512;

/// Decides when one server is started, stopped and started again.
///
/// Time is the time since the supervisor began. After each event do what is returned, and come back with
/// [`Event::Tick`] at [`deadline`](Self::deadline): that is the only wait there ever is.
///
/// ```
/// use std::time::Duration;
/// use mgp_lifecycle::{Action, Event, SuperviseConfig, Supervisor};
/// use mgp_types::mgp::ServerState;
/// use mgp_types::service::Exit;
///
/// let mut server = Supervisor::new(SuperviseConfig::default(), 7);
/// assert_eq!(server.handle(Event::Start, Duration::ZERO).last(), Some(&Action::Start));
/// let _ = server.handle(Event::Ready, Duration::from_secs(2));
/// assert_eq!(*server.state(), ServerState::Connected);
///
/// let crash = Event::Exited(Exit::failure("exited with code 1"));
/// let actions = server.handle(crash, Duration::from_secs(3));
/// assert_eq!(actions.last(), Some(&Action::Stop { reason: None }));
/// assert_eq!(*server.state(), ServerState::Restarting);
/// let _ = server.handle(Event::Stopped, Duration::from_secs(3));
///
/// let actions = server.handle(Event::Tick, server.deadline().unwrap());
/// assert_eq!(actions.last(), Some(&Action::Start));
/// ```
#[derive(Debug)]
pub struct Supervisor {
    config: SuperviseConfig,
    window: Window,
    state: ServerState,
    phase: Phase,
    /// How long it was connected in all, the present time not included.
    lived: Duration,
    restarts: u64,
    /// Why it rests; nothing before anybody wanted anything.
    rest: Option<(Arc<str>, Option<LimitExceeded>)>,
}

/// What goes on; each phase but two has one deadline.
#[derive(Debug)]
enum Phase {
    /// Nothing runs and nothing will.
    Resting,
    /// Nothing runs yet.
    Waiting { until: Duration },
    /// It was started and is not ready.
    Starting { until: Duration },
    /// It is connected.
    Running { since: Duration },
    /// It is being stopped, or what it left is.
    Stopping { until: Duration, then: Then },
}

/// What follows a stop.
#[derive(Debug)]
enum Then {
    Rest { reason: Arc<str>, limit: Option<LimitExceeded> },
    GiveUp { limit: LimitExceeded, how: Arc<str> },
    Start { at: Duration, reason: Arc<str> },
}

impl Supervisor {
    /// A server that is registered; the seed makes the jitter of its waits.
    #[must_use]
    pub fn new(config: SuperviseConfig, seed: u64) -> Self {
        Self {
            config: config.bounded(),
            window: Window::new(seed),
            state: ServerState::Registered,
            phase: Phase::Resting,
            lived: Duration::ZERO,
            restarts: 0,
            rest: None,
        }
    }

    /// The same for a server that rests in `disconnected` or `error`; other states count as `registered`.
    #[must_use]
    pub fn found(mut self, state: ServerState) -> Self {
        if matches!(state, ServerState::Disconnected | ServerState::Error) {
            self.state = state;
        }
        self
    }

    /// The state the server is in.
    #[must_use]
    pub fn state(&self) -> &ServerState {
        &self.state
    }

    /// How often it was started again since the supervisor began, whoever wanted it.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// When [`Event::Tick`] is due; no other wait is ever outstanding.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Resting | Phase::Running { .. } => None,
            Phase::Waiting { until }
            | Phase::Starting { until }
            | Phase::Stopping { until, .. } => Some(until),
        }
    }

    /// Whether something is being stopped.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::Stopping { .. })
    }

    /// How it rests, once nothing runs and nothing will without a person; not before anybody wanted anything.
    #[must_use]
    pub fn rest(&self) -> Option<Rest> {
        let (Phase::Resting, Some((reason, limit))) = (&self.phase, &self.rest) else {
            return None;
        };
        Some(Rest {
            state: self.state.clone(),
            reason: Arc::clone(reason),
            restarts: self.restarts,
            limit: *limit,
        })
    }

    /// Takes an event and says what is to be done; an event that does not fit changes nothing.
    #[must_use = "nothing happens unless the actions are done"]
    pub fn handle(&mut self, event: Event, now: Duration) -> Vec<Action> {
        let mut out = Vec::new();
        match event {
            Event::Start => self.start(now, &mut out),
            Event::Restart => self.restart(now, &mut out),
            Event::Stop(reason) if is_final(&reason) => self.stop(&reason, now, &mut out),
            Event::Stop(ShutdownReason::ResourceLimit) => self.overdrawn(now, &mut out),
            Event::Stop(reason) => self.renew(&reason, now, &mut out),
            Event::Ready => self.ready(now, &mut out),
            Event::StartFailed(how) => self.start_failed(&how, now, &mut out),
            Event::Exited(exit) => self.exited(exit, now, &mut out),
            Event::Unhealthy(how) if self.is_running() => {
                self.failed(&Exit::failure(how), now, &mut out);
            }
            Event::Stopped if self.is_stopping() => self.settle(now, &mut out),
            Event::Tick => self.tick(now, &mut out),
            Event::Unhealthy(_) | Event::Stopped => {}
        }
        out
    }

    fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    // What people want.

    fn start(&mut self, now: Duration, out: &mut Vec<Action>) {
        if let Phase::Starting { .. } | Phase::Running { .. } = self.phase {
            return;
        }
        self.window.clear();
        match &mut self.phase {
            Phase::Stopping { then, .. } => *then = at_once("start".into()),
            Phase::Resting => self.begin("start".into(), out, now),
            _ => self.begin_again("start".into(), out, now),
        }
    }

    fn restart(&mut self, now: Duration, out: &mut Vec<Action>) {
        let wanted_by = ShutdownReason::OperatorRequest;
        match &mut self.phase {
            Phase::Resting if self.state == ServerState::Registered => self.start(now, out),
            Phase::Resting => {
                self.window.clear();
                self.begin_again(word(&wanted_by), out, now);
            }
            Phase::Stopping { then, .. } => {
                self.window.clear();
                *then = at_once(word(&wanted_by));
            }
            _ => self.renew(&wanted_by, now, out),
        }
    }

    /// Stops it for good.
    fn stop(&mut self, reason: &ShutdownReason, now: Duration, out: &mut Vec<Action>) {
        let why = word(reason);
        match &mut self.phase {
            Phase::Resting => {
                self.rest.get_or_insert((why, None));
            }
            Phase::Waiting { .. } => self.settle_down(why, None, out),
            Phase::Stopping { then: then @ Then::Start { .. }, .. } => {
                *then = Then::Rest { reason: why, limit: None };
            }
            Phase::Stopping { .. } => {}
            Phase::Starting { .. } | Phase::Running { .. } => {
                self.drain(reason, Then::Rest { reason: why, limit: None }, now, out);
            }
        }
    }

    /// Stops it and starts it anew at once, as somebody who changed something wants: that is no crash.
    fn renew(&mut self, reason: &ShutdownReason, now: Duration, out: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Resting
            | Phase::Stopping { then: Then::Rest { .. } | Then::GiveUp { .. }, .. } => return,
            Phase::Stopping { then, .. } => *then = at_once(word(reason)),
            Phase::Waiting { .. } => self.begin_again(word(reason), out, now),
            Phase::Starting { .. } | Phase::Running { .. } => {
                self.drain(reason, at_once(word(reason)), now, out);
            }
        }
        self.window.clear();
    }

    /// It used too much: a failure, but one that is told to it.
    fn overdrawn(&mut self, now: Duration, out: &mut Vec<Action>) {
        let reason = ShutdownReason::ResourceLimit;
        let exit = Exit::failure(reason.as_str()).because(reason.clone());
        match self.phase {
            Phase::Starting { .. } => self.failed(&exit, now, out),
            Phase::Running { .. } => {
                self.pause(now);
                let then = self.judge(&exit, word(&reason), now);
                self.drain(&reason, then, now, out);
            }
            _ => {}
        }
    }

    // What happens to the server.

    fn ready(&mut self, now: Duration, out: &mut Vec<Action>) {
        if let Phase::Starting { .. } = self.phase {
            self.enter(ServerState::Connected, "ready".into(), out);
            self.phase = Phase::Running { since: now };
        }
    }

    fn start_failed(&mut self, how: &str, now: Duration, out: &mut Vec<Action>) {
        if let Phase::Starting { .. } = self.phase {
            self.failed(&Exit::failure(how), now, out);
        }
    }

    fn exited(&mut self, exit: Exit, now: Duration, out: &mut Vec<Action>) {
        match self.phase {
            Phase::Starting { .. } => {
                let mut early = Exit::failure(format!("{exit} before it was ready"));
                early.reason = exit.reason;
                self.failed(&early, now, out);
            }
            Phase::Running { .. } => self.failed(&exit, now, out),
            // A stop is over when all of the tree is gone, not only this.
            _ => {}
        }
    }

    fn tick(&mut self, now: Duration, out: &mut Vec<Action>) {
        if self.deadline().is_none_or(|due| now < due) {
            return;
        }
        match self.phase {
            Phase::Waiting { .. } => self.begin_again("back-off is over".into(), out, now),
            Phase::Starting { .. } => {
                let how = format!("not ready within {:?}", self.config.start_timeout);
                self.failed(&Exit::failure(how), now, out);
            }
            Phase::Stopping { .. } => {
                out.push(Action::Kill);
                self.settle(now, out);
            }
            Phase::Resting | Phase::Running { .. } => {}
        }
    }

    /// It is gone or has to go; decides what follows, and clears away what is left.
    fn failed(&mut self, exit: &Exit, now: Duration, out: &mut Vec<Action>) {
        self.pause(now);
        let how = shortened(&exit.how);
        let after = if exit.is_success { ServerState::Disconnected } else { ServerState::Error };
        let then = match self.judge(exit, Arc::clone(&how), now) {
            Then::GiveUp { limit, how } => {
                let reason = self.give_up(limit, &how, out);
                Then::Rest { reason, limit: Some(limit) }
            }
            Then::Start { at, reason } => {
                self.enter(after, how, out);
                if !exit.is_success {
                    self.enter(ServerState::Restarting, Arc::clone(&reason), out);
                }
                Then::Start { at, reason }
            }
            then @ Then::Rest { .. } => {
                self.enter(after, how, out);
                then
            }
        };
        out.push(Action::Stop { reason: None });
        self.phase = Phase::Stopping { until: self.stop_until(now), then };
    }

    /// What follows an end that nobody here asked for.
    fn judge(&mut self, exit: &Exit, how: Arc<str>, now: Duration) -> Then {
        if !restarts_after(&self.config.policy, exit.is_success, exit.reason.as_ref()) {
            return Then::Rest { reason: how, limit: None };
        }
        let max = self.config.max_restarts;
        match self.window.count(self.lived, &self.config) {
            None => {
                let limit = LimitExceeded { restarts: max, window: self.config.window };
                Then::GiveUp { limit, how }
            }
            Some(allowed) => {
                let (number, wait) = (allowed.number, allowed.wait.as_millis());
                Then::Start {
                    at: now.saturating_add(allowed.wait),
                    // Who looks sees this state, and would not know why it came to that.
                    reason: shortened(&format!("restart {number} of {max} in {wait} ms: {how}")),
                }
            }
        }
    }

    /// Asks it to stop; what is not connected has nothing to drain and keeps its state until it is gone.
    fn drain(&mut self, reason: &ShutdownReason, then: Then, now: Duration, out: &mut Vec<Action>) {
        self.pause(now);
        if self.state == ServerState::Connected {
            self.enter(ServerState::Draining, word(reason), out);
        }
        out.push(Action::Stop { reason: Some(reason.clone()) });
        self.phase = Phase::Stopping { until: self.stop_until(now), then };
    }

    /// All of it is gone.
    fn settle(&mut self, now: Duration, out: &mut Vec<Action>) {
        let Phase::Stopping { then, .. } = std::mem::replace(&mut self.phase, Phase::Resting)
        else {
            return;
        };
        match then {
            Then::Rest { reason, limit } => self.settle_down(reason, limit, out),
            Then::GiveUp { limit, how } => {
                if self.state == ServerState::Draining {
                    // The only way from there to `error`.
                    self.enter(ServerState::Restarting, Arc::clone(&how), out);
                }
                let reason = self.give_up(limit, &how, out);
                self.settle_down(reason, Some(limit), out);
            }
            Then::Start { at, reason } if at > now => {
                match self.state {
                    ServerState::Draining | ServerState::Error => {
                        self.enter(ServerState::Restarting, reason, out);
                    }
                    _ => {}
                }
                self.phase = Phase::Waiting { until: at };
            }
            Then::Start { reason, .. } => self.begin_again(reason, out, now),
        }
    }

    /// Nothing runs any more and nothing will.
    fn settle_down(
        &mut self,
        reason: Arc<str>,
        limit: Option<LimitExceeded>,
        out: &mut Vec<Action>,
    ) {
        match self.state {
            ServerState::Connecting | ServerState::Draining => {
                self.enter(ServerState::Disconnected, Arc::clone(&reason), out);
            }
            // From there no edge leads to `disconnected`, and it failed indeed.
            ServerState::Restarting => self.enter(ServerState::Error, Arc::clone(&reason), out),
            _ => {}
        }
        self.phase = Phase::Resting;
        self.rest = Some((reason, limit));
    }

    fn give_up(&mut self, limit: LimitExceeded, how: &str, out: &mut Vec<Action>) -> Arc<str> {
        let reason: Arc<str> = format!("{}: {limit}; {how}", LimitExceeded::WORD).into();
        out.push(Action::GiveUp(limit));
        self.enter(ServerState::Error, Arc::clone(&reason), out);
        reason
    }

    fn begin_again(&mut self, reason: Arc<str>, out: &mut Vec<Action>, now: Duration) {
        self.make_ready(&reason, out);
        self.restarts = self.restarts.saturating_add(1);
        self.begin(reason, out, now);
    }

    fn begin(&mut self, reason: Arc<str>, out: &mut Vec<Action>, now: Duration) {
        self.make_ready(&reason, out);
        self.enter(ServerState::Connecting, reason, out);
        out.push(Action::Start);
        self.rest = None;
        self.phase = Phase::Starting { until: now.saturating_add(self.config.start_timeout) };
    }

    /// Enters a state from which an edge leads to `connecting`.
    fn make_ready(&mut self, reason: &Arc<str>, out: &mut Vec<Action>) {
        match self.state {
            ServerState::Draining | ServerState::Error => {
                self.enter(ServerState::Restarting, Arc::clone(reason), out);
            }
            ServerState::Connecting => {
                self.enter(ServerState::Disconnected, Arc::clone(reason), out);
            }
            _ => {}
        }
    }

    /// Stops the clock of the window.
    fn pause(&mut self, now: Duration) {
        if let Phase::Running { since } = &mut self.phase {
            self.lived = self.lived.saturating_add(now.saturating_sub(*since));
            *since = now;
        }
    }

    fn stop_until(&self, now: Duration) -> Duration {
        now.saturating_add(self.config.stop_timeout)
    }

    fn enter(&mut self, to: ServerState, reason: Arc<str>, out: &mut Vec<Action>) {
        let from = std::mem::replace(&mut self.state, to.clone());
        out.push(Action::Enter { from, to, reason, restarts: self.restarts });
    }
}

const fn at_once(reason: Arc<str>) -> Then {
    Then::Start { at: Duration::ZERO, reason }
}

fn word(reason: &ShutdownReason) -> Arc<str> {
    shortened(reason.as_str())
}

fn shortened(text: &str) -> Arc<str> {
    text[..text.floor_char_boundary(WORDS)].into()
}
