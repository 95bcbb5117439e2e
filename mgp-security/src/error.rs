//! Why this crate refuses a call, and the one place where reasons become codes (MGP §14.3).
//!
//! Applies to: both.

use mgp_types::service::Unaudited;
use mgp_types::{ErrorCode, Object, Recovery, RpcError};

#[cfg(feature = "auth")]
use crate::auth::AuthRefused;
use crate::permission::PermissionRefused;

/// A refusal of a security layer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// What cannot be recorded does not run.
    #[error("the call was not run: {0}")]
    Unaudited(#[source] Unaudited),
    /// A call lacks a permission, or permissions cannot be changed so.
    #[error(transparent)]
    Permission(#[from] Box<PermissionRefused>),
    /// Who calls is not known.
    #[cfg(feature = "auth")]
    #[error(transparent)]
    Auth(#[from] AuthRefused),
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            // There may be room later.
            Refusal::Unaudited(Unaudited::Full) => ErrorCode::RESOURCE_EXHAUSTED,
            // The call never started, and the one who runs the server must look at its log.
            Refusal::Unaudited(_) => ErrorCode::SERVER_NOT_READY,
            Refusal::Permission(refused) => refused.code(),
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
            Self::Permission(refused) => refused.details(),
            _ => None,
        }
    }
}
