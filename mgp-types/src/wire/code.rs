//! Error codes: an open set with the standard ones named (MGP §14.2, §14.3).
//!
//! Applies to: both.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The code of an error; custom codes are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ErrorCode(pub i32);

impl ErrorCode {
    /// The text is no JSON (JSON-RPC).
    pub const PARSE_ERROR: Self = Self(-32700);
    /// JSON, but no message (JSON-RPC).
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// Unknown method (JSON-RPC).
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// Parameters do not fit (JSON-RPC).
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// A fault of the receiver (JSON-RPC).
    pub const INTERNAL_ERROR: Self = Self(-32603);
    /// The server is not in state `connected` (§14.3).
    pub const SERVER_NOT_READY: Self = Self(2000);
    /// A limit of the server is reached (§14.3).
    pub const RESOURCE_EXHAUSTED: Self = Self(3001);
    /// The operation took too long (§14.3).
    pub const TIMEOUT: Self = Self(3003);
    /// The tool does not exist (§14.3).
    pub const TOOL_NOT_FOUND: Self = Self(4001);
    /// permission denied
    pub const PERMISSION_DENIED: Self = Self(1000);
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
