//! Proposal 14 (`session_state`): state that the client keeps for the server and that only the server can read.

use serde::{Deserialize, Serialize};

use super::Member;
use crate::mgp::Extension;
use crate::record::Object;
use crate::wire::{ErrorCode, Recovery, RpcError};

/// The name of the member in an error's details that reports an event of the session, e.g. that the server rejected the
/// session's state.
const SESSION_EVENT: &str = "session_event";

/// The value of [`SESSION_EVENT`] in an error which reports that the server rejected the session state of the call.
const INVALIDATED: &str = "session_invalidated";

/// The state of a session, which the client cannot read. With each call, the client returns the state that it received
/// last, byte for byte.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionState(pub String);

// `Debug` omits the text, because the state may contain secrets of the server.
crate::opaque_debug!(SessionState);

/// The mark of a result whose session state differs from the state that the client sent: the member `state_changed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateChanged(pub bool);

impl SessionState {
    /// The maximum size of a session state, in bytes. A longer state is neither sent nor stored.
    pub const MAX_BYTES: usize = 64 * 1024;

    /// Returns whether the state is longer than [`MAX_BYTES`](Self::MAX_BYTES).
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        self.0.len() > Self::MAX_BYTES
    }

    /// Returns the error that reports a session state that the server does not accept: code 4000 (invalid tool
    /// arguments), with the reason.
    #[must_use]
    pub fn invalidated(reason: &str) -> RpcError {
        let message = format!("{reason}; start a new session: call again without `session_state`");
        let hints = Recovery::default_for(ErrorCode::INVALID_TOOL_ARGS).unwrap_or_default();
        let details = Object::new().with(SESSION_EVENT, INVALIDATED);
        RpcError::new(ErrorCode::INVALID_TOOL_ARGS, message).recovery(hints.details(details))
    }

    /// Returns whether an error reports that the server rejected the state that the call contained.
    #[must_use]
    pub fn is_invalidated(error: &RpcError) -> bool {
        let details = error.as_recovery().and_then(|recovery| recovery.details.as_ref());
        let event = details.and_then(|details| details.get(SESSION_EVENT)?.get::<String>().ok());
        event.as_deref() == Some(INVALIDATED)
    }
}

impl Member for SessionState {
    const EXTENSION: Extension = Extension::SessionState;
    const NAME: &'static str = "session_state";
}

impl Member for StateChanged {
    const EXTENSION: Extension = Extension::SessionState;
    const NAME: &'static str = "state_changed";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_state_is_recognised_by_its_error() {
        let refused = SessionState::invalidated("it has expired");
        assert!(SessionState::is_invalidated(&refused));
        assert!(refused.message().contains("start a new session"), "{refused}");
        assert!(!SessionState::is_invalidated(&RpcError::internal("other")));
        assert!(SessionState("x".repeat(SessionState::MAX_BYTES + 1)).is_too_long());
    }
}
