//! Why a request is not let in, and what its sender is told (RFC 6750 §3).
//!
//! Applies to: inbound.

use http::StatusCode;

/// A request without good credentials.
///
/// A key that is malformed, unknown, revoked or has another secret is refused in the same words, so that answers do
/// not tell which keys exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthRefused {
    /// There is no bearer token in the `Authorization` header.
    #[error("credentials are needed: send the header `Authorization: Bearer KEY_OR_TOKEN`")]
    Missing,
    /// The header is there, and not as it must be.
    #[error("malformed credentials: {0}")]
    Malformed(&'static str),
    /// The key or token is not good; the text says why where that gives nothing away.
    #[error("{0}")]
    Invalid(&'static str),
    /// The key or token was good.
    #[error("the key or token has expired; get a new one")]
    Expired,
    /// The token is good but was not issued for what every request here needs.
    #[error("the token lacks a scope; needed: {needed}")]
    InsufficientScope {
        /// All the scopes needed, separated by spaces.
        needed: String,
    },
    /// Credentials cannot be checked at the moment: no keys of the issuer, or a broken store.
    #[error("credentials cannot be checked at the moment; try again later")]
    Unavailable,
}

impl AuthRefused {
    /// What is said of every key and of whatever cannot be read.
    pub(crate) const NOT_VALID: Self = Self::Invalid("the key or token is not valid here");

    /// The status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Missing | Self::Invalid(_) | Self::Expired => StatusCode::UNAUTHORIZED,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::InsufficientScope { .. } => StatusCode::FORBIDDEN,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The `error` of the challenge; a request that showed nothing gets none.
    pub(crate) fn challenge_error(&self) -> Option<&'static str> {
        match self {
            Self::Missing | Self::Unavailable => None,
            Self::Malformed(_) => Some("invalid_request"),
            Self::Invalid(_) | Self::Expired => Some("invalid_token"),
            Self::InsufficientScope { .. } => Some("insufficient_scope"),
        }
    }
}
