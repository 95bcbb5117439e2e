//! The events and actions of a supervisor (MGP §11.2, §11.5).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::Exit;

/// An event of a server, or a request about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SupervisorEvent {
    /// A request to start it. Changes nothing if it is starting or running.
    Start,
    /// Request by an operator to restart the server now; forgets earlier restarts.
    Restart,
    /// A request to stop it; the reason decides whether it is started again.
    Stop(ShutdownReason),
    /// The server can be called.
    Ready,
    /// The start failed.
    StartFailed {
        /// A description of the failure.
        how: String,
        /// If set, another start would fail in the same way: the server rests until a request starts it.
        is_permanent: bool,
    },
    /// The server ended without a request, or the connection to it was lost.
    Exited(Exit),
    /// The health monitor found the server unhealthy.
    Unhealthy(String),
    /// The stop requested by [`SupervisorAction::Stop`] is complete.
    Stopped,
    /// The time that [`Supervisor::deadline`](super::Supervisor::deadline) returned has come.
    Tick,
}

/// An action to execute, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SupervisorAction {
    /// The state changes; always along an edge of §11.2.
    Enter {
        /// The previous state.
        from: ServerState,
        /// The new state.
        to: ServerState,
        /// The reason.
        reason: Arc<str>,
        /// The number of restarts so far.
        restarts: u64,
    },
    /// Start the server. Report the outcome as [`SupervisorEvent::Ready`], [`SupervisorEvent::StartFailed`] or
    /// [`SupervisorEvent::Exited`].
    Start,
    /// Stop the server and its process tree, if they run. Report [`SupervisorEvent::Stopped`] when all of it has ended.
    Stop {
        /// Reason to send to the server; `None` if the server has failed.
        reason: Option<ShutdownReason>,
    },
    /// Kill the process tree without waiting for its end, because the stop timed out.
    Kill,
    /// There will be no restart; the state `error` follows, with this in its reason.
    GiveUp(RestartLimitExceeded),
}

/// The restart limit of the window was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestartLimitExceeded {
    /// Number of restarts that are allowed, and were made, within the window.
    pub restarts: u32,
    /// The window.
    pub window: Duration,
}

impl RestartLimitExceeded {
    /// Word with which §11.5 names this reason.
    pub const WORD: &'static str = "restart_limit_exceeded";
}

impl fmt::Display for RestartLimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} restarts within {:?}", self.restarts, self.window)
    }
}

/// State of a server that is not running and is started again only on request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server rests in `{state}`: {reason}")]
#[non_exhaustive]
pub struct RestState {
    /// `disconnected` or `error`; `registered` if the server was never started.
    pub state: ServerState,
    /// The reason of its stop, or how it ended.
    pub reason: Arc<str>,
    /// The number of all restarts.
    pub restarts: u64,
    /// Restart limit, if exceeding it was the cause.
    pub limit: Option<RestartLimitExceeded>,
    /// If set, its last start failed for a reason that restarts do not mend, e.g. a missing program.
    pub is_start_failure: bool,
}
