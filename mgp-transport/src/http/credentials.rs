//! What a client shows a server at a URL, and what it learns when that was not enough.
//!
//! Applies to: outbound.

use mgp_types::RpcError;
use mgp_types::service::BoxFuture;

/// Gives requests their credentials, and gets better ones where a server refused.
pub trait Credentials: Send + Sync + 'static {
    /// The value of the `Authorization` header; `None` where there is nothing to show yet.
    fn authorization(&self) -> BoxFuture<'_, Result<Option<String>, RpcError>>;

    /// Takes note of a refusal; after `Ok` the request is sent again, after an error it fails with it.
    ///
    /// Whoever implements it bounds how often it says `Ok`.
    fn refused(&self, refusal: Refused) -> BoxFuture<'_, Result<(), RpcError>>;
}

/// A refusal: 401, or 403 with a challenge.
#[derive(Clone)]
#[non_exhaustive]
pub struct Refused {
    /// The status.
    pub status: u16,
    /// The values of `WWW-Authenticate`.
    pub challenges: Vec<String>,
    /// What was shown: where it is no longer what would be shown now, somebody else renewed it already.
    pub shown: Option<String>,
}

impl Refused {
    /// A refusal of this status.
    #[must_use]
    pub fn new(status: u16, challenges: Vec<String>, shown: Option<String>) -> Self {
        Self { status, challenges, shown }
    }
}

/// What was shown is a secret.
impl std::fmt::Debug for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Refused")
            .field("status", &self.status)
            .field("challenges", &self.challenges)
            .finish_non_exhaustive()
    }
}
