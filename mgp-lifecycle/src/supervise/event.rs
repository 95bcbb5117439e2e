//! The events and actions of a supervisor (MGP §11.2, §11.5).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::Exit;

/// An event that concerns a server, or a request about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SupervisorEvent {
    /// A request to start the server. It has no effect if the server is starting or running.
    Start,
    /// A request by an operator to restart the server now. Earlier restarts are no longer counted.
    Restart,
    /// A request to stop the server. The reason determines whether it is started again.
    Stop(ShutdownReason),
    /// The server is ready for calls.
    Ready,
    /// The start failed, or the server did not become ready.
    StartFailed {
        /// A description of the failure of the server.
        how: String,
        /// `true` if another attempt would fail in the same way. The server then stays stopped until an operator starts
        /// it or a call requires it.
        is_permanent: bool,
    },
    /// An attempt to start the server failed, and another attempt follows, made in a different way. Both attempts
    /// belong to the same start: the new attempt does not count as a restart, and does not depend on the policy.
    StartContinues,
    /// The server ended without a request, or the connection to it was lost.
    Exited(Exit),
    /// The health monitor found the server unhealthy: it does not answer, so it is stopped without a drain.
    Unhealthy(String),
    /// The server reported several times that it is unhealthy, but still answers: it is drained, and this counts as a
    /// failure.
    ReportedUnhealthy(String),
    /// The stop requested by [`SupervisorAction::Stop`] is complete.
    Stopped,
    /// The time that [`Supervisor::deadline`](super::Supervisor::deadline) returned is reached.
    Tick,
}

/// An action that the driver must execute. Several actions are executed in the order they were returned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SupervisorAction {
    /// Change the state of the server. §11.2 allows each of these changes.
    Enter {
        /// The state of the server before the change.
        from: ServerState,
        /// The state of the server after the change.
        to: ServerState,
        /// The reason for the change of state.
        reason: Arc<str>,
        /// The number of restarts of the server so far.
        restarts: u64,
    },
    /// Start the server. Report the outcome as [`SupervisorEvent::Ready`], [`SupervisorEvent::StartFailed`] or
    /// [`SupervisorEvent::Exited`].
    Start,
    /// Stop the server and its process tree, if they run. Report [`SupervisorEvent::Stopped`] when all processes have
    /// ended.
    Stop {
        /// Reason to send to the server; `None` if the server has failed.
        reason: Option<ShutdownReason>,
    },
    /// Kill the process tree without waiting for its end, because the stop timed out.
    Kill,
    /// Do not restart the server. Its state becomes `error` next, with this limit in the reason.
    GiveUp(RestartLimitExceeded),
}

/// The restart limit of the window was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestartLimitExceeded {
    /// The number of restarts that were made within the window, which is the maximum number.
    pub restarts: u32,
    /// The length of the window for counting restarts.
    pub window: Duration,
}

impl RestartLimitExceeded {
    /// The name that §11.5 gives this reason.
    pub const WORD: &'static str = "restart_limit_exceeded";
}

impl fmt::Display for RestartLimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = mgp_types::duration_words(self.window);
        write!(f, "{} restarts within {window}", self.restarts)
    }
}

/// The state of a server that is not running and is started again only on request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server rests in `{state}`: {reason}")]
#[non_exhaustive]
pub struct RestState {
    /// The state: `disconnected` or `error`; `registered` if the server was never started.
    pub state: ServerState,
    /// The reason for the server's stop, or a description of how the server ended.
    pub reason: Arc<str>,
    /// The total number of restarts of the server.
    pub restarts: u64,
    /// The restart limit, if the server rests because the limit was exceeded.
    pub limit: Option<RestartLimitExceeded>,
    /// `true` if the last start failed for a reason that a restart would not remove, e.g. a missing program.
    pub is_start_failure: bool,
}
