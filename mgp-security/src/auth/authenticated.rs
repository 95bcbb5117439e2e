//! What is known of a caller whose credentials were good (MGP §3, §5).
//!
//! Applies to: inbound.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use mgp_types::service::Principal;

/// An authenticated caller: the principal, what the credentials permit, and how long they last.
///
/// [`AuthLayer`](super::AuthLayer) puts it beside the [`Principal`] into the extensions of the request.
/// The permissions travel on as a [`Pass`](mgp_types::service::Pass), which calls find in their extensions:
/// [`AccessLayer`](crate::AccessLayer) holds callers to those it knows, see [`ApiKeys`](super::ApiKeys), and a
/// [`ResourceServer`](super::ResourceServer) requires some scopes of every token.
///
/// The same `Pass` ends streams that outlive the key or token.
#[derive(Clone, PartialEq, Eq)]
pub struct Authenticated(Arc<Inner>);

#[derive(PartialEq, Eq)]
struct Inner {
    principal: Principal,
    credential: Credential,
    permissions: Vec<String>,
    expires: Option<SystemTime>,
}

/// What a caller showed; names only, no secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Credential {
    /// An API key.
    Key {
        /// Its id.
        id: String,
    },
    /// An access token.
    Token {
        /// Who issued it.
        issuer: String,
        /// The client it was issued to, where the token says so.
        client: Option<String>,
    },
}

impl Authenticated {
    /// A caller with these permissions (of a key) or scopes (of a token); `expires` is when the credentials end.
    #[must_use]
    pub fn new(
        principal: Principal,
        credential: Credential,
        permissions: Vec<String>,
        expires: Option<SystemTime>,
    ) -> Self {
        Self(Arc::new(Inner { principal, credential, permissions, expires }))
    }

    /// Who calls.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.0.principal
    }

    /// What was shown.
    #[must_use]
    pub fn credential(&self) -> &Credential {
        &self.0.credential
    }

    /// The permissions of the key, or the scopes of the token.
    #[must_use]
    pub fn permissions(&self) -> &[String] {
        &self.0.permissions
    }

    /// Whether a permission or scope is among them, letter by letter: no name stands for others.
    #[must_use]
    pub fn grants(&self, permission: &str) -> bool {
        self.0.permissions.iter().any(|granted| granted == permission)
    }

    /// When the credentials end; `None` where they do not.
    #[must_use]
    pub fn expires(&self) -> Option<SystemTime> {
        self.0.expires
    }

    /// Whether the credentials have ended.
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
