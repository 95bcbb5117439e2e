//! The identity of a caller with valid credentials (MGP §3, §5).

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::service::Principal;

/// An authenticated caller: the principal, the permissions of its credentials, and their expiry.
///
/// [`AuthLayer`](super::AuthLayer) adds it to the extensions of the request, together with the [`Principal`]. The
/// permissions are also in a [`CredentialGrant`](mgp_types::service::CredentialGrant) among the extensions of calls.
/// [`AccessLayer`](crate::AccessLayer) enforces the permissions that [`ApiKeys`](super::ApiKeys) lists, and a
/// [`ResourceServer`](super::ResourceServer) requires some scopes of every token.
///
/// A stream ends when its `CredentialGrant` does, i.e. when the key or token expires, or the key is revoked.
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
    /// The caller authenticated with an API key.
    Key {
        /// The id of the key, which is not secret.
        id: String,
    },
    /// The caller authenticated with an access token.
    Token {
        /// The issuer of the access token.
        issuer: String,
        /// The client to which the token was issued, if the token names it.
        client: Option<String>,
    },
}

impl Authenticated {
    /// Creates the identity of a caller: its principal, the permissions of its key or the scopes of its token, and
    /// their expiry.
    #[must_use]
    pub fn new(
        principal: Principal,
        credential: Credential,
        permissions: Vec<String>,
        expires: Option<SystemTime>,
    ) -> Self {
        Self(Arc::new(Identity { principal, credential, permissions, expires }))
    }

    /// Returns the principal that the credentials authenticate.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.0.principal
    }

    /// Returns the credential with which the caller authenticated.
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.0.credential
    }

    /// Returns the permissions of the key, or the scopes of the token. No name implies another.
    #[must_use]
    pub fn permissions(&self) -> &[String] {
        &self.0.permissions
    }

    /// Returns the time from which the credentials are no longer accepted, or `None` if they do not expire.
    ///
    /// For a token that a [`ResourceServer`](super::ResourceServer) verified, this is a minute after the token's `exp`,
    /// because the clocks of the issuer and of this server may differ.
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
