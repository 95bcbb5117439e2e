//! The permissions of an authenticated caller, and whether its credentials are still valid.

use std::sync::Arc;

/// The permissions that the verified credentials of a caller grant, with a check of whether the credentials are still
/// valid.
///
/// An authenticating layer stores the grant in the extensions of an HTTP request, together with the
/// [`Principal`](super::Principal). The server copies the grant to the extensions of the call, and ends a stream when
/// the credentials become invalid.
///
/// ```
/// use mgp_types::service::CredentialGrant;
///
/// let pass = CredentialGrant::new(["files.read"], || true);
/// assert!(pass.permits("files.read") && !pass.permits("files.write") && pass.is_valid());
/// ```
#[derive(Clone)]
pub struct CredentialGrant {
    key: Option<Arc<str>>,
    permissions: Arc<[String]>,
    is_valid: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl CredentialGrant {
    /// Creates a grant from the permissions of an API key or the scopes of a token. The function `is_valid` must
    /// return, without waiting, whether the credentials are still valid.
    #[must_use]
    pub fn new(
        permissions: impl IntoIterator<Item = impl Into<String>>,
        is_valid: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            key: None,
            permissions: permissions.into_iter().map(Into::into).collect(),
            is_valid: Arc::new(is_valid),
        }
    }

    /// Sets the id of the API key. Work that continues after the call uses the id to check
    /// whether the key is still valid.
    #[must_use]
    pub fn of_key(mut self, id: &str) -> Self {
        self.key = Some(id.into());
        self
    }

    /// Returns the id of the API key; `None` for other credentials.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }

    /// Returns the permissions of the API key, or the scopes of the token.
    #[must_use]
    pub fn permissions(&self) -> &[String] {
        &self.permissions
    }

    /// Returns whether a permission or scope is included; names are compared exactly.
    #[must_use]
    pub fn permits(&self, permission: &str) -> bool {
        self.permissions.iter().any(|known| known == permission)
    }

    /// Returns whether the credentials permit the use of the outcome of an earlier call of the same principal, e.g. of
    /// its task. `of_call` are the permissions of the credentials of that call, if it had any. Credentials that are
    /// limited to some tools permit this only if they have the same permissions.
    #[must_use]
    pub fn permits_outcome(&self, of_call: Option<&[String]>) -> bool {
        let is_limited = self.permissions.iter().any(|word| word.starts_with("tools."));
        !is_limited || self.permits("tools.call") || of_call == Some(self.permissions())
    }

    /// Returns whether the credentials are still valid, i.e. neither revoked nor expired.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        (self.is_valid)()
    }
}

crate::opaque_debug!(CredentialGrant { permissions });
