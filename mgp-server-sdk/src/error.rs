//! Why serving ended.
//!
//! Applies to: inbound.

use mgp_transport::{Closed, StdioError};
use mgp_types::RpcError;

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
