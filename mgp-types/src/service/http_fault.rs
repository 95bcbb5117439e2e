//! What an HTTP carrier met besides the answer, for whoever must tell a refusal of the server from one of the way to it.

use std::error::Error as StdError;

use crate::wire::RpcError;

/// Stands as the source of an [`RpcError`] that came over HTTP with more than its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpFault {
    /// The server was not reached.
    #[error("the server was not reached")]
    Unreached,
    /// The connection ended before the answer, which may have been on its way.
    #[error("the connection ended before the answer")]
    Cut,
    /// The server answered with this status; the error is its own where the body held one.
    #[error("HTTP status {0}")]
    Status(u16),
    /// The same, and the body held an error of JSON-RPC.
    #[error("HTTP status {0} with an error of JSON-RPC")]
    Answered(u16),
}

impl HttpFault {
    /// What HTTP had to do with an error; `None` for one that came as an ordinary answer.
    #[must_use]
    pub fn of(error: &RpcError) -> Option<Self> {
        error.source()?.downcast_ref().copied()
    }

    /// The status, where there was one.
    #[must_use]
    pub fn status(self) -> Option<u16> {
        match self {
            Self::Unreached | Self::Cut => None,
            Self::Status(status) | Self::Answered(status) => Some(status),
        }
    }
}
