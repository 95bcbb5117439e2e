//! The repetition of a call in a new legacy session, which restores the effect that the call had in a lost session.

use std::sync::{Arc, Weak};

use super::Params;

/// A function that returns the params with which a call is sent again in a new session, or `None` if it must not be
/// sent. It must not block or use the client, because the client calls it while a lock is held.
pub type SessionReplayFn = dyn Fn() -> Option<Params> + Send + Sync;

/// The way in which a call is repeated in a new session after its legacy session was lost; stored in the extensions of
/// the call.
///
/// If the server loses the session after it has accepted the call, the HTTP client sends the call again in the new
/// session, with the params that the function returns. The call is not repeated any more after the function was
/// dropped.
#[derive(Clone)]
pub struct SessionReplay(Weak<SessionReplayFn>);

crate::opaque_debug!(SessionReplay);

impl SessionReplay {
    /// Creates the extension from a function, which the caller must keep: the extension and its clones do not keep the
    /// function alive.
    #[must_use]
    pub fn new(params: &Arc<SessionReplayFn>) -> Self {
        Self(Arc::downgrade(params))
    }

    /// Returns whether the function was dropped, so that the call is not repeated any more.
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
