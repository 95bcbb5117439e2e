//! Why this crate refuses a call, and the one place where reasons become codes (MGP §14.3).
//!
//! Applies to: both.

use mgp_types::service::{ServerId, Unaudited};
use mgp_types::{ErrorCode, Object, Recovery, RpcError};

#[cfg(feature = "auth")]
use crate::auth::AuthRefused;
use crate::definition::{DecisionRefused, DefinitionRefused};
use crate::state::ChangeError;

/// A refusal of a security layer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// What cannot be recorded does not run.
    #[error("the call was not run: {0}")]
    Unaudited(#[source] Unaudited),
    /// The definition of the tool changed, waits, or cannot be used.
    #[error(transparent)]
    Definition(Box<DefinitionRefused>),
    /// A decision about a definition is not taken.
    #[error(transparent)]
    Decision(#[from] DecisionRefused),
    /// The tools of a server cannot be listed, so that nobody knows whether they changed.
    #[error("the tools of `{server}` cannot be listed: {reason}")]
    Unlisted {
        /// The server.
        server: ServerId,
        /// What it answered.
        #[source]
        reason: RpcError,
    },
    /// A change could not be kept or recorded.
    #[error(transparent)]
    Unchanged(#[from] ChangeError),
    /// Who calls is not known.
    #[cfg(feature = "auth")]
    #[error(transparent)]
    Auth(#[from] AuthRefused),
}

impl From<DefinitionRefused> for Refusal {
    fn from(refused: DefinitionRefused) -> Self {
        Self::Definition(Box::new(refused))
    }
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::Unaudited(unaudited)
            | Refusal::Unchanged(ChangeError::Unaudited(unaudited)) => code_of(unaudited),
            Refusal::Unchanged(ChangeError::Store(error)) => Self::from(error.clone()).code(),
            Refusal::Unchanged(ChangeError::Encode(error)) => error.code(),
            Refusal::Definition(_) => ErrorCode::TOOL_DISABLED,
            Refusal::Decision(DecisionRefused::NotOperator) => ErrorCode::PERMISSION_DENIED,
            Refusal::Decision(_) => ErrorCode::RESOURCE_NOT_FOUND,
            // It may answer again soon.
            Refusal::Unlisted { .. } => ErrorCode::SERVER_NOT_READY,
            #[cfg(feature = "auth")]
            Refusal::Auth(refused) => match refused {
                AuthRefused::Missing | AuthRefused::Malformed(_) | AuthRefused::Invalid(_) => {
                    ErrorCode::AUTH_REQUIRED
                }
                AuthRefused::Expired => ErrorCode::AUTH_EXPIRED,
                AuthRefused::InsufficientScope { .. } => ErrorCode::PERMISSION_DENIED,
                // Who could tell is out of reach: the issuer, or the store of keys.
                AuthRefused::Unavailable => ErrorCode::UPSTREAM_UNAVAILABLE,
            },
        };
        let error = Self::new(code, refusal.to_string());
        let error = match refusal.details() {
            Some(details) => {
                error.recovery(Recovery::default_for(code).unwrap_or_default().details(details))
            }
            None => error,
        };
        error.because(refusal)
    }
}

impl Refusal {
    /// The facts that the caller is told.
    fn details(&self) -> Option<Object> {
        match self {
            Self::Definition(refused) => Some(refused.details()),
            _ => None,
        }
    }
}

fn code_of(unaudited: &Unaudited) -> ErrorCode {
    match unaudited {
        // There may be room later.
        Unaudited::Full => ErrorCode::RESOURCE_EXHAUSTED,
        // The call never started, and the one who runs the server must look at its log.
        _ => ErrorCode::SERVER_NOT_READY,
    }
}
