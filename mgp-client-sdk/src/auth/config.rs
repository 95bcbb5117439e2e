//! The configuration of an OAuth client.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::service::SharedFetch;
use url::Url;

use super::address;
use super::assertion::AssertionSource;
use super::browser::Browser;
use super::dpop::DpopMode;
use super::error::AuthError;
use super::jwt::SigningKey;
use super::metadata::AuthServer;
use super::register::method;
use super::scope::Scopes;
use super::secret::Secret;
use super::store::TokenStore;
use super::token::{Identity, POST, Proof};

#[derive(Clone)]
pub(super) struct OAuthConfig {
    pub(super) server: String,
    pub(super) fetcher: SharedFetch,
    pub(super) name: String,
    pub(super) document: Option<String>,
    pub(super) preregistered: Option<Preregistered>,
    pub(super) issuer: Option<String>,
    pub(super) scopes: Scopes,
    pub(super) store: Arc<dyn TokenStore>,
    pub(super) grant: Grant,
    pub(super) dpop: DpopMode,
    pub(super) limit: u32,
    pub(super) login_timeout: Duration,
}

/// Credentials that the user received from the operator of the authorization server.
#[derive(Clone)]
pub(super) struct Preregistered {
    pub(super) id: String,
    pub(super) secret: Option<Secret>,
}

/// The grant type of the client's token requests. Each variant is for a different party on whose behalf the client
/// acts.
#[derive(Clone)]
pub(super) enum Grant {
    /// Tokens are requested on behalf of a person who logs in with this browser. Without a browser, no login is
    /// possible.
    Person(Option<Arc<dyn Browser>>),
    /// Tokens are requested on behalf of the client itself.
    Client(ClientCredentials),
    /// Tokens are requested on behalf of the subject of an assertion.
    Assertion(ClientCredentials, Arc<dyn AssertionSource>),
}

/// Credentials of a client that acts on its own behalf.
///
/// ```
/// use mgp_client_sdk::auth::ClientCredentials;
///
/// let credentials = ClientCredentials::secret("nightly-job", "s3cret");
/// assert!(!format!("{credentials:?}").contains("s3cret"));
/// ```
#[derive(Clone)]
pub struct ClientCredentials {
    id: String,
    proof: Proof,
}

impl ClientCredentials {
    /// Creates credentials from an id and a secret.
    pub fn secret(id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self { id: id.into(), proof: Proof::Basic(secret.into()) }
    }

    /// Creates credentials from an id and a private key. Each assertion that the key signs is valid for one issuer and
    /// for two minutes.
    pub fn key(id: impl Into<String>, key: SigningKey) -> Self {
        Self { id: id.into(), proof: Proof::Key(key) }
    }

    /// Creates an identity that consists of an id without credentials (a public client).
    pub fn public(id: impl Into<String>) -> Self {
        Self { id: id.into(), proof: Proof::None }
    }

    /// Returns the identity for the token endpoint of an authorization server whose metadata is not known.
    pub(super) fn plain(&self) -> Identity {
        Identity { id: self.id.clone(), proof: self.proof.clone() }
    }

    /// Returns the identity for the token endpoint of a server. Its secret is sent in the header or in the body, as the
    /// server's metadata requires.
    pub(super) fn identity(&self, server: &AuthServer) -> Identity {
        let proof = match &self.proof {
            Proof::Basic(secret) if method(server, Some(secret)) == POST => {
                Proof::Post(secret.clone())
            }
            proof => proof.clone(),
        };
        Identity { id: self.id.clone(), proof }
    }
}

impl OAuthConfig {
    /// Returns the server's URL, or an error if the URL is not secure enough for tokens.
    pub(super) fn server(&self) -> Result<Url, AuthError> {
        address::parse_secure("the server's URL", &self.server)
    }

    /// Returns the configured client id, which is valid only at the issuer that assigned it. Returns `None` if there is
    /// no such id, e.g. because the client registers itself.
    pub(super) fn bound_id(&self) -> Option<&str> {
        match &self.grant {
            Grant::Client(credentials) | Grant::Assertion(credentials, _) => Some(&credentials.id),
            Grant::Person(_) => {
                self.preregistered.as_ref().map(|preregistered| preregistered.id.as_str())
            }
        }
    }

    /// Returns whether tokens are obtained without a person who logs in.
    pub(super) fn is_machine(&self) -> bool {
        !matches!(self.grant, Grant::Person(_))
    }
}

mgp_types::opaque_debug!(ClientCredentials { id, proof });
