//! The supervisor: a state machine with events as input and actions as output, without clock or I/O (MGP §11.2,
//! §11.5). The header of `supervise/mod.rs` has its transitions as a table.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::Exit;

use super::backoff::{MAX_REASON_BYTES, RestartWindow};
use super::config::SuperviseConfig;
use super::event::{RestState, RestartLimitExceeded, SupervisorAction, SupervisorEvent};
use super::policy::restarts_after;
use crate::error::restart_follows;

/// State machine that decides when one server is started, stopped and restarted.
///
/// Times are relative to the creation of the supervisor. The driver must execute the actions that each event
/// returns, and send [`SupervisorEvent::Tick`] at [`deadline`](Self::deadline); it needs no other timer.
///
/// ```
/// use std::time::Duration;
/// use mgp_lifecycle::{SupervisorAction, SupervisorEvent, SuperviseConfig, Supervisor};
/// use mgp_types::mgp::ServerState;
/// use mgp_types::service::Exit;
///
/// let mut server = Supervisor::new(SuperviseConfig::default(), 7);
/// assert_eq!(server.handle(SupervisorEvent::Start, Duration::ZERO).last(), Some(&SupervisorAction::Start));
/// let _ = server.handle(SupervisorEvent::Ready, Duration::from_secs(2));
/// assert_eq!(*server.state(), ServerState::Connected);
///
/// let crash = SupervisorEvent::Exited(Exit::failure("exited with code 1"));
/// let actions = server.handle(crash, Duration::from_secs(3));
/// assert_eq!(actions.last(), Some(&SupervisorAction::Stop { reason: None }));
/// assert_eq!(*server.state(), ServerState::Restarting);
/// let _ = server.handle(SupervisorEvent::Stopped, Duration::from_secs(3));
///
/// let actions = server.handle(SupervisorEvent::Tick, server.deadline().unwrap());
/// assert_eq!(actions.last(), Some(&SupervisorAction::Start));
/// ```
#[derive(Debug)]
pub struct Supervisor {
    config: SuperviseConfig,
    window: RestartWindow,
    /// The state of the server as §11.2 defines it; observers see this state.
    state: ServerState,
    /// The current activity of the supervisor; it distinguishes more cases than `state`.
    phase: Phase,
    /// The total time that the server has been connected, without the current connection.
    connected: Duration,
    restarts: u64,
    /// The reason why the server rests; `None` before any start or stop.
    rest_reason: Option<Arc<str>>,
    /// The restart limit, if the server rests because the limit was exceeded.
    exceeded_limit: Option<RestartLimitExceeded>,
    /// `true` if the last start failed for a reason that a restart would not remove.
    is_start_failure: bool,
}

/// The current activity of the supervisor. Each phase except `Resting` and `Running` has one deadline.
#[derive(Debug)]
enum Phase {
    /// The server does not run, and will not be started.
    Resting,
    /// The server does not run; it is started again when the wait is over.
    Waiting { until: Duration },
    /// The server was started, but is not ready yet.
    Starting { until: Duration },
    /// The server is connected.
    Running { since: Duration },
    /// The server, or a process of it that still runs after its end, is being stopped.
    Stopping { until: Duration, next: AfterStop },
}

/// The step that follows a stop.
///
/// `GiveUp` and `Fail` only follow a drain. Without a drain, the supervisor enters the state `error` before it stops
/// the remaining processes, and `Rest` follows.
#[derive(Debug)]
enum AfterStop {
    /// The server rests: it is not started again without a request.
    Rest { reason: Arc<str>, limit: Option<RestartLimitExceeded> },
    /// The server rests in the state `error`, because the restart limit was exceeded.
    GiveUp { limit: RestartLimitExceeded, how: Arc<str> },
    /// The server rests in the state `error`, because its policy does not restart a server that failed.
    Fail { how: Arc<str> },
    /// The server is started again at this time, or immediately if the time has passed.
    Start { at: Duration, reason: Arc<str> },
    /// The start continues with another process or connection.
    ContinueStart,
}

/// The actions that an event causes, in the order in which they must be executed.
type Actions = Vec<SupervisorAction>;

impl Supervisor {
    /// Creates a supervisor of a registered server; the seed determines the jitter of its waits.
    #[must_use]
    pub fn new(config: SuperviseConfig, seed: u64) -> Self {
        Self {
            config: config.bounded(),
            window: RestartWindow::new(seed),
            state: ServerState::Registered,
            phase: Phase::Resting,
            connected: Duration::ZERO,
            restarts: 0,
            rest_reason: None,
            exceeded_limit: None,
            is_start_failure: false,
        }
    }

    /// Sets the initial state to `disconnected` or `error`. Any other state is ignored, so the state stays
    /// `registered`.
    #[must_use]
    pub fn with_initial_state(mut self, state: ServerState) -> Self {
        if matches!(state, ServerState::Disconnected | ServerState::Error) {
            self.state = state;
        }
        self
    }

    /// Returns the state of the server.
    #[must_use]
    pub fn state(&self) -> &ServerState {
        &self.state
    }

    /// Returns the number of restarts since the supervisor was created, automatic and requested.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.restarts
    }

    /// Returns the time when [`SupervisorEvent::Tick`] is due; `None` if the server rests or is connected.
    #[must_use]
    pub fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Resting | Phase::Running { .. } => None,
            Phase::Waiting { until }
            | Phase::Starting { until }
            | Phase::Stopping { until, .. } => Some(until),
        }
    }

    /// Returns whether the server is being stopped.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        matches!(self.phase, Phase::Stopping { .. })
    }

    /// Returns whether a call must not start the server, because the step after the current stop is decided: a restart,
    /// or the state `error` if the server is drained because it failed. Returns `false` if the server then only rests.
    #[must_use]
    pub fn is_restart_decided(&self) -> bool {
        let Phase::Stopping { next, .. } = &self.phase else { return false };
        !matches!(next, AfterStop::Rest { .. })
    }

    /// Returns whether the server is being started, or will be started without a request after the current stop or
    /// wait.
    pub(super) fn is_start_pending(&self) -> bool {
        matches!(
            self.phase,
            Phase::Waiting { .. }
                | Phase::Starting { .. }
                | Phase::Stopping { next: AfterStop::Start { .. } | AfterStop::ContinueStart, .. }
        )
    }

    /// Returns the state of a resting server; `None` if it runs or will be started, or before the first request.
    #[must_use]
    pub fn rest(&self) -> Option<RestState> {
        let (Phase::Resting, Some(reason)) = (&self.phase, &self.rest_reason) else {
            return None;
        };
        Some(RestState {
            state: self.state.clone(),
            reason: Arc::clone(reason),
            restarts: self.restarts,
            limit: self.exceeded_limit,
            is_start_failure: self.is_start_failure,
        })
    }

    /// Handles an event and returns the actions to execute. An event that does not fit the current phase has no effect.
    #[must_use = "the actions must be executed"]
    pub fn handle(&mut self, event: SupervisorEvent, now: Duration) -> Vec<SupervisorAction> {
        let mut out = Actions::new();
        match event {
            SupervisorEvent::Start => self.on_start(now, &mut out),
            SupervisorEvent::Restart => self.on_restart(now, &mut out),
            SupervisorEvent::Stop(reason) if !restart_follows(&reason) => {
                self.on_stop(&reason, now, &mut out);
            }
            SupervisorEvent::Stop(ShutdownReason::ResourceLimit) => {
                self.on_limit_reached(now, &mut out);
            }
            SupervisorEvent::Stop(reason) => self.on_stop_with_restart(&reason, now, &mut out),
            SupervisorEvent::Ready => self.on_ready(now, &mut out),
            SupervisorEvent::StartFailed { how, is_permanent } => {
                self.on_start_failed(&how, is_permanent, now, &mut out);
            }
            SupervisorEvent::StartContinues => self.on_start_continues(now, &mut out),
            SupervisorEvent::Exited(exit) => self.on_exit(exit, now, &mut out),
            SupervisorEvent::Unhealthy(how) if self.is_running() => {
                self.fail(&Exit::failure(how), now, &mut out);
            }
            SupervisorEvent::ReportedUnhealthy(how) if self.is_running() => {
                self.on_reported_unhealthy(&how, now, &mut out);
            }
            SupervisorEvent::Stopped if self.is_stopping() => self.on_stopped(now, &mut out),
            SupervisorEvent::Tick => self.on_tick(now, &mut out),
            SupervisorEvent::Unhealthy(_)
            | SupervisorEvent::ReportedUnhealthy(_)
            | SupervisorEvent::Stopped => {}
        }
        out
    }

    fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running { .. })
    }

    // === Requests ===

    fn on_start(&mut self, now: Duration, out: &mut Actions) {
        let reason: Arc<str> = "start".into();
        match &mut self.phase {
            Phase::Starting { .. }
            | Phase::Running { .. }
            | Phase::Stopping { next: AfterStop::ContinueStart, .. } => return,
            Phase::Stopping { next, .. } => *next = start_at_once(reason),
            Phase::Resting => {
                self.leave_for_connecting(&reason, out);
                self.connect(reason, now, out);
            }
            Phase::Waiting { .. } => self.begin_restart(reason, now, out),
        }
        self.window.clear();
    }

    fn on_restart(&mut self, now: Duration, out: &mut Actions) {
        let reason = ShutdownReason::OperatorRequest;
        match &mut self.phase {
            Phase::Resting if self.state == ServerState::Registered => self.on_start(now, out),
            Phase::Resting => {
                self.window.clear();
                self.begin_restart(reason_text(&reason), now, out);
            }
            Phase::Stopping { next, .. } => {
                self.window.clear();
                *next = start_at_once(reason_text(&reason));
            }
            _ => self.on_stop_with_restart(&reason, now, out),
        }
    }

    /// Stops the server without a restart.
    fn on_stop(&mut self, reason: &ShutdownReason, now: Duration, out: &mut Actions) {
        let reason_text = reason_text(reason);
        match &mut self.phase {
            // A server that was never started rests from now on, so that callers do not wait for its start.
            Phase::Resting => {
                self.rest_reason.get_or_insert(reason_text);
            }
            Phase::Waiting { .. } => self.enter_rest(reason_text, None, out),
            Phase::Stopping {
                next: next @ (AfterStop::Start { .. } | AfterStop::ContinueStart),
                ..
            } => {
                *next = AfterStop::Rest { reason: reason_text, limit: None };
            }
            // The server will rest after this stop anyway, so the request changes nothing.
            Phase::Stopping { .. } => {}
            Phase::Starting { .. } | Phase::Running { .. } => {
                let next = AfterStop::Rest { reason: Arc::clone(&reason_text), limit: None };
                self.drain(reason, reason_text, next, now, out);
            }
        }
    }

    /// Stops the server and starts it again immediately, e.g. after a configuration change. This does not count as a
    /// crash.
    fn on_stop_with_restart(&mut self, reason: &ShutdownReason, now: Duration, out: &mut Actions) {
        match &mut self.phase {
            Phase::Resting
            | Phase::Stopping {
                next: AfterStop::Rest { .. } | AfterStop::GiveUp { .. } | AfterStop::Fail { .. },
                ..
            } => return,
            Phase::Stopping { next, .. } => *next = start_at_once(reason_text(reason)),
            Phase::Waiting { .. } => self.begin_restart(reason_text(reason), now, out),
            Phase::Starting { .. } | Phase::Running { .. } => {
                let text = reason_text(reason);
                self.drain(reason, Arc::clone(&text), start_at_once(text), now, out);
            }
        }
        self.window.clear();
    }

    /// Stops a server that uses too many resources. This counts as a failure, but the server is notified of the reason.
    fn on_limit_reached(&mut self, now: Duration, out: &mut Actions) {
        let reason = ShutdownReason::ResourceLimit;
        let exit = Exit::failure(reason.as_str()).because(reason.clone());
        match self.phase {
            Phase::Starting { .. } => self.fail(&exit, now, out),
            Phase::Running { .. } => {
                let text = reason_text(&reason);
                let next = self.decide_after_end(&exit, Arc::clone(&text), now);
                self.drain(&reason, text, next, now, out);
            }
            _ => {}
        }
    }

    /// Stops a server that reports that it is unhealthy. This counts as a failure, but the server still answers, so its
    /// running calls may end first.
    fn on_reported_unhealthy(&mut self, how: &str, now: Duration, out: &mut Actions) {
        let (exit, how) = (Exit::failure(how), clipped(how));
        let next = match self.decide_after_end(&exit, Arc::clone(&how), now) {
            AfterStop::Rest { reason, .. } => AfterStop::Fail { how: reason },
            next => next,
        };
        // §11.4 has no reason for this case. `resource_limit` is the closest: it also means that the server is in a bad
        // state, and that a restart may follow.
        self.drain(&ShutdownReason::ResourceLimit, how, next, now, out);
    }

    // === Events of the server ===

    fn on_ready(&mut self, now: Duration, out: &mut Actions) {
        if let Phase::Starting { .. } = self.phase {
            self.enter(ServerState::Connected, "ready".into(), out);
            self.window.meet_start();
            self.phase = Phase::Running { since: now };
        }
    }

    fn on_start_failed(&mut self, how: &str, is_permanent: bool, now: Duration, out: &mut Actions) {
        if let Phase::Starting { .. } = self.phase {
            self.is_start_failure = is_permanent;
            self.fail(&Exit::failure(how), now, out);
        }
    }

    /// Stops the remaining processes of a start that continues. The state stays `connecting`.
    fn on_start_continues(&mut self, now: Duration, out: &mut Actions) {
        if let Phase::Starting { .. } = self.phase {
            out.push(SupervisorAction::Stop { reason: None });
            let (until, next) = (self.stop_deadline(now), AfterStop::ContinueStart);
            self.phase = Phase::Stopping { until, next };
        }
    }

    fn on_exit(&mut self, exit: Exit, now: Duration, out: &mut Actions) {
        match self.phase {
            Phase::Starting { .. } => {
                let mut early = Exit::failure(format!("{exit} before it was ready"));
                early.reason = exit.reason;
                self.fail(&early, now, out);
            }
            Phase::Running { .. } => self.fail(&exit, now, out),
            // A stop is complete when the whole process tree has ended, so the exit of the main process is ignored.
            _ => {}
        }
    }

    fn on_tick(&mut self, now: Duration, out: &mut Actions) {
        if self.deadline().is_none_or(|due| now < due) {
            return;
        }
        match self.phase {
            Phase::Waiting { .. } => self.begin_restart("retry".into(), now, out),
            Phase::Starting { .. } => {
                let limit = mgp_types::duration_words(self.window.miss_start(&self.config));
                let how = format!("not ready within {limit}");
                self.fail(&Exit::failure(how), now, out);
            }
            Phase::Stopping { .. } => {
                out.push(SupervisorAction::Kill);
                self.on_stopped(now, out);
            }
            Phase::Resting | Phase::Running { .. } => {}
        }
    }

    /// Handles a failure, or an end without a request: decides the next step, and stops the remaining processes of the
    /// server.
    fn fail(&mut self, exit: &Exit, now: Duration, out: &mut Actions) {
        let how = clipped(&exit.description);
        let after = if exit.is_success { ServerState::Disconnected } else { ServerState::Error };
        let next = match self.decide_after_end(exit, Arc::clone(&how), now) {
            AfterStop::GiveUp { limit, how } => {
                let reason = self.give_up(limit, &how, out);
                AfterStop::Rest { reason, limit: Some(limit) }
            }
            AfterStop::Start { at, reason } => {
                self.enter(after, how, out);
                if !exit.is_success {
                    self.enter(ServerState::Restarting, Arc::clone(&reason), out);
                }
                AfterStop::Start { at, reason }
            }
            next => {
                self.enter(after, how, out);
                next
            }
        };
        out.push(SupervisorAction::Stop { reason: None });
        self.phase = Phase::Stopping { until: self.stop_deadline(now), next };
    }

    /// Decides the next step after the server has failed or has ended without a request, and counts the restart if
    /// there is one.
    fn decide_after_end(&mut self, exit: &Exit, how: Arc<str>, now: Duration) -> AfterStop {
        self.forget_restarts_after_long_run(now);
        self.add_connected_time(now);
        let restarts = restarts_after(&self.config.policy, exit.is_success, exit.reason.as_ref());
        if self.is_start_failure || !restarts {
            return AfterStop::Rest { reason: how, limit: None };
        }
        let max = self.config.max_restarts;
        match self.window.add(self.connected, &self.config) {
            None => {
                let limit = RestartLimitExceeded { restarts: max, window: self.config.window };
                AfterStop::GiveUp { limit, how }
            }
            Some(allowed) => {
                AfterStop::Start {
                    at: now.saturating_add(allowed.wait),
                    // The reason is shown together with the state, so it includes the cause.
                    reason: allowed.reason(&how, &self.config),
                }
            }
        }
    }

    /// Stops the server; `text` is the reason in reports, and `reason` the reason that is sent to the server. Only a
    /// connected server is drained; in any other state, the server keeps its state until it has ended.
    fn drain(
        &mut self,
        reason: &ShutdownReason,
        text: Arc<str>,
        next: AfterStop,
        now: Duration,
        out: &mut Actions,
    ) {
        self.add_connected_time(now);
        if self.state == ServerState::Connected {
            self.enter(ServerState::Draining, text, out);
        }
        out.push(SupervisorAction::Stop { reason: Some(reason.clone()) });
        self.phase = Phase::Stopping { until: self.stop_deadline(now), next };
    }

    /// Executes the step that follows a stop. Called when the stop is complete.
    fn on_stopped(&mut self, now: Duration, out: &mut Actions) {
        let Phase::Stopping { next, .. } = std::mem::replace(&mut self.phase, Phase::Resting)
        else {
            return;
        };
        match next {
            AfterStop::Rest { reason, limit } => self.enter_rest(reason, limit, out),
            AfterStop::GiveUp { limit, how } => {
                self.leave_draining(&how, out);
                let reason = self.give_up(limit, &how, out);
                self.enter_rest(reason, Some(limit), out);
            }
            AfterStop::Fail { how } => {
                self.leave_draining(&how, out);
                self.enter_rest(how, None, out);
            }
            AfterStop::Start { at, reason } if at > now => {
                if matches!(self.state, ServerState::Draining | ServerState::Error) {
                    self.enter(ServerState::Restarting, reason, out);
                }
                self.phase = Phase::Waiting { until: at };
            }
            AfterStop::Start { reason, .. } => self.begin_restart(reason, now, out),
            AfterStop::ContinueStart => self.spawn(now, out),
        }
    }

    /// Leaves `draining` for a state that can change to `error`, because §11.2 does not allow a change from `draining`
    /// to `error`.
    fn leave_draining(&mut self, how: &Arc<str>, out: &mut Actions) {
        if self.state == ServerState::Draining {
            self.enter(ServerState::Restarting, Arc::clone(how), out);
        }
    }

    /// Enters the resting phase, because nothing is running and nothing will be started.
    fn enter_rest(
        &mut self,
        reason: Arc<str>,
        limit: Option<RestartLimitExceeded>,
        out: &mut Actions,
    ) {
        match self.state {
            ServerState::Connecting | ServerState::Draining => {
                self.enter(ServerState::Disconnected, Arc::clone(&reason), out);
            }
            // §11.2 does not allow a change from `restarting` to `disconnected`. `error` is correct, because the server
            // did fail.
            ServerState::Restarting => self.enter(ServerState::Error, Arc::clone(&reason), out),
            _ => {}
        }
        self.phase = Phase::Resting;
        (self.rest_reason, self.exceeded_limit) = (Some(reason), limit);
    }

    fn give_up(&mut self, limit: RestartLimitExceeded, how: &str, out: &mut Actions) -> Arc<str> {
        let reason: Arc<str> = format!("{}: {limit}; {how}", RestartLimitExceeded::WORD).into();
        out.push(SupervisorAction::GiveUp(limit));
        self.enter(ServerState::Error, Arc::clone(&reason), out);
        reason
    }

    fn begin_restart(&mut self, reason: Arc<str>, now: Duration, out: &mut Actions) {
        // This restart is counted after this change of state, whose report contains the number of earlier restarts.
        self.leave_for_connecting(&reason, out);
        self.restarts = self.restarts.saturating_add(1);
        self.connect(reason, now, out);
    }

    fn connect(&mut self, reason: Arc<str>, now: Duration, out: &mut Actions) {
        self.enter(ServerState::Connecting, reason, out);
        self.spawn(now, out);
    }

    /// Starts a process or connection of a server that is connecting.
    fn spawn(&mut self, now: Duration, out: &mut Actions) {
        out.push(SupervisorAction::Start);
        (self.rest_reason, self.exceeded_limit, self.is_start_failure) = (None, None, false);
        self.phase = Phase::Starting { until: self.window.start_deadline(now, &self.config) };
    }

    /// If §11.2 does not allow a change from the current state to `connecting`, first enters a state that allows it.
    fn leave_for_connecting(&mut self, reason: &Arc<str>, out: &mut Actions) {
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

    /// If restarts are not limited, forgets the earlier restarts after the server was connected long enough, so that
    /// the next wait is short again.
    fn forget_restarts_after_long_run(&mut self, now: Duration) {
        if let Phase::Running { since } = self.phase
            && !self.config.gives_up
            && now.saturating_sub(since) >= self.config.backoff_max
        {
            self.window.clear();
        }
    }

    /// Adds the duration of the current connection so far to the total time that the server has been connected.
    fn add_connected_time(&mut self, now: Duration) {
        if let Phase::Running { since } = &mut self.phase {
            self.connected = self.connected.saturating_add(now.saturating_sub(*since));
            *since = now;
        }
    }

    fn stop_deadline(&self, now: Duration) -> Duration {
        now.saturating_add(self.config.stop_timeout)
    }

    fn enter(&mut self, to: ServerState, reason: Arc<str>, out: &mut Actions) {
        let from = std::mem::replace(&mut self.state, to.clone());
        out.push(SupervisorAction::Enter { from, to, reason, restarts: self.restarts });
    }
}

const fn start_at_once(reason: Arc<str>) -> AfterStop {
    AfterStop::Start { at: Duration::ZERO, reason }
}

fn reason_text(reason: &ShutdownReason) -> Arc<str> {
    clipped(reason.as_str())
}

fn clipped(text: &str) -> Arc<str> {
    mgp_types::clip(text, MAX_REASON_BYTES).into()
}
