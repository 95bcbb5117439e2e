//! What crosses the wire when a call fails (MGP §14).
//!
//! Applies to: both.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use super::{ErrorCode, Payload, Recovery};

/// A refusal or failure: code, message, recovery hints, further data; one word wide.
///
/// ```
/// use mgp_types::{ErrorCode, RpcError};
///
/// let error = RpcError::new(ErrorCode::TOOL_NOT_FOUND, "unknown tool `grpe`");
/// assert_eq!(error.to_string(), "unknown tool `grpe` (4001)");
/// ```
#[derive(Clone)]
pub struct RpcError(Box<Inner>);

#[derive(Clone)]
struct Inner {
    code: ErrorCode,
    message: String,
    recovery: Option<Recovery>,
    data: Option<Payload>,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl RpcError {
    /// Makes an error with the code's own recovery hints (MGP §14.5).
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            code,
            message: message.into(),
            recovery: Recovery::default_for(code),
            data: None,
            source: None,
        }))
    }

    /// −32700: the text is no JSON.
    #[must_use]
    pub fn parse(source: serde_json::Error) -> Self {
        Self::new(ErrorCode::PARSE_ERROR, format!("parse error: {source}")).because(source)
    }

    /// −32600: JSON, but no message.
    #[must_use]
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INVALID_REQUEST, message)
    }

    /// −32601: nobody here answers this method.
    #[must_use]
    pub fn method_not_found(method: &str) -> Self {
        Self::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method `{method}`"))
    }

    /// −32602: the parameters do not fit the method.
    #[must_use]
    pub fn invalid_params(message: impl fmt::Display) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS, format!("invalid params: {message}"))
    }

    /// −32603: a fault of ours.
    #[must_use]
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::INTERNAL_ERROR, message)
    }

    /// Keeps the error below this one; it never crosses the wire.
    #[must_use]
    pub fn because(mut self, source: impl StdError + Send + Sync + 'static) -> Self {
        self.0.source = Some(Arc::new(source));
        self
    }

    /// Replaces the recovery hints.
    #[must_use]
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.0.recovery = Some(recovery);
        self
    }

    /// Drops the recovery hints, for a peer that did not negotiate MGP.
    #[must_use]
    pub fn without_recovery(mut self) -> Self {
        self.0.recovery = None;
        self
    }

    /// Adds further members of `error.data`.
    #[must_use]
    pub fn data(mut self, data: Payload) -> Self {
        self.0.data = Some(data);
        self
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        self.0.code
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The recovery hints (`error.data._mgp`).
    #[must_use]
    pub fn as_recovery(&self) -> Option<&Recovery> {
        self.0.recovery.as_ref()
    }

    /// Further data, without `_mgp`.
    #[must_use]
    pub fn as_data(&self) -> Option<&Payload> {
        self.0.data.as_ref()
    }
}

// === impl Display ===

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.message, self.0.code)
    }
}

// === impl Debug ===

impl fmt::Debug for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RpcError")
            .field("code", &self.0.code)
            .field("message", &self.0.message)
            .field("recovery", &self.0.recovery)
            .field("data", &self.0.data)
            .field("source", &self.0.source)
            .finish()
    }
}

// === impl Error ===

impl StdError for RpcError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}
