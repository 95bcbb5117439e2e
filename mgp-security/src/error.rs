//! Why this crate refuses a call, and the one place where reasons become codes (MGP §14.3).
//!
//! Applies to: both.

use mgp_types::service::{Rule, Unaudited};
use mgp_types::{ErrorCode, RpcError};

#[cfg(feature = "auth")]
use crate::auth::AuthRefused;

/// A refusal of a security layer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// What cannot be recorded does not run.
    #[error("the call was not run: {0}")]
    Unaudited(#[source] Unaudited),
    /// The log is for operators and named sinks.
    #[error(transparent)]
    Replay(#[from] ReplayRefused),
    /// Who calls is not known.
    #[cfg(feature = "auth")]
    #[error(transparent)]
    Auth(#[from] AuthRefused),
}

/// Somebody who is neither an operator nor a named sink asked for recorded events.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the audit log is for operators, and for the sinks an operator named")]
pub struct ReplayRefused {
    #[source]
    rule: Rule,
}

impl ReplayRefused {
    pub(crate) fn new() -> Self {
        Self { rule: Rule::new("operators and named sinks only") }
    }
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            // There may be room later.
            Refusal::Unaudited(Unaudited::Full) => ErrorCode::RESOURCE_EXHAUSTED,
            // The call never started, and the one who runs the server must look at its log.
            Refusal::Unaudited(_) => ErrorCode::SERVER_NOT_READY,
            Refusal::Replay(_) => ErrorCode::PERMISSION_DENIED,
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
        Self::new(code, refusal.to_string()).because(refusal)
    }
}
