//! What the user of a client settled: who it is, where it keeps tokens, how people log in.
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::service::Fetcher;
use url::Url;

use super::address;
use super::assertion::AnyAssertions;
use super::browser::AnyBrowser;
use super::dpop::Dpop;
use super::error::AuthError;
use super::jwt::SigningKey;
use super::metadata::AuthServer;
use super::register::method;
use super::scope::Scopes;
use super::secret::Secret;
use super::store::AnyStore;
use super::token::{Identity, POST, Proof};

/// What was settled.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) server: String,
    pub(super) fetcher: Fetcher,
    pub(super) name: String,
    pub(super) document: Option<String>,
    pub(super) given: Option<Given>,
    pub(super) issuer: Option<String>,
    pub(super) scopes: Scopes,
    pub(super) store: Arc<dyn AnyStore>,
    pub(super) grant: Grant,
    pub(super) dpop: Dpop,
    pub(super) limit: u32,
    pub(super) patience: Duration,
}

/// Credentials that the user got from the authorization server.
#[derive(Clone)]
pub(super) struct Given {
    pub(super) id: String,
    pub(super) secret: Option<Secret>,
}

/// On whose behalf tokens are asked for.
#[derive(Clone)]
pub(super) enum Grant {
    /// A person's, who logs in.
    Person(Option<Arc<dyn AnyBrowser>>),
    /// The client's own.
    Client(ClientCredentials),
    /// Whoever a signed statement of somebody else names.
    Assertion(ClientCredentials, Arc<dyn AnyAssertions>),
}

/// What a client proves itself with that acts on its own behalf.
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
    /// An id and a secret.
    pub fn secret(id: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self { id: id.into(), proof: Proof::Basic(secret.into()) }
    }

    /// An id and a private key, with which statements are signed that hold for one issuer and two minutes.
    pub fn key(id: impl Into<String>, key: SigningKey) -> Self {
        Self { id: id.into(), proof: Proof::Key(key) }
    }

    /// An id that is not proved.
    pub fn public(id: impl Into<String>) -> Self {
        Self { id: id.into(), proof: Proof::None }
    }

    /// The client before a token endpoint of which nothing is known.
    pub(super) fn plain(&self) -> Identity {
        Identity { id: self.id.clone(), proof: self.proof.clone() }
    }

    /// The client before a token endpoint.
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

impl Plan {
    /// The server, whose address must be fit for tokens.
    pub(super) fn server(&self) -> Result<Url, AuthError> {
        address::secure("the server's URL", &self.server)
    }

    /// The id that belongs to one issuer, because the user got it there.
    pub(super) fn bound_id(&self) -> Option<&str> {
        match &self.grant {
            Grant::Client(credentials) | Grant::Assertion(credentials, _) => Some(&credentials.id),
            Grant::Person(_) if self.document.is_some() => None,
            Grant::Person(_) => self.given.as_ref().map(|given| given.id.as_str()),
        }
    }

    /// Whether tokens come without a person.
    pub(super) fn is_machine(&self) -> bool {
        !matches!(self.grant, Grant::Person(_))
    }
}

/// The proof is a secret.
impl fmt::Debug for ClientCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientCredentials")
            .field("id", &self.id)
            .field("proof", &self.proof)
            .finish()
    }
}
