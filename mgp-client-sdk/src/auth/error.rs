//! Errors of authorization.

use mgp_types::service::FetchError;
use mgp_types::{ErrorCode, RpcError};

use super::scope::Scopes;
use super::store::TokenStoreError;

/// An error of authorization.
///
/// Texts from authorization servers are clipped, and contain no control characters. No error contains a secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthError {
    /// An address must not be used for credentials.
    #[error("{what} `{url}` may not be used: {why}")]
    Address {
        /// The kind of address, e.g. `the token endpoint`.
        what: &'static str,
        /// The address that must not be used.
        url: String,
        /// The rule that the address breaks.
        why: &'static str,
    },
    /// A document could not be fetched, or an endpoint could not be reached.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A document is invalid.
    #[error("{what} at `{url}` cannot be used: {why}")]
    Document {
        /// The kind of document.
        what: &'static str,
        /// The URL of the document.
        url: String,
        /// The reason why the document is invalid.
        why: String,
    },
    /// The metadata belongs to another server.
    #[error(
        "the metadata is for `{resource}`, not for `{server}`; do not trust this server, or correct its URL"
    )]
    ResourceMismatch {
        /// The resource that the metadata names.
        resource: String,
        /// The URL of the server that the client uses.
        server: String,
    },
    /// The metadata of an authorization server does not name the issuer whose metadata was requested.
    #[error("the metadata of `{asked}` names the issuer `{found}`; both must be identical")]
    IssuerMismatch {
        /// The issuer whose metadata was requested.
        asked: String,
        /// The issuer that the metadata names.
        found: String,
    },
    /// No well-known address of an authorization server has metadata.
    #[error("`{issuer}` has no metadata at any of its well-known addresses")]
    NoMetadata {
        /// The issuer whose metadata was not found.
        issuer: String,
    },
    /// The metadata does not contain a required endpoint.
    #[error("the metadata of `{issuer}` does not contain the {what}")]
    MissingEndpoint {
        /// The issuer whose metadata is incomplete.
        issuer: String,
        /// The kind of the missing endpoint.
        what: &'static str,
    },
    /// The authorization server does not declare support for PKCE with S256.
    #[error(
        "`{issuer}` does not list `S256` among its code challenge methods, so a code could be stolen; ask its operator to support PKCE"
    )]
    NoPkce {
        /// The issuer that does not declare support for PKCE.
        issuer: String,
    },
    /// Tokens must be bound to a key but cannot be.
    #[error(
        "no token of `{issuer}` can be bound to a key (DPoP): {why}; ask the server's operator"
    )]
    NoDpop {
        /// The issuer whose tokens cannot be bound.
        issuer: String,
        /// The reason why tokens cannot be bound to a key.
        why: &'static str,
    },
    /// The authorization server returned a token that is not bound to the client's key.
    #[error(
        "`{endpoint}` returned a token that is not bound to a key (DPoP), which is required; it was discarded"
    )]
    TokenNotBound {
        /// The token endpoint that returned the token.
        endpoint: String,
    },
    /// The server refused the client's proofs of possession.
    #[error("the server refused the proof of possession of the token's key ({error}): {hint}")]
    Proof {
        /// The error code of the challenge in the refusal.
        error: String,
        /// A possible reason for the refusal.
        hint: &'static str,
    },
    /// The credentials belong to a different issuer than the server now names.
    #[error(
        "the credentials are for `{expected}`, but the server now names {found}; register with the new one if you trust the change"
    )]
    ForeignIssuer {
        /// The issuer of the credentials.
        expected: String,
        /// The issuers that the server names.
        found: String,
    },
    /// The client has no client id and cannot obtain a client id.
    #[error(
        "`{issuer}` does not accept registrations: give the client a metadata document (`cimd`) or credentials (`preregistered`)"
    )]
    NoClient {
        /// The issuer that does not accept registrations.
        issuer: String,
    },
    /// The authorization server refused to register the client.
    #[error("`{issuer}` refused to register this client ({error}){}", appended(.description))]
    Registration {
        /// The issuer that refused the registration.
        issuer: String,
        /// The error code of the refusal.
        error: String,
        /// The description of the refusal by the authorization server.
        description: String,
    },
    /// A person must log in, but the client has no browser.
    #[error("a person must log in; give the client a `browser`, or use client credentials")]
    NoBrowser,
    /// The browser did not return from the login.
    #[error("the browser did not return from the login: {0}")]
    Browser(String),
    /// The response to the login does not match the request.
    #[error(
        "the response to the login has {0}; this client did not request it, and the login was abandoned"
    )]
    Response(&'static str),
    /// The response to the login was issued by another authorization server than expected (RFC 9207).
    #[error("the response to the login {why}, but the login was at `{issuer}`; it was abandoned")]
    ResponseIssuer {
        /// The issuer that logged the person in.
        issuer: String,
        /// The reason why the client refused the response.
        why: &'static str,
    },
    /// The authorization server refused the login.
    #[error("the login was refused ({error}){}", appended(.description))]
    Denied {
        /// The error code of the refusal.
        error: String,
        /// The description of the refusal by the authorization server.
        description: String,
    },
    /// The token endpoint refused to issue a token.
    #[error("`{endpoint}` refused to issue a token ({error}){}", appended(.description))]
    Token {
        /// The token endpoint that refused the request.
        endpoint: String,
        /// The error code of the refusal.
        error: String,
        /// The description of the refusal by the authorization server.
        description: String,
    },
    /// The issuer refused to revoke a token, which stays valid until it expires.
    #[error("`{endpoint}` did not revoke the token ({error}){}", appended(.description))]
    NotRevoked {
        /// The revocation endpoint that refused the request.
        endpoint: String,
        /// The error code of the refusal.
        error: String,
        /// The description of the refusal by the authorization server.
        description: String,
    },
    /// The login has expired; a person has to log in again.
    #[error("the login has expired; log in again")]
    Expired,
    /// The login does not include scopes that a request needs; a person has to log in again.
    #[error(
        "the login does not include the scopes `{scopes}` that the request needs; log in again with them"
    )]
    MissingScopes {
        /// The scopes that the server requires.
        scopes: Scopes,
    },
    /// The server refused a request for a reason that additional scopes cannot solve.
    #[error("the server refuses the request ({error}), and does not name scopes that would help")]
    Forbidden {
        /// The error code of the challenge in the refusal.
        error: String,
    },
    /// The server repeatedly requests scopes that were requested before.
    #[error(
        "the server asked for `{scopes}` more than {limit} times; the account may not be allowed to grant it"
    )]
    TooManyStepUps {
        /// The scopes that the server requests repeatedly.
        scopes: Scopes,
        /// The maximum number of requests for the same scopes.
        limit: u32,
    },
    /// The server repeatedly refuses new tokens.
    #[error(
        "the server refused {limit} tokens in a row that were new; ask its operator which tokens it accepts"
    )]
    TooManyRefusals {
        /// The maximum number of new tokens that the server may refuse in a row.
        limit: u32,
    },
    /// The authorization server repeatedly issued tokens that expire immediately, so they were not sent to the server.
    #[error(
        "the authorization server issues tokens that expire at once (`expires_in` is 0); ask its operator for a longer lifetime"
    )]
    NeverValid,
    /// A signing key is invalid.
    #[error("the signing key cannot be used: {0}")]
    Key(#[source] jsonwebtoken::errors::Error),
    /// The token store failed.
    #[error(transparent)]
    Store(#[from] TokenStoreError),
    /// The system's random generator failed.
    #[error("the system has no randomness")]
    Randomness(#[source] RpcError),
    /// The authorization was stopped before it ended.
    #[error("the authorization was stopped; try again")]
    Stopped,
}

impl AuthError {
    /// Creates the error for a browser that did not return from the login.
    pub fn browser(why: impl Into<String>) -> Self {
        Self::Browser(why.into())
    }

    /// Returns the error code for callers: 1003 if a login has expired or lacks scopes, another code for a refused
    /// request, a faulty or unreachable server or a failure of this machine, else 1002 (authentication required).
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Expired | Self::MissingScopes { .. } => ErrorCode::AUTH_EXPIRED,
            Self::Forbidden { .. } | Self::TooManyStepUps { .. } => ErrorCode::PERMISSION_DENIED,
            Self::Address { .. } | Self::Document { .. } | Self::NotRevoked { .. } => {
                ErrorCode::UPSTREAM_ERROR
            }
            Self::Fetch(_) => ErrorCode::UPSTREAM_UNAVAILABLE,
            Self::Token { .. } if self.is_temporary() => ErrorCode::UPSTREAM_UNAVAILABLE,
            // These errors are problems of the local machine, not of the caller or the server.
            Self::Store(_) | Self::Key(_) | Self::Randomness(_) => ErrorCode::INTERNAL_ERROR,
            _ => ErrorCode::AUTH_REQUIRED,
        }
    }

    /// Returns whether the failure is temporary: a request was not answered, or the endpoint could not process it.
    pub(super) fn is_temporary(&self) -> bool {
        match self {
            Self::Fetch(error) => matches!(error, FetchError::Failed { .. }),
            Self::Token { error, .. } => {
                error.starts_with("status 5")
                    || matches!(
                        error.as_str(),
                        "status 408" | "status 429" | "temporarily_unavailable" | "server_error"
                    )
            }
            _ => false,
        }
    }
}

impl From<RpcError> for AuthError {
    /// Wraps an error of the random number generator; no other [`RpcError`] occurs here.
    fn from(error: RpcError) -> Self {
        Self::Randomness(error)
    }
}

/// Returns the description of a refusal as the end of a message. Many authorization servers send none.
fn appended(description: &str) -> String {
    if description.is_empty() { String::new() } else { format!(": {description}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_without_a_description_ends_with_its_error() {
        let refused = |description: &str| {
            let (error, description) = ("access_denied".to_owned(), description.to_owned());
            AuthError::Denied { error, description }.to_string()
        };
        assert_eq!(refused(""), "the login was refused (access_denied)");
        assert_eq!(refused("not today"), "the login was refused (access_denied): not today");
    }

    #[test]
    fn errors_that_a_login_does_not_solve_have_other_codes() {
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
        check(&AuthError::TooManyStepUps { scopes, limit: 3 }, ErrorCode::PERMISSION_DENIED);
        check(&AuthError::Address { what, url: url.clone(), why: "" }, ErrorCode::UPSTREAM_ERROR);
        check(
            &AuthError::Document { what, url: url.clone(), why: why.clone() },
            ErrorCode::UPSTREAM_ERROR,
        );
        check(&FetchError::Failed { url, why }.into(), ErrorCode::UPSTREAM_UNAVAILABLE);
        check(&TokenStoreError::Other("full".to_owned()).into(), ErrorCode::INTERNAL_ERROR);
        for (error, code) in [
            ("status 503", ErrorCode::UPSTREAM_UNAVAILABLE),
            ("server_error", ErrorCode::UPSTREAM_UNAVAILABLE),
            ("status 404", ErrorCode::AUTH_REQUIRED),
            ("invalid_grant", ErrorCode::AUTH_REQUIRED),
        ] {
            let (endpoint, error, description) = (String::new(), error.to_owned(), String::new());
            check(&AuthError::Token { endpoint, error, description }, code);
        }
    }
}
