//! What an authenticated caller may do by its credentials, and whether these still hold.

use std::fmt;
use std::sync::Arc;

/// The credentials of a caller, seen by whoever serves it; made by the layer that looked at them.
///
/// An authenticating layer puts it beside the [`Principal`](super::Principal) into the extensions of an HTTP request.
/// The server hands it on in the extensions of the call, and ends a stream whose caller's credentials no longer hold.
///
/// ```
/// use mgp_types::service::Pass;
///
/// let pass = Pass::new(["files.read"], || true);
/// assert!(pass.permits("files.read") && !pass.permits("files.write") && pass.is_good());
/// ```
#[derive(Clone)]
pub struct Pass {
    permissions: Arc<[String]>,
    good: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Pass {
    /// The permissions of a key or the scopes of a token; `good` says whether it still holds, and must not wait.
    #[must_use]
    pub fn new(
        permissions: impl IntoIterator<Item = impl Into<String>>,
        good: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            permissions: permissions.into_iter().map(Into::into).collect(),
            good: Arc::new(good),
        }
    }

    /// The permissions of the key, or the scopes of the token.
    #[must_use]
    pub fn permissions(&self) -> &[String] {
        &self.permissions
    }

    /// Whether a permission or scope is among them, letter by letter: no name stands for others.
    #[must_use]
    pub fn permits(&self, permission: &str) -> bool {
        self.permissions.iter().any(|known| known == permission)
    }

    /// Whether it still holds: neither revoked nor expired.
    #[must_use]
    pub fn is_good(&self) -> bool {
        (self.good)()
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").field("permissions", &self.permissions).finish_non_exhaustive()
    }
}
