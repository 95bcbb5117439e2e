//! The HTTP failure that caused an error. It shows whether the server refused a request, or whether the request or its
//! response was lost.

use std::error::Error as StdError;

use crate::wire::RpcError;

/// The HTTP failure that is the source of an [`RpcError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpFailure {
    /// The server was not reached.
    #[error("the server was not reached")]
    Unreachable,
    /// The connection ended before the response was complete; the server might have received the request.
    #[error("the connection ended before the answer")]
    ConnectionLost,
    /// The server responded, but not as an MCP server answers: e.g. with HTML, or without an answer to the request.
    #[error("the response is not an answer of an MCP server")]
    NoAnswer,
    /// The server encoded its response, e.g. compressed it, although the request did not ask for an encoding.
    #[error("the response is encoded")]
    Encoded,
    /// The server responded with this HTTP status, and the response contains no JSON-RPC error.
    #[error("HTTP status {0}")]
    Status(u16),
    /// The server responded with this HTTP status, and the response contains a JSON-RPC error.
    #[error("HTTP status {0} with a JSON-RPC error")]
    StatusWithError(u16),
}

impl HttpFailure {
    /// Returns the HTTP failure that caused an error; `None` if the error has another cause.
    #[must_use]
    pub fn from_error(error: &RpcError) -> Option<Self> {
        error.source()?.downcast_ref().copied()
    }

    /// Returns the HTTP status with which the request failed; `None` if the failure has no status.
    #[must_use]
    pub fn status(self) -> Option<u16> {
        match self {
            Self::Unreachable | Self::ConnectionLost | Self::NoAnswer | Self::Encoded => None,
            Self::Status(status) | Self::StatusWithError(status) => Some(status),
        }
    }
}
