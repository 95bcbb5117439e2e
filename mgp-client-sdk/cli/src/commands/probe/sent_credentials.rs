//! The kind of credentials that a probed server was sent. It determines the explanation and the remedy if the server
//! answers with HTTP 401.

use http::header::HeaderMap;
use mgp_types::service::ServerId;

/// The kind of credentials that mgp sent to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum SentCredentials {
    None,
    /// The configured headers of the server.
    Headers,
    /// The token of a login.
    Login,
}

impl SentCredentials {
    /// Returns the credentials of a connection with these headers, and with a login if `has_login` is set.
    pub(in crate::commands) fn new(headers: &HeaderMap, has_login: bool) -> Self {
        match (headers.is_empty(), has_login) {
            (false, _) => Self::Headers,
            (true, true) => Self::Login,
            (true, false) => Self::None,
        }
    }

    /// Returns the reason and the remedy for a server that answered with HTTP 401 to a request with these credentials.
    pub(super) fn refused_by(self, id: &ServerId) -> String {
        match self {
            Self::None => format!(
                "`{id}` requires credentials (HTTP 401); write them as `headers` into its entry, or correct its `url`: a login needs `https`"
            ),
            Self::Headers => format!(
                "`{id}` refuses the credentials that it was sent (HTTP 401); correct the `headers` of its entry, or remove them and run `mgp servers login {id}`"
            ),
            Self::Login => format!(
                "`{id}` refuses the token of the login (HTTP 401); log in with another account or other scopes: `mgp servers login {id} --scopes SCOPES`"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::HttpFailure;
    use mgp_types::{ErrorCode, RpcError};

    use super::super::error_chain;
    use super::*;

    #[test]
    fn a_refused_login_is_not_explained_by_headers_that_are_not_there() {
        let error = RpcError::new(ErrorCode::AUTH_EXPIRED, "refused");
        let error = mgp_client_sdk::Error::Call(error.because(HttpFailure::Status(401)));
        let text = |sent| error_chain(&error, &"tracker".into(), sent);
        assert!(text(SentCredentials::Headers).contains("correct the `headers`"));
        let refused = text(SentCredentials::Login);
        assert!(refused.contains("token of the login") && !refused.contains("headers"));
        assert!(text(SentCredentials::None).contains("a login needs `https`"));
    }
}
