//! The task that executes a supervisor's decisions (MGP §11.5).

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::Timestamp;
use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::{Spawn, Spawned};
use tokio::sync::{broadcast, mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use super::config::SuperviseConfig;
use super::event::{RestartLimitExceeded, SupervisorAction, SupervisorEvent};
use super::handle::{
    Command, CommandKind, LiveServer, RUNTIME_STOPPED, StateReport, Status, Supervised,
    runtime_stopped,
};
use super::incarnation::{Incarnation, Outcome};
use super::machine::Supervisor;
use crate::state::StateHandle;

/// The maximum number of commands that wait for the task; further senders wait until there is room.
const MAX_COMMANDS: usize = 16;
/// The maximum number of reports that can wait for a listener; a slower listener loses the oldest reports.
const MAX_REPORT_LAG: usize = 256;

/// The client of the servers that `S` starts.
pub type ClientOf<S> = <<S as Spawn>::Server as Spawned>::Client;

/// Supervises a server. [`Supervised::start`] starts it, and from then on it is restarted according to its policy.
///
/// `state` is the handle to the server's state. The caller passes it in, so that layers such as a
/// [`ReadyLayer`](crate::ReadyLayer) can be built with it before the supervision begins. Only the supervisor is allowed
/// to change the state.
///
/// # Panics
/// Panics outside a tokio runtime with a timer.
///
/// ```
/// use mgp_lifecycle::{StateHandle, SuperviseConfig, supervise};
/// use mgp_types::mgp::{ServerState, ShutdownReason};
/// use mgp_types::service::{BoxFuture, Exit, Spawn, SpawnError, Spawned};
///
/// /// Crashes two seconds after each start.
/// struct Shaky;
///
/// impl Spawn for Shaky {
///     type Server = Self;
///     fn start(&self) -> BoxFuture<'static, Result<Self, SpawnError>> {
///         Box::pin(async { Ok(Self) })
///     }
/// }
///
/// impl Spawned for Shaky {
///     type Client = &'static str;
///     fn ready(&self) -> BoxFuture<'static, Result<&'static str, SpawnError>> {
///         Box::pin(async { Ok("client") })
///     }
///     fn wait(&self) -> BoxFuture<'static, Exit> {
///         Box::pin(async {
///             tokio::time::sleep(std::time::Duration::from_secs(2)).await;
///             Exit::failure("exited with code 1")
///         })
///     }
///     fn stop(&self, _: Option<&ShutdownReason>) -> BoxFuture<'static, ()> {
///         Box::pin(async {})
///     }
///     fn kill(&self) {}
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
/// let state = StateHandle::new(ServerState::Registered);
/// let server = supervise(Shaky, SuperviseConfig::default(), state);
/// server.start().await;
/// assert_eq!(server.ready().await.unwrap(), "client");
///
/// let rest = server.ended().await;
/// assert_eq!(rest.state, ServerState::Error);
/// assert_eq!(
///     &*rest.reason,
///     "restart_limit_exceeded: 5 restarts within 300 s; exited with code 1"
/// );
/// # });
/// ```
pub fn supervise<S: Spawn>(
    spawn: S,
    config: SuperviseConfig,
    state: StateHandle,
) -> Supervised<ClientOf<S>> {
    let (commands, receiver) = mpsc::channel(MAX_COMMANDS);
    let (live, live_receiver) = watch::channel(None);
    let (status, status_receiver) = watch::channel(Status::default());
    let reports = broadcast::Sender::new(MAX_REPORT_LAG);
    if let Some(rests) = rest_of(&state.get()) {
        // §11.2 allows this change, so it fails only if the state has changed meanwhile. The supervisor's next change
        // then corrects the state.
        let _ = state.enter(rests, "supervised");
    }
    let driver = Driver {
        machine: Supervisor::new(config, fastrand::u64(..)).with_initial_state(state.get()),
        spawn: Arc::new(spawn),
        incarnation: Incarnation::new(),
        begun: Instant::now(),
        run: 0,
        exceeded: None,
        state: state.clone(),
        live,
        status,
        reports: reports.clone(),
    };
    tokio::spawn(driver.run(receiver).in_current_span());
    Supervised { commands, state, live: live_receiver, status: status_receiver, reports }
}

struct Driver<S: Spawn> {
    machine: Supervisor,
    spawn: Arc<S>,
    incarnation: Incarnation<S::Server>,
    begun: Instant,
    run: u64,
    /// The restart limit that was exceeded; set until the resulting change of state is reported.
    exceeded: Option<RestartLimitExceeded>,
    state: StateHandle,
    live: watch::Sender<Option<LiveServer<ClientOf<S>>>>,
    status: watch::Sender<Status>,
    reports: broadcast::Sender<StateReport>,
}

impl<S: Spawn> Driver<S> {
    async fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        loop {
            let due = self.machine.deadline();
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.execute(command),
                    None => break,
                },
                outcome = self.incarnation.next() => self.on_outcome(outcome),
                () = until(self.begun, due) => self.perform(SupervisorEvent::Tick),
            }
        }
        // The last handle was dropped, so stop the server, and do not start it again.
        self.perform(SupervisorEvent::Stop(ShutdownReason::KernelShutdown));
        while self.machine.is_stopping() {
            let due = self.machine.deadline();
            tokio::select! {
                outcome = self.incarnation.next() => self.on_outcome(outcome),
                () = until(self.begun, due) => self.perform(SupervisorEvent::Tick),
            }
        }
    }

    fn execute(&mut self, command: Command) {
        match command.kind {
            CommandKind::Start => self.perform(SupervisorEvent::Start),
            CommandKind::Restart => self.perform(SupervisorEvent::Restart),
            CommandKind::Stop(reason) => self.perform(SupervisorEvent::Stop(reason)),
            CommandKind::Unhealthy { run, event } if run == self.run => self.perform(event),
            CommandKind::Unhealthy { .. } => {}
        }
        // Ignore the error: the sender might no longer wait, but the command was executed.
        let _ = command.accepted.send(());
    }

    fn on_outcome(&mut self, outcome: Outcome<ClientOf<S>>) {
        let event = match outcome {
            Outcome::Ready(client) => {
                // Publish the client before the state changes, so that an observer of `connected` finds it.
                self.live.send_replace(Some(LiveServer { client, run: self.run }));
                SupervisorEvent::Ready
            }
            Outcome::StartFailed(_) | Outcome::Exited(_) if self.incarnation.continues_start() => {
                SupervisorEvent::StartContinues
            }
            Outcome::StartFailed(error) => SupervisorEvent::StartFailed {
                how: error.to_string(),
                is_permanent: error.is_permanent(),
            },
            Outcome::Exited(exit) => SupervisorEvent::Exited(exit),
            Outcome::Stopped => SupervisorEvent::Stopped,
        };
        self.perform(event);
    }

    fn perform(&mut self, event: SupervisorEvent) {
        let now = self.begun.elapsed();
        let actions = self.machine.handle(event, now);
        // Set this before the state changes, because refusals in the new state depend on it.
        self.state.set_start_pending(self.machine.is_start_pending());
        for action in actions {
            match action {
                SupervisorAction::Enter { from, to, reason, restarts } => {
                    let at = Timestamp::now();
                    let (elapsed, limit) = (now, None);
                    self.enter(StateReport { at, elapsed, from, to, reason, restarts, limit });
                }
                SupervisorAction::Start => {
                    self.run = self.run.saturating_add(1);
                    self.incarnation.start(&self.spawn);
                }
                SupervisorAction::Stop { reason } => self.incarnation.stop(reason),
                SupervisorAction::Kill => {
                    tracing::warn!(run = self.run, "server stop timeout: killing it");
                    self.incarnation.kill();
                }
                SupervisorAction::GiveUp(limit) => {
                    tracing::warn!(run = self.run, %limit, "restart limit exceeded: giving up on the server");
                    self.exceeded = Some(limit);
                }
            }
        }
        let state = self.machine.state();
        if !matches!(state, ServerState::Connected | ServerState::Draining) {
            self.live.send_if_modified(|live| live.take().is_some());
        }
        self.status.send_replace(Status {
            is_connected: *state == ServerState::Connected,
            is_stopping: self.machine.is_stopping(),
            is_restart_decided: self.machine.is_restart_decided(),
            restarts: self.machine.restarts(),
            rest: self.machine.rest(),
        });
    }

    fn enter(&mut self, mut report: StateReport) {
        match self.state.enter(report.to.clone(), Arc::clone(&report.reason)) {
            Ok(change) => {
                report.at = change.at;
                report.limit = self.exceeded.take_if(|_| report.to == ServerState::Error);
                // Ignore the error: it only means that no listener exists.
                let _ = self.reports.send(report);
            }
            Err(error) => {
                tracing::error!(%error, "server state was changed from outside its supervisor");
            }
        }
    }
}

impl<S: Spawn> Drop for Driver<S> {
    /// If the task is dropped because its runtime shuts down, kills the server and reports its end.
    fn drop(&mut self) {
        self.incarnation.kill();
        self.live.send_if_modified(|live| live.take().is_some());
        if self.machine.rest().is_some() {
            return;
        }
        let (from, restarts) = (self.state.get(), self.machine.restarts());
        if let Some(to) = rest_of(&from) {
            let (at, elapsed, limit) = (Timestamp::now(), self.begun.elapsed(), None);
            let reason = RUNTIME_STOPPED.into();
            self.enter(StateReport { at, elapsed, from, to, reason, restarts, limit });
        }
        let rest = runtime_stopped(&self.state, restarts);
        self.status.send_replace(Status { restarts, rest: Some(rest), ..Status::default() });
    }
}

/// Returns the state that a server enters when it rests (is not running and is started only on request) after the state
/// `state`; `None` if the server already rests.
fn rest_of(state: &ServerState) -> Option<ServerState> {
    match state {
        ServerState::Connecting | ServerState::Connected | ServerState::Draining => {
            Some(ServerState::Disconnected)
        }
        ServerState::Restarting => Some(ServerState::Error),
        _ => None,
    }
}

async fn until(begun: Instant, due: Option<Duration>) {
    match due.and_then(|due| begun.checked_add(due)) {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::Exit;

    use super::*;

    /// Regression test: calls that waited for a restart were refused at the change to `connecting`.
    #[test]
    fn a_start_is_pending_until_it_ends() {
        let mut machine = Supervisor::new(SuperviseConfig::default(), 1);
        let mut after = |event| {
            let due = machine.deadline().filter(|_| matches!(event, SupervisorEvent::Tick));
            drop(machine.handle(event, due.unwrap_or_default()));
            machine.is_start_pending()
        };
        assert!(after(SupervisorEvent::Start));
        assert!(!after(SupervisorEvent::Ready));
        assert!(after(SupervisorEvent::Exited(Exit::failure("exited with code 1"))));
        assert!(after(SupervisorEvent::Stopped));
        assert!(after(SupervisorEvent::Tick));
        assert!(!after(SupervisorEvent::Ready));
        assert!(!after(SupervisorEvent::Stop(ShutdownReason::OperatorRequest)));
    }
}
