//! The reason why no credentials could be obtained for a start or a call.

use mgp_types::{ErrorCode, RpcError};

/// The reason why no credentials could be obtained for a start or a call.
///
/// A gateway writes the text for operators and callers. Unlike a text from a server, it is trusted.
///
/// ```
/// use mgp_client_sdk::gateway::AuthorizationFailed;
/// use mgp_client_sdk::types::ErrorCode;
///
/// let failed = AuthorizationFailed::new("log in first");
/// let error = failed.into_error(ErrorCode::AUTH_REQUIRED);
/// assert_eq!(AuthorizationFailed::from_error(&error).unwrap().to_string(), "log in first");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AuthorizationFailed(String);

impl AuthorizationFailed {
    /// Creates the value from a text that names the reason and the remedy.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// Returns an error for a call, with this value as its cause.
    #[must_use]
    pub fn into_error(self, code: ErrorCode) -> RpcError {
        RpcError::new(code, self.0.clone()).because(self)
    }

    /// Returns the cause of an error, if the cause is a value of this type.
    #[must_use]
    pub fn from_error(error: &RpcError) -> Option<&Self> {
        std::error::Error::source(error)?.downcast_ref()
    }
}
