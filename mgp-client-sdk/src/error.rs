//! Errors of this crate (MGP §14).

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use mgp_lifecycle::ConnectError;
use mgp_transport::ChildError;
use mgp_types::mcp::{
    CallToolResult, ElicitParams, Revision, UnsupportedVersionData, UrlElicitationRequiredData,
};
use mgp_types::proposal::StructuredError;
use mgp_types::service::AuditError;
use mgp_types::{ErrorCode, Recovery, RpcError};
use serde::Deserialize;

use crate::wire::is_openable;

/// A failed connection, call or tool.
///
/// ```
/// use mgp_client_sdk::Error;
/// use mgp_client_sdk::types::{ErrorCode, RpcError};
///
/// let error = Error::from(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, "busy"));
/// assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
/// assert!(error.is_retryable());
/// assert_eq!(error.retry_after().unwrap().as_millis(), 1000);
/// ```
///
/// `Debug` prints the same as `Display`, so that a `main` returning this error shows its message.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The call failed: the server refused it, did not answer in time (code 3003, timeout), or is no longer connected
    /// (code 2000, server not ready).
    #[error(transparent)]
    Call(#[from] RpcError),
    /// The tool ran and reported a failure (`isError`).
    #[error(transparent)]
    Tool(#[from] Box<ToolFailure>),
    /// No connection was established, e.g. because the handshake failed.
    #[error(transparent)]
    Connect(ConnectError),
    /// No revision is supported by both sides; the connection was closed.
    #[error("the server does not speak revision `{requested}`{}", list_supported(supported))]
    UnsupportedVersion {
        /// The revision that was requested.
        requested: Revision,
        /// The revisions that the server supports, as far as it reported them.
        supported: Vec<Revision>,
    },
    /// The connection could not be recorded in the audit log, so it was closed (MGP §6).
    #[error("the connection was closed: {0}")]
    Unaudited(#[source] AuditError),
    /// The server's program could not be started.
    #[error("the server did not start: {0}{cause}", cause = cause_of(.0))]
    Spawn(#[source] ChildError),
    /// The URL cannot be used: it is invalid, or needs a feature that is not built in.
    #[cfg(feature = "http")]
    #[error(transparent)]
    Url(#[from] mgp_transport::http::HttpClientError),
}

/// Returns the cause of an error as the end of a message; empty if the error has none.
pub(crate) fn cause_of(error: &ChildError) -> String {
    std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"))
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The result of a tool that failed (`isError`), with the error code and the retry hints that the result contains.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the tool failed: {message}")]
pub struct ToolFailure {
    message: String,
    code: ErrorCode,
    recovery: Option<Recovery>,
    result: CallToolResult,
}

impl Error {
    /// Returns the server's error code or, if the client detected the failure, the code for this failure: e.g. code
    /// 2000 (server not ready) if the connection has ended, and code 3003 (timeout) if the server did not answer in
    /// time.
    ///
    /// If a tool failed without a code, returns code −32603 (internal error).
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Call(error) | Self::Connect(ConnectError::Refused(error)) => error.code(),
            Self::Tool(failure) => failure.code,
            Self::Connect(ConnectError::TimedOut(_)) => ErrorCode::TIMEOUT,
            Self::Connect(ConnectError::Rejected(_) | ConnectError::Deferred(_)) => {
                ErrorCode::PERMISSION_DENIED
            }
            Self::Connect(ConnectError::Unsupported(_)) | Self::UnsupportedVersion { .. } => {
                ErrorCode::UNSUPPORTED_VERSION
            }
            Self::Unaudited(_) | Self::Spawn(_) => ErrorCode::SERVER_NOT_READY,
            #[cfg(feature = "http")]
            Self::Url(_) => ErrorCode::INVALID_REQUEST,
            Self::Connect(_) => ErrorCode::INTERNAL_ERROR,
        }
    }

    /// Returns the message without the code.
    #[must_use]
    pub fn message(&self) -> Cow<'_, str> {
        match self {
            Self::Call(error) => error.message().into(),
            Self::Tool(failure) => failure.message.as_str().into(),
            other => other.to_string().into(),
        }
    }

    /// Returns the recovery hints, if there are any (§14.5): those of the server or, for a failure that the client
    /// detected, the default hints of its code.
    #[must_use]
    pub fn recovery(&self) -> Option<&Recovery> {
        match self {
            Self::Call(error) | Self::Connect(ConnectError::Refused(error)) => error.as_recovery(),
            Self::Tool(failure) => failure.recovery.as_ref(),
            _ => None,
        }
    }

    /// Returns the structured error, if the server sent one (extension
    /// [`StructuredErrors`](mgp_types::mgp::Extension::StructuredErrors)).
    #[must_use]
    pub fn structured(&self) -> Option<StructuredError> {
        match self {
            Self::Call(error) | Self::Connect(ConnectError::Refused(error)) => {
                StructuredError::in_error(error)
            }
            Self::Tool(failure) => StructuredError::in_result(&failure.result),
            _ => None,
        }
    }

    /// Returns whether a retry makes sense; `false` unless the [recovery hints](Self::recovery) allow it.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.recovery().is_some_and(Recovery::is_retryable)
    }

    /// Returns the delay before a retry, if the server's recovery hints contain one.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.recovery()?.retry_after_ms.map(Duration::from_millis)
    }

    /// Returns the pages that the user must visit before the call can succeed, if a server of 2025-11-25 refused it
    /// with code −32042 (URL elicitation required). Leaves out pages with unsafe addresses, which are neither `https`
    /// nor, on this machine, `http`.
    ///
    /// Repeat the call once the hook [`ClientBuilder::on_elicitation_complete`] has been called for each of these
    /// pages.
    ///
    /// [`ClientBuilder::on_elicitation_complete`]: crate::ClientBuilder::on_elicitation_complete
    #[must_use]
    pub fn pages(&self) -> Vec<ElicitParams> {
        let Self::Call(error) = self else { return Vec::new() };
        let required =
            error.as_data().filter(|_| error.code() == ErrorCode::URL_ELICITATION_REQUIRED);
        let data = required.and_then(|data| data.get::<UrlElicitationRequiredData>().ok());
        let pages = data.map_or_else(Vec::new, |data| data.elicitations);
        pages.into_iter().filter(is_openable).collect()
    }

    /// Returns the result of a tool that failed.
    #[must_use]
    pub fn as_tool_result(&self) -> Option<&CallToolResult> {
        match self {
            Self::Tool(failure) => Some(&failure.result),
            _ => None,
        }
    }
}

impl ToolFailure {
    pub(crate) fn new(result: CallToolResult) -> Self {
        /// A refusal in the form in which a server with MGP sends it to a client without MGP.
        #[derive(Default, Deserialize)]
        struct Refusal {
            #[serde(default)]
            status: String,
            #[serde(default)]
            code: i32,
            retryable: Option<bool>,
            retry_after_ms: Option<u64>,
        }
        let refusal = result.structured_content.as_ref();
        let refusal = refusal.and_then(|content| content.get::<Refusal>().ok());
        let refusal = refusal.filter(|refusal| refusal.status == "rejected" && refusal.code != 0);
        let texts: Vec<_> = result.content.iter().filter_map(|block| block.as_text()).collect();
        let message =
            if texts.is_empty() { "no reason was given".into() } else { texts.join("\n") };
        let mut recovery = None;
        let mut code = ErrorCode::INTERNAL_ERROR;
        if let Some(refusal) = refusal {
            code = ErrorCode(refusal.code);
            let mut hints = Recovery::new();
            hints.category = code.category();
            hints.retryable = refusal.retryable;
            hints.retry_after_ms = refusal.retry_after_ms;
            recovery = Some(hints);
        } else if let Some(structured) = StructuredError::in_result(&result) {
            let error = structured.to_error();
            code = error.code();
            recovery = error.as_recovery().cloned();
        }
        Self { message, code, recovery, result }
    }

    /// Returns the tool's whole result with the failure.
    #[must_use]
    pub fn result(&self) -> &CallToolResult {
        &self.result
    }
}

impl From<ConnectError> for Error {
    /// Converts a refusal that names the supported revisions to [`Error::UnsupportedVersion`].
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Unsupported(revision) => Self::UnsupportedVersion {
                requested: Revision::LATEST_LEGACY,
                supported: vec![revision],
            },
            ConnectError::Refused(refusal) => match versions(&refusal) {
                Some(data) => Self::UnsupportedVersion {
                    requested: data.requested,
                    supported: data.supported,
                },
                None => Self::Connect(ConnectError::Refused(refusal)),
            },
            other => Self::Connect(other),
        }
    }
}

impl From<ChildError> for Error {
    fn from(error: ChildError) -> Self {
        Self::Spawn(error)
    }
}

impl From<Error> for RpcError {
    /// Converts the error to a protocol error, for servers whose tools call other servers.
    fn from(error: Error) -> Self {
        match error {
            Error::Call(error) | Error::Connect(ConnectError::Refused(error)) => error,
            other => {
                let made = Self::new(other.code(), other.message());
                match other.recovery() {
                    Some(recovery) => made.recovery(recovery.clone()),
                    None => made,
                }
            }
        }
    }
}

#[cfg(feature = "auth")]
impl From<&crate::auth::AuthError> for RpcError {
    /// Uses [the error's own code](crate::auth::AuthError::code).
    fn from(error: &crate::auth::AuthError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}

/// Reads the revisions that a server supports from an error −32602 (legacy) or −32022 (modern).
fn versions(refusal: &RpcError) -> Option<UnsupportedVersionData> {
    let has_versions =
        matches!(refusal.code(), ErrorCode::INVALID_PARAMS | ErrorCode::UNSUPPORTED_VERSION);
    refusal.as_data().filter(|_| has_versions)?.get().ok()
}

fn list_supported(revisions: &[Revision]) -> String {
    let words: Vec<_> = revisions.iter().map(|revision| format!("`{revision}`")).collect();
    if words.is_empty() {
        return "; use the era `auto` to find a revision that both support".to_owned();
    }
    format!(", but {}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use mgp_types::Payload;

    use super::*;

    #[test]
    fn a_refusal_that_names_revisions_is_a_matter_of_versions() {
        let data = r#"{"supported":["2024-11-05","2030-01-01"],"requested":"2025-11-25"}"#;
        let refusal = RpcError::new(ErrorCode::INVALID_PARAMS, "Unsupported protocol version");
        let error =
            Error::from(ConnectError::Refused(refusal.clone().data(Payload::from_trusted(data))));
        assert_eq!(
            error.to_string(),
            "the server does not speak revision `2025-11-25`, but `2024-11-05`, `2030-01-01`"
        );
        assert!(matches!(Error::from(ConnectError::Refused(refusal)), Error::Connect(_)));
    }

    #[test]
    fn a_refusal_in_a_result_has_its_code_and_hints() {
        let mut result = CallToolResult::error("busy (3001)");
        result.structured_content = Some(Payload::from_trusted(
            r#"{"status":"rejected","code":3001,"reason":"busy","retryable":true,"retry_after_ms":50}"#,
        ));
        let error = Error::from(Box::new(ToolFailure::new(result)));
        assert_eq!(error.code(), ErrorCode::RESOURCE_EXHAUSTED);
        assert_eq!(error.retry_after(), Some(Duration::from_millis(50)));
        let plain = Error::from(Box::new(ToolFailure::new(CallToolResult::error("no such file"))));
        assert_eq!((plain.code().0, &*plain.message()), (-32603, "no such file"));
        assert!(!plain.is_retryable());
    }
}
