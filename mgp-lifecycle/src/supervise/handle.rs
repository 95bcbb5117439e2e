//! The handle of a supervised server, and its reports (MGP §11.2, §11.5).

use std::sync::Arc;
use std::time::Duration;

use mgp_types::Timestamp;
use mgp_types::mgp::{ServerState, ShutdownReason};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::event::{RestState, RestartLimitExceeded, SupervisorEvent};
use crate::state::StateHandle;

/// Handle to start, stop and restart a supervised server. Clones refer to the same server.
///
/// When the last handle is dropped, the server is stopped with the reason `kernel_shutdown`, and the supervising task
/// ends.
#[derive(Clone)]
pub struct Supervised<C> {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) state: StateHandle,
    pub(super) live: watch::Receiver<Option<LiveServer<C>>>,
    pub(super) status: watch::Receiver<Status>,
    pub(super) reports: broadcast::Sender<StateReport>,
}

/// The current incarnation of a server, i.e. its process or connection since the latest start.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveServer<C> {
    /// The client for calling the server.
    pub client: C,
    /// The number of starts so far, including the start of this incarnation.
    pub run: u64,
}

/// The report of a change of a supervised server's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateReport {
    /// The time when the state changed.
    pub at: Timestamp,
    /// The time of the change, as the duration since supervision began.
    pub elapsed: Duration,
    /// The state of the server before the change.
    pub from: ServerState,
    /// The state of the server after the change.
    pub to: ServerState,
    /// The reason: a shutdown reason of §11.4, or a description of what happened.
    pub reason: Arc<str>,
    /// The number of restarts of the server so far.
    pub restarts: u64,
    /// The restart limit, if the server is not restarted because the limit was exceeded; set in one report only.
    pub limit: Option<RestartLimitExceeded>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Status {
    pub(super) is_connected: bool,
    pub(super) is_stopping: bool,
    pub(super) is_restart_decided: bool,
    pub(super) restarts: u64,
    pub(super) rest: Option<RestState>,
}

#[derive(Debug)]
pub(super) struct Command {
    pub(super) kind: CommandKind,
    /// Notified when the supervisor has taken up the command, not when the server has restarted or stopped.
    pub(super) accepted: oneshot::Sender<()>,
}

#[derive(Debug)]
pub(super) enum CommandKind {
    Start,
    Restart,
    Stop(ShutdownReason),
    /// A report about the health of an incarnation, i.e. of one run of the server.
    Unhealthy {
        run: u64,
        event: SupervisorEvent,
    },
}

impl<C: Clone + Send + Sync + 'static> Supervised<C> {
    /// Starts the server, unless it is starting or running. Earlier restarts are no longer counted.
    ///
    /// Completes once the start has begun; use [`ready`](Self::ready) to wait until the server can be called.
    ///
    /// # Cancel safety
    /// If the future is dropped, the server may or may not be started.
    pub async fn start(&self) {
        self.send(CommandKind::Start).await;
    }

    /// Restarts the server now, whatever its policy; earlier restarts are no longer counted.
    ///
    /// Completes once the restart was accepted. A running server is drained first.
    ///
    /// # Cancel safety
    /// If the future is dropped, the restart may or may not have been requested.
    pub async fn restart(&self) {
        self.send(CommandKind::Restart).await;
    }

    /// Stops the server and all its processes; completes when all of them have ended.
    ///
    /// With the reason `configuration_change`, the server is started again. With `resource_limit`, it is started again
    /// if the policy and the restart limit allow it. With any other reason, only [`start`](Self::start) and
    /// [`restart`](Self::restart) start it again.
    ///
    /// # Cancel safety
    /// If the future is dropped, the stop may or may not happen; a stop that has begun is completed.
    pub async fn stop(&self, reason: ShutdownReason) {
        self.send(CommandKind::Stop(reason)).await;
        // Ignore the error: it means that the task has ended, and with it the server.
        let _ = self.status.clone().wait_for(|status| !status.is_stopping).await;
    }

    /// Reports that the server does not answer: it is treated as failed, i.e. stopped without a drain and restarted
    /// according to its policy.
    ///
    /// `run` is the incarnation that the caller observed ([`LiveServer::run`]). A report about another incarnation is
    /// ignored.
    ///
    /// # Cancel safety
    /// If the future is dropped, the report may or may not have an effect.
    pub async fn unhealthy(&self, run: u64, why: impl Into<String>) {
        let event = SupervisorEvent::Unhealthy(why.into());
        self.send(CommandKind::Unhealthy { run, event }).await;
    }

    /// Reports that the server itself states that it is unhealthy, but still answers: its running calls may end, then
    /// it is treated as failed, i.e. stopped and restarted according to its policy.
    ///
    /// `run` is the incarnation that the caller observed ([`LiveServer::run`]). A report about another incarnation is
    /// ignored.
    ///
    /// # Cancel safety
    /// If the future is dropped, the report may or may not have an effect.
    pub async fn reported_unhealthy(&self, run: u64, why: impl Into<String>) {
        let event = SupervisorEvent::ReportedUnhealthy(why.into());
        self.send(CommandKind::Unhealthy { run, event }).await;
    }

    /// Waits until the server can be called.
    ///
    /// # Errors
    /// Returns [`RestState`] if the server rests and will not be started without a request.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn ready(&self) -> Result<C, RestState> {
        let mut status = self.status.clone();
        loop {
            {
                let now = status.borrow_and_update();
                if let Some(rest) = &now.rest {
                    return Err(rest.clone());
                }
                if now.is_connected
                    && let Some(client) = self.client()
                {
                    return Ok(client);
                }
            }
            if status.changed().await.is_err() {
                return Err(runtime_stopped(&self.state, self.restarts()));
            }
        }
    }

    /// Waits until the server rests, i.e. is not running and will be started only on request.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn ended(&self) -> RestState {
        let mut status = self.status.clone();
        let rest = match status.wait_for(|status| status.rest.is_some()).await {
            Ok(status) => status.rest.clone(),
            Err(_) => None,
        };
        rest.unwrap_or_else(|| runtime_stopped(&self.state, self.restarts()))
    }

    /// Returns the state of a server that rests, i.e. is not running and will be started only on request. Returns
    /// `None` if the server is running or will be started, or before the first request to start or stop it.
    #[must_use]
    pub fn rest(&self) -> Option<RestState> {
        self.status.borrow().rest.clone()
    }

    /// Returns whether a call must not start the server, because the step after the current stop is decided: a restart,
    /// or the state `error` if the server is drained because it failed. Returns `false` if the server then rests until
    /// [`start`](Self::start) is called.
    #[must_use]
    pub fn is_restart_decided(&self) -> bool {
        self.status.borrow().is_restart_decided
    }

    /// Returns the client of the server, while it is connected or draining.
    #[must_use]
    pub fn client(&self) -> Option<C> {
        self.live.borrow().as_ref().map(|live| live.client.clone())
    }

    /// Subscribes to the incarnations. Each incarnation is available before the state becomes `connected`.
    #[must_use]
    pub fn current(&self) -> watch::Receiver<Option<LiveServer<C>>> {
        self.live.clone()
    }

    /// Returns the state of the server.
    #[must_use]
    pub fn state(&self) -> &StateHandle {
        &self.state
    }

    /// Returns the number of restarts, both automatic and requested.
    #[must_use]
    pub fn restarts(&self) -> u64 {
        self.status.borrow().restarts
    }

    /// Subscribes to every change of state from now on. A listener that is more than 256 reports behind loses the
    /// oldest reports.
    #[must_use]
    pub fn reports(&self) -> broadcast::Receiver<StateReport> {
        self.reports.subscribe()
    }

    async fn send(&self, kind: CommandKind) {
        let (accepted, wait) = oneshot::channel();
        // Ignore both errors: they mean that the task has ended, and with it the server, so there is nothing left to
        // do.
        if self.commands.send(Command { kind, accepted }).await.is_ok() {
            let _ = wait.await;
        }
    }
}

mgp_types::opaque_debug!(Supervised<C> { state });

/// The reason that is reported if a server ends because its runtime was shut down.
pub(super) const RUNTIME_STOPPED: &str = "its runtime was shut down";

pub(super) fn runtime_stopped(state: &StateHandle, restarts: u64) -> RestState {
    let reason = RUNTIME_STOPPED.into();
    RestState { state: state.get(), reason, restarts, limit: None, is_start_failure: false }
}
