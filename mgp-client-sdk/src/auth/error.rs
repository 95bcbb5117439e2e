//! Why a client was not authorised, and what to do about it.
//!
//! Applies to: outbound.

use mgp_types::service::FetchError;
use mgp_types::{ErrorCode, RpcError};

use super::scope::Scopes;
use super::store::StoreError;

/// Why there is no token to show.
///
/// What authorization servers say for themselves is shortened and shown without control characters; secrets are in none.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// An address may not be used for credentials.
    #[error("{what} `{url}` may not be used: {why}")]
    Address {
        /// Which address it is.
        what: &'static str,
        /// The address.
        url: String,
        /// The rule.
        why: &'static str,
    },
    /// A document did not arrive.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A document is not what it should be.
    #[error("{what} at `{url}` cannot be used: {why}")]
    Document {
        /// What should be there.
        what: &'static str,
        /// Where.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The metadata is that of another server.
    #[error(
        "the metadata is for `{resource}`, not for `{server}`; do not trust this server, or correct its URL"
    )]
    ResourceMismatch {
        /// What the metadata says.
        resource: String,
        /// Who was asked.
        server: String,
    },
    /// The metadata of an authorization server names another issuer than the one asked.
    #[error(
        "the metadata of `{asked}` says that its issuer is `{found}`; they must be equal to the letter"
    )]
    IssuerMismatch {
        /// Who was asked.
        asked: String,
        /// What the metadata says.
        found: String,
    },
    /// There is no metadata where an authorization server should have it.
    #[error("`{issuer}` has no metadata at any of its well-known addresses")]
    NoMetadata {
        /// The issuer.
        issuer: String,
    },
    /// The metadata lacks something that is needed.
    #[error("the metadata of `{issuer}` names no {what}")]
    Lacks {
        /// The issuer.
        issuer: String,
        /// What is needed.
        what: &'static str,
    },
    /// The authorization server does not say that it supports PKCE with S256.
    #[error(
        "`{issuer}` does not list `S256` among its code challenge methods, so a code could be stolen; ask its operator to support PKCE"
    )]
    NoPkce {
        /// The issuer.
        issuer: String,
    },
    /// Tokens cannot be bound to a key, and have to be.
    #[error(
        "no token of `{issuer}` can be bound to a key (DPoP): {why}; ask the server's operator"
    )]
    NoDpop {
        /// The issuer.
        issuer: String,
        /// What stands in the way.
        why: &'static str,
    },
    /// The authorization server gave a token that is not bound to the key that was shown.
    #[error(
        "`{endpoint}` gave a token that anybody could use who steals it, but one bound to a key (DPoP) is required; it was thrown away"
    )]
    NotBound {
        /// The token endpoint.
        endpoint: String,
    },
    /// The server refuses the proofs of possession.
    #[error(
        "the server refuses to believe that this client holds the key of its token ({error}): {hint}"
    )]
    Proof {
        /// The error code of the challenge.
        error: String,
        /// What may be the reason.
        hint: &'static str,
    },
    /// The credentials are for another issuer than the server names now.
    #[error(
        "the credentials are for `{expected}`, but the server now names {found}; register with the new one if you trust the change"
    )]
    ForeignIssuer {
        /// Whose the credentials are.
        expected: String,
        /// What the server names.
        found: String,
    },
    /// There is no way to a client id.
    #[error(
        "`{issuer}` takes no registrations: give the client a metadata document (`cimd`) or credentials (`preregistered`)"
    )]
    NoClient {
        /// The issuer.
        issuer: String,
    },
    /// The registration was refused.
    #[error("`{issuer}` refused to register this client ({error}): {description}")]
    Registration {
        /// The issuer.
        issuer: String,
        /// The error code.
        error: String,
        /// What it says for itself.
        description: String,
    },
    /// A person has to log in, and nobody gave a browser.
    #[error("a person has to log in; give the client a `browser`, or use client credentials")]
    NoBrowser,
    /// The browser did not come back.
    #[error("the browser did not come back from the login: {0}")]
    Browser(String),
    /// What came back from the login was not asked for.
    #[error(
        "the answer to the login has {0}; it was not asked for by this client, and the login was abandoned"
    )]
    Response(&'static str),
    /// The answer to the login does not come from the authorization server it was asked of (RFC 9207).
    #[error("the answer to the login {why}, but the login was at `{issuer}`; it was abandoned")]
    ResponseIssuer {
        /// Who was asked.
        issuer: String,
        /// How the answer shows that it comes from elsewhere.
        why: &'static str,
    },
    /// The login was refused.
    #[error("the login was refused ({error}): {description}")]
    Denied {
        /// The error code.
        error: String,
        /// What the authorization server says for itself.
        description: String,
    },
    /// The token endpoint refused.
    #[error("`{endpoint}` gave no token ({error}): {description}")]
    Token {
        /// The token endpoint.
        endpoint: String,
        /// The error code.
        error: String,
        /// What it says for itself.
        description: String,
    },
    /// A login ended, and only a person can begin a new one.
    #[error("the login has ended; log in again")]
    Expired,
    /// The server refuses for reasons that other scopes do not mend.
    #[error("the server refuses the request ({error}), and names no scopes that would help")]
    Forbidden {
        /// The error code of the challenge.
        error: String,
    },
    /// The server keeps asking for scopes that were asked for already.
    #[error(
        "the server asked for `{scopes}` more than {limit} times; the account may not be allowed to grant it"
    )]
    StepUps {
        /// What it asks for.
        scopes: Scopes,
        /// How often it may.
        limit: u32,
    },
    /// The server keeps refusing tokens that are new.
    #[error(
        "the server refused {limit} tokens in a row that were new; its operator must look at what it accepts"
    )]
    Rejected {
        /// How many it may.
        limit: u32,
    },
    /// A signing key cannot be used.
    #[error("the signing key cannot be used: {0}")]
    Key(#[source] jsonwebtoken::errors::Error),
    /// The tokens could not be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system has no randomness.
    #[error("the system has no randomness")]
    Randomness(#[source] RpcError),
    /// The authorization stopped before its end.
    #[error("the authorization was stopped; try again")]
    Stopped,
}

impl AuthError {
    /// What a browser says that did not come back.
    pub fn browser(why: impl Into<String>) -> Self {
        Self::Browser(why.into())
    }

    /// The code of what a caller is told: 1002, or 1003 where a login has ended; another where no login helps.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Expired => ErrorCode::AUTH_EXPIRED,
            Self::Forbidden { .. } | Self::StepUps { .. } => ErrorCode::PERMISSION_DENIED,
            Self::Address { .. } | Self::Document { .. } => ErrorCode::UPSTREAM_ERROR,
            Self::Fetch(_) => ErrorCode::UPSTREAM_UNAVAILABLE,
            // The machine's own affair.
            Self::Store(_) | Self::Key(_) | Self::Randomness(_) => ErrorCode::INTERNAL_ERROR,
            _ => ErrorCode::AUTH_REQUIRED,
        }
    }
}

impl From<RpcError> for AuthError {
    /// The only such error on our way is that of the system's randomness.
    fn from(error: RpcError) -> Self {
        Self::Randomness(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_login_mends_does_not_ask_for_one() {
        #[track_caller]
        fn check(error: &AuthError, expected: ErrorCode) {
            assert_eq!(error.code(), expected, "{error}");
        }
        let (what, url) = ("it", String::new());
        let why = String::new();
        check(&AuthError::Expired, ErrorCode::AUTH_EXPIRED);
        check(&AuthError::NoBrowser, ErrorCode::AUTH_REQUIRED);
        let error = "insufficient_scope".to_owned();
        check(&AuthError::Forbidden { error }, ErrorCode::PERMISSION_DENIED);
        let scopes = Scopes::parse("a");
        check(&AuthError::StepUps { scopes, limit: 3 }, ErrorCode::PERMISSION_DENIED);
        check(&AuthError::Address { what, url: url.clone(), why: "" }, ErrorCode::UPSTREAM_ERROR);
        check(
            &AuthError::Document { what, url: url.clone(), why: why.clone() },
            ErrorCode::UPSTREAM_ERROR,
        );
        check(&FetchError::Failed { url, why }.into(), ErrorCode::UPSTREAM_UNAVAILABLE);
        check(&StoreError::Other("full".to_owned()).into(), ErrorCode::INTERNAL_ERROR);
    }
}
