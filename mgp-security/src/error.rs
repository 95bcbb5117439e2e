//! Why this crate refuses a call, and the one place where reasons become codes (MGP §14.3).
//!
//! Applies to: both.

use mgp_types::service::Unaudited;
use mgp_types::{ErrorCode, RpcError};

/// A refusal of a security layer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// What cannot be recorded does not run.
    #[error("the call was not run: {0}")]
    Unaudited(#[source] Unaudited),
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            // There may be room later.
            Refusal::Unaudited(Unaudited::Full) => ErrorCode::RESOURCE_EXHAUSTED,
            // The call never started, and the one who runs the server must look at its log.
            Refusal::Unaudited(_) => ErrorCode::SERVER_NOT_READY,
        };
        Self::new(code, refusal.to_string()).because(refusal)
    }
}
