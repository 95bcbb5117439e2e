//! What a supervisor hears, and what it wants done (MGP §11.2, §11.5).
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::{ServerState, ShutdownReason};
use mgp_types::service::Exit;

/// Something that happened to a server, or that somebody wants of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Somebody wants it to run. Changes nothing where it starts or runs.
    Start,
    /// A person wants it started anew, now; earlier restarts are forgotten.
    Restart,
    /// Somebody wants it stopped; the reason decides whether it is started again.
    Stop(ShutdownReason),
    /// It can be called.
    Ready,
    /// It did not start.
    StartFailed(String),
    /// It ended by itself, or was lost.
    Exited(Exit),
    /// Whoever watches its health gave it up.
    Unhealthy(String),
    /// What [`Action::Stop`] asked for is done.
    Stopped,
    /// The time of [`Supervisor::deadline`](super::Supervisor::deadline) has come.
    Tick,
}

/// Something to be done, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// The state changes; always along an edge of §11.2.
    Enter {
        /// The state it leaves.
        from: ServerState,
        /// The state it enters.
        to: ServerState,
        /// Why.
        reason: Arc<str>,
        /// How often it was restarted until then.
        restarts: u64,
    },
    /// Start the server; [`Event::Ready`], [`Event::StartFailed`] or [`Event::Exited`] tells what became of it.
    Start,
    /// Stop the server, if there is one, and its whole tree; [`Event::Stopped`] tells when all is gone.
    Stop {
        /// What it is told. Nothing where it failed.
        reason: Option<ShutdownReason>,
    },
    /// The stop took too long: end the tree by force, and do not wait for it.
    Kill,
    /// No restart any more; the state `error` follows, with this in its reason.
    GiveUp(LimitExceeded),
}

/// More restarts than the window allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitExceeded {
    /// The restarts that are allowed, and were made.
    pub restarts: u32,
    /// The window.
    pub window: Duration,
}

impl LimitExceeded {
    /// The word of §11.5 for it.
    pub const WORD: &'static str = "restart_limit_exceeded";
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} restarts within {:?}", self.restarts, self.window)
    }
}

/// A server that does not run, and that only a person starts again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server rests in `{state}`: {reason}")]
#[non_exhaustive]
pub struct Rest {
    /// `disconnected` or `error`; `registered` if it never started.
    pub state: ServerState,
    /// Why: the reason it was stopped for, or how it ended.
    pub reason: Arc<str>,
    /// How often it was restarted in all.
    pub restarts: u64,
    /// The limit, if that is why.
    pub limit: Option<LimitExceeded>,
}
