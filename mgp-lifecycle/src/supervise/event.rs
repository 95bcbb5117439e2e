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
    /// An operator's request to restart it now; earlier restarts are no longer counted.
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
    /// The server ended without a request, or was lost.
    Exited(Exit),
    /// The health monitor found the server unhealthy.
    Unhealthy(String),
    /// The stop requested by [`SupervisorAction::Stop`] is complete.
    Stopped,
    /// The time of [`Supervisor::deadline`](super::Supervisor::deadline) is reached.
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
    /// Start the server; [`SupervisorEvent::Ready`], [`SupervisorEvent::StartFailed`] or [`SupervisorEvent::Exited`] reports the outcome.
    Start,
    /// Stop the server, if there is one, with its process tree; [`SupervisorEvent::Stopped`] reports the end of all of it.
    Stop {
        /// The reason sent to it; `None` if it failed.
        reason: Option<ShutdownReason>,
    },
    /// The stop timed out: kill the process tree, and do not wait for it.
    Kill,
    /// There will be no restart; the state `error` follows, with this in its reason.
    GiveUp(RestartLimitExceeded),
}

/// The restart limit of the window was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestartLimitExceeded {
    /// The restarts that are allowed, and were made.
    pub restarts: u32,
    /// The window.
    pub window: Duration,
}

impl RestartLimitExceeded {
    /// The word of §11.5 for this reason.
    pub const WORD: &'static str = "restart_limit_exceeded";
}

impl fmt::Display for RestartLimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} restarts within {:?}", self.restarts, self.window)
    }
}

/// A server that does not run, and that only a request starts again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server rests in `{state}`: {reason}")]
#[non_exhaustive]
pub struct RestState {
    /// `disconnected` or `error`; `registered` if it never started.
    pub state: ServerState,
    /// The reason of its stop, or how it ended.
    pub reason: Arc<str>,
    /// The number of all restarts.
    pub restarts: u64,
    /// The limit, if it was exceeded.
    pub limit: Option<RestartLimitExceeded>,
    /// If set, its last start failed for a reason that restarts do not mend, e.g. a missing program.
    pub is_start_failure: bool,
}
