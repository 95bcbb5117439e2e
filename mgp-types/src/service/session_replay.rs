//! The request that restores the effect of a call in a new legacy session.

use std::sync::{Arc, Weak};

use super::Params;

/// A function that returns the params with which a call is sent again in a new session, or `None` if it must not be
/// sent. It must not block or use the client, because the client calls it while a lock is held.
pub type SessionReplayFn = dyn Fn() -> Option<Params> + Send + Sync;

/// The way in which a call is repeated after its legacy session was lost, stored in the extensions of the call.
///
/// If the server accepts the call and later loses the session, the HTTP client sends the call in the new session again,
/// with other params. This ends when the function is dropped.
#[derive(Clone)]
pub struct SessionReplay(Weak<SessionReplayFn>);

crate::opaque_debug!(SessionReplay);

impl SessionReplay {
    /// Creates the extension; its clones do not keep the function alive.
    #[must_use]
    pub fn new(params: &Arc<SessionReplayFn>) -> Self {
        Self(Arc::downgrade(params))
    }

    /// Returns whether the function was dropped.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }

    /// Returns the params of the repeated call; `None` if the call must not be sent again.
    #[must_use]
    pub fn params(&self) -> Option<Params> {
        self.0.upgrade()?()
    }
}
