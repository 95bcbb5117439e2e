//! Refusals of requests, and the answers to them (RFC 6750 §3).

use http::StatusCode;

/// A refusal of a request without valid credentials.
///
/// The message for an invalid key is the same whether the key is malformed, unknown, revoked or has a wrong secret, so
/// that answers do not reveal which keys exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthRefused {
    /// There is no bearer token in the `Authorization` header.
    #[error("credentials are needed: send the header `Authorization: Bearer KEY_OR_TOKEN`")]
    Missing,
    /// The `Authorization` header is malformed.
    #[error("malformed credentials: {0}")]
    Malformed(&'static str),
    /// The key or token is not valid; the message contains the reason if the reason reveals no secret.
    #[error("{0}")]
    Invalid(&'static str),
    /// The key or token was valid, but has expired.
    #[error("the key or token has expired; get a new one")]
    Expired,
    /// The token is valid but lacks a scope that every request needs.
    #[error("the token lacks a scope; needed: {needed}")]
    InsufficientScope {
        /// All required scopes, separated by spaces.
        needed: String,
    },
    /// The credentials cannot be checked now: the issuer's keys are missing, or the store is broken.
    #[error("credentials cannot be checked at the moment; try again later")]
    Unavailable,
}

impl AuthRefused {
    /// The refusal for every invalid key and every unreadable token.
    pub(crate) const NOT_VALID: Self = Self::Invalid("the key or token is not valid here");

    /// Returns the HTTP status of the answer.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Missing | Self::Invalid(_) | Self::Expired => StatusCode::UNAUTHORIZED,
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::InsufficientScope { .. } => StatusCode::FORBIDDEN,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the `error` of the challenge, or `None` if there are no credentials or they cannot be checked.
    pub(crate) fn challenge_error(&self) -> Option<&'static str> {
        match self {
            Self::Missing | Self::Unavailable => None,
            Self::Malformed(_) => Some("invalid_request"),
            Self::Invalid(_) | Self::Expired => Some("invalid_token"),
            Self::InsufficientScope { .. } => Some("insufficient_scope"),
        }
    }
}
