//! The identity of a caller with valid credentials (MGP §3, §5).

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::service::Principal;

/// An authenticated caller: the principal, the permissions of its credentials, and their expiry.
///
/// [`AuthLayer`](super::AuthLayer) adds it to the extensions of the request, beside the [`Principal`].
/// The permissions are also in a [`CredentialGrant`](mgp_types::service::CredentialGrant) among the extensions of calls:
/// [`AccessLayer`](crate::AccessLayer) enforces those it knows, see [`ApiKeys`](super::ApiKeys), and a
/// [`ResourceServer`](super::ResourceServer) requires some scopes of every token.
///
/// Streams end when the `CredentialGrant` does, i.e. with the key or token.
#[derive(Clone, PartialEq, Eq)]
pub struct Authenticated(Arc<Identity>);

#[derive(PartialEq, Eq)]
struct Identity {
    principal: Principal,
    credential: Credential,
    permissions: Vec<String>,
    expires: Option<SystemTime>,
}

/// The credential of a caller, without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credential {
    /// An API key.
    Key {
        /// The id of the key.
        id: String,
    },
    /// An access token.
    Token {
        /// The issuer.
        issuer: String,
        /// The client it was issued to, if the token contains it.
        client: Option<String>,
    },
}

impl Authenticated {
    /// Creates a caller with the permissions of a key or the scopes of a token, and the expiry of its credentials.
    #[must_use]
    pub fn new(
        principal: Principal,
        credential: Credential,
        permissions: Vec<String>,
        expires: Option<SystemTime>,
    ) -> Self {
        Self(Arc::new(Identity { principal, credential, permissions, expires }))
    }

    /// Returns the principal.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.0.principal
    }

    /// Returns the credential.
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.0.credential
    }

    /// Returns the permissions of the key, or the scopes of the token.
    #[must_use]
    pub fn permissions(&self) -> &[String] {
        &self.0.permissions
    }

    /// Returns whether a permission or scope is granted by exactly this name; names imply no others.
    #[must_use]
    pub fn grants(&self, permission: &str) -> bool {
        self.0.permissions.iter().any(|granted| granted == permission)
    }

    /// Returns the expiry of the credentials, or `None` if they do not expire.
    #[must_use]
    pub fn expires(&self) -> Option<SystemTime> {
        self.0.expires
    }

    /// Returns whether the credentials have expired.
    #[must_use]
    pub fn has_expired(&self, now: SystemTime) -> bool {
        self.0.expires.is_some_and(|expires| expires <= now)
    }
}

impl fmt::Debug for Authenticated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticated")
            .field("principal", &self.0.principal)
            .field("credential", &self.0.credential)
            .field("permissions", &self.0.permissions)
            .finish_non_exhaustive()
    }
}
