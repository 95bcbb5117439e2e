//! Why serving ended, and why a call was refused: the one place where reasons become codes.
//!
//! Applies to: inbound.

use mgp_transport::{Closed, StdioError};
use mgp_types::{ErrorCode, RpcError};

/// Why a server could not serve, or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Standard input and output cannot be used.
    #[error("cannot serve on stdin and stdout: {0}")]
    Stdio(#[from] StdioError),
    /// The connection failed.
    #[error(transparent)]
    Connection(Closed),
    /// The server was put together wrongly.
    #[error("the server cannot be built: {0}")]
    Build(#[from] RpcError),
}

/// A refusal of what bounds this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// A session or stream watches too many resources.
    #[error("more than {0} resources cannot be watched at once")]
    TooManyWatched(usize),
    /// Too many sessions and streams are told about changes.
    #[error("too many sessions and streams are told about changes")]
    TooManyListeners,
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        Self::new(ErrorCode::RESOURCE_EXHAUSTED, refusal.to_string())
    }
}
