//! Errors when a client for a URL is created, and errors of its HTTP exchanges.

use std::error::Error as StdError;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use mgp_types::service::HttpFailure;
use mgp_types::{ErrorCode, Recovery, RpcError};

use crate::too_long::bytes_text;

/// The text in error messages that precedes the server's own explanation of an error status. `mgp-client-sdk` cuts the
/// causes of failed starts at this text.
const SERVER_TEXT: &str = " (server: `";

/// The maximum value of `Retry-After` that is passed on from a server; a longer value is shortened to it.
const MAX_RETRY_AFTER: Duration = Duration::from_hours(24);

/// The reason why a client cannot be created for a URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpClientError {
    /// The URL is not a valid URL of an endpoint.
    #[error("`{url}` is not a valid server URL: {why}")]
    Url {
        /// The URL of the server that the client was given, without secrets.
        url: String,
        /// The reason why the URL is not valid.
        why: String,
    },
    /// The URL needs TLS, which is not built in.
    #[error(
        "`{0}` needs TLS: build with the feature `tls` of mgp-transport (`http` of mgp-client-sdk)"
    )]
    NoTls(String),
    /// The system's certificate authorities could not be read.
    #[error(
        "the certificate authorities of this system cannot be read: {0}; name a file in SSL_CERT_FILE"
    )]
    Roots(#[source] std::io::Error),
    /// An additional root certificate could not be read.
    #[error("the certificates given to `root_certificates` cannot be used: {0}")]
    RootCertificates(String),
    /// Credentials, or headers that can contain secret keys, would be sent unencrypted.
    #[error(
        "`{0}` is not https, so the credentials and headers given for it could be read in transit; \
         use https, or an address of this machine that is the start of a tunnel, e.g. of `ssh -L` \
         (a program can also set `HttpClientConfig::credentials_in_clear`)"
    )]
    InClear(String),
}

#[derive(Debug)]
pub(super) enum Fault {
    /// No connection could be opened.
    Unreached { place: String, why: String },
    /// The certificate is not trusted, or the server does not use TLS.
    Untrusted { place: String, why: String },
    /// The connection broke before the head of the response was received.
    Broken { place: String, why: String },
    /// The server sent a redirect that the client does not follow.
    Redirect { status: StatusCode, to: String },
    /// The server answered with an error status, without a JSON-RPC error.
    Status {
        status: StatusCode,
        wait: Option<Duration>,
        challenge: String,
        /// The server's text about the refusal, as one short line; empty if there is none.
        text: String,
        has_credentials: bool,
    },
    /// The answer of the server is malformed.
    Malformed(String),
    /// The answer of the server is encoded, e.g. compressed.
    Encoded { encoding: &'static str, endpoint: String },
    /// The answer of the server, or one event in it, is too long.
    TooLong { what: &'static str, bound: usize },
    /// The stream ended before the answer and cannot be resumed.
    Cut(String),
    /// The exchange took too long.
    Timeout { what: &'static str, bound: Duration },
    /// The session is lost and could not be opened again.
    Session(String),
    /// A header of the request cannot be written.
    Header(String),
}

impl Fault {
    /// Creates a failure for an error status; `challenge` is the text of `WWW-Authenticate`, as one short line.
    pub(super) fn status(
        status: StatusCode,
        headers: &HeaderMap,
        challenge: String,
        has_credentials: bool,
    ) -> Self {
        let wait =
            headers.get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
        let wait = wait.map(|seconds| Duration::from_secs(seconds).min(MAX_RETRY_AFTER));
        Self::Status { status, wait, challenge, text: String::new(), has_credentials }
    }

    /// Creates the failure for a response whose JSON does not answer the request. `server_text` is the text that the
    /// JSON contains.
    pub(super) fn unanswered(server_text: &str) -> Self {
        let why = "the server's JSON does not answer the request".to_owned();
        Self::Malformed(if server_text.is_empty() {
            why
        } else {
            format!("{why}{SERVER_TEXT}{server_text}`)")
        })
    }

    /// Adds the server's text to a failure for an error status.
    pub(super) fn with_text(mut self, server_text: String) -> Self {
        if let Self::Status { text, .. } = &mut self {
            *text = server_text;
        }
        self
    }
}

/// Returns the texts of an error and its sources as one text, without repetitions.
pub(in crate::http) fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut texts = Vec::<String>::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        if !text.is_empty() && !texts.iter().any(|before| before.contains(&text)) {
            texts.push(text);
        }
        next = error.source();
    }
    texts.join(": ")
}

impl From<Fault> for RpcError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unreached { place, why } => {
                Self::new(ErrorCode::SERVER_NOT_READY, format!("cannot reach {place}: {why}"))
                    .because(HttpFailure::Unreachable)
            }
            Fault::Untrusted { place, why } => untrusted(&place, &why),
            // The server might have run the request, so the error code must not suggest a retry.
            Fault::Broken { place, why } => Self::new(
                ErrorCode::UPSTREAM_ERROR,
                format!("the connection to {place} broke before the answer, so the call may have run: {why}"),
            )
            .because(HttpFailure::ConnectionLost),
            Fault::Redirect { status, to } => Self::new(
                ErrorCode::UPSTREAM_ERROR,
                format!("the server redirects to `{to}`, which is not followed; connect to that URL if you trust it"),
            )
            .because(HttpFailure::Status(status.as_u16())),
            Fault::Status { status, wait, challenge, text, has_credentials } => {
                let error = refusal(status, wait, &challenge, has_credentials);
                if text.is_empty() {
                    return error;
                }
                let message = format!("{}{SERVER_TEXT}{text}`)", error.message());
                error.with_message(message)
            }
            Fault::Malformed(why) => malformed(why),
            Fault::Encoded { encoding, endpoint } => encoded(encoding, &endpoint),
            Fault::TooLong { what, bound } => {
                tracing::warn!(what, bound, "dropped a message that is too long");
                Self::new(
                    ErrorCode::UPSTREAM_ERROR,
                    format!(
                        "{what} is larger than {}, so it cannot be delivered; the request may have been carried out: ask for less at a time",
                        bytes_text(bound)
                    ),
                )
            }
            Fault::Cut(why) => Self::new(
                ErrorCode::UPSTREAM_ERROR,
                format!("the stream ended before the answer, so the call may have run: {why}"),
            )
            .because(HttpFailure::ConnectionLost),
            Fault::Timeout { what, bound } => {
                let bound = mgp_types::duration_words(bound);
                Self::new(ErrorCode::TIMEOUT, format!("{what} was not accepted within {bound}"))
            }
            Fault::Session(why) => Self::new(
                ErrorCode::SERVER_RESTARTING,
                format!("the server no longer has the session, {why}"),
            ),
            Fault::Header(name) => {
                Self::invalid_params(format!("the value of `{name}` contains a line break or another character that is not allowed in headers; trim it"))
            }
        }
    }
}

/// Returns the error for a server whose certificate is not trusted.
fn untrusted(place: &str, why: &str) -> RpcError {
    let message = format!("cannot trust {place}: {why}");
    let error =
        RpcError::new(ErrorCode::SERVER_NOT_READY, message).because(HttpFailure::Unreachable);
    // The certificate is still not trusted in the next attempt, so no retry is suggested.
    match Recovery::default_for(ErrorCode::SERVER_NOT_READY) {
        Some(hints) => error.recovery(hints.no_retry()),
        None => error,
    }
}

/// Returns the error for a response that is not an answer of an MCP server.
fn malformed(why: String) -> RpcError {
    RpcError::new(ErrorCode::UPSTREAM_ERROR, why).because(HttpFailure::NoAnswer)
}

/// Returns the error for a response whose body is encoded.
fn encoded(encoding: &str, endpoint: &str) -> RpcError {
    let message = format!(
        "the server encoded its answer although it was not asked to (Content-Encoding: {encoding}); turn off the \
         compression of {endpoint}, or of the proxy before it"
    );
    RpcError::new(ErrorCode::UPSTREAM_ERROR, message).because(HttpFailure::Encoded)
}

/// Returns the error for a status, with a remedy.
fn refusal(
    status: StatusCode,
    wait: Option<Duration>,
    challenge: &str,
    has_credentials: bool,
) -> RpcError {
    let detail =
        if challenge.is_empty() { String::new() } else { format!(" (challenge: {challenge})") };
    let (code, message) = match status {
        StatusCode::UNAUTHORIZED if has_credentials => (
            ErrorCode::AUTH_EXPIRED,
            format!("the server refuses the credentials (HTTP 401): use others, or log in again{detail}"),
        ),
        StatusCode::UNAUTHORIZED => (
            ErrorCode::AUTH_REQUIRED,
            format!("the server requires credentials (HTTP 401): none were sent, or they were refused{detail}; send a valid token in the header `Authorization`"),
        ),
        StatusCode::FORBIDDEN => (
            ErrorCode::PERMISSION_DENIED,
            format!("the server forbids it (HTTP 403): check the credentials, and its rules for hosts and origins{detail}"),
        ),
        StatusCode::NOT_FOUND => {
            (ErrorCode::INVALID_REQUEST, "this URL has no MCP endpoint (HTTP 404): check its path, which often is `/mcp`, or `/` for a server in C#".to_owned())
        }
        StatusCode::METHOD_NOT_ALLOWED => (
            ErrorCode::INVALID_REQUEST,
            "the URL does not accept POST (HTTP 405), so it is not a streamable HTTP endpoint: check its path, or set `transport = \"sse\"` if the server uses the older HTTP+SSE".to_owned(),
        ),
        StatusCode::REQUEST_TIMEOUT => (
            ErrorCode::SERVER_NOT_READY,
            "the server did not wait for the request (HTTP 408): send it again, and check the network if that persists".to_owned(),
        ),
        StatusCode::PAYLOAD_TOO_LARGE => {
            (ErrorCode::INVALID_REQUEST, "the request is too long for the server (HTTP 413): send less, or raise its bound".to_owned())
        }
        StatusCode::TOO_MANY_REQUESTS => {
            (ErrorCode::RATE_LIMITED, "the server takes no more requests for now (HTTP 429): send fewer, and retry later".to_owned())
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            (ErrorCode::SERVER_NOT_READY, "the server is not ready (HTTP 503): retry later, and check its log if that persists".to_owned())
        }
        status if status.is_server_error() => {
            (ErrorCode::UPSTREAM_ERROR, format!("the server failed (HTTP {status}): the call may have run; check its log"))
        }
        status => (
            ErrorCode::INVALID_REQUEST,
            format!("the server refuses the request (HTTP {status}): check that the URL is that of its MCP endpoint, and check its log{detail}"),
        ),
    };
    let error = RpcError::new(code, message).because(HttpFailure::Status(status.as_u16()));
    match (wait, Recovery::default_for(code)) {
        (Some(wait), Some(mut hints)) if hints.is_retryable() => {
            hints.retry_after_ms = u64::try_from(wait.as_millis()).ok();
            error.recovery(hints)
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_status_has_a_remedy() {
        let error_for =
            |status| RpcError::from(Fault::status(status, &HeaderMap::new(), String::new(), false));
        let error = error_for(StatusCode::UNAUTHORIZED);
        assert_eq!(error.code(), ErrorCode::AUTH_REQUIRED);
        assert!(error.message().contains("in the header `Authorization`"), "{error}");
        assert_eq!(HttpFailure::from_error(&error), Some(HttpFailure::Status(401)));
        assert_eq!(error_for(StatusCode::BAD_GATEWAY).code(), ErrorCode::UPSTREAM_ERROR);
        assert_eq!(error_for(StatusCode::GONE).code(), ErrorCode::INVALID_REQUEST);
        let moved = Fault::Redirect { status: StatusCode::FOUND, to: "https://a.example/".into() };
        let error = RpcError::from(moved);
        assert_eq!(error.code(), ErrorCode::UPSTREAM_ERROR, "the caller did nothing wrong");
        assert_eq!(HttpFailure::from_error(&error), Some(HttpFailure::Status(302)));
        let error = RpcError::from(Fault::Malformed("HTML".to_owned()));
        assert_eq!(HttpFailure::from_error(&error), Some(HttpFailure::NoAnswer));
    }

    #[test]
    fn every_client_error_status_has_a_remedy() {
        for code in (400..=451).filter_map(|code| StatusCode::from_u16(code).ok()) {
            let passing = matches!(code.as_u16(), 408 | 429);
            let error = RpcError::from(Fault::status(code, &HeaderMap::new(), String::new(), true));
            let advice = error.message().split_once(&format!("HTTP {}", code.as_u16()));
            let advice = advice.map(|(_, advice)| advice.contains(": "));
            let retryable = error.as_recovery().is_some_and(Recovery::is_retryable);
            assert!(advice == Some(true) || (passing && retryable), "{}", error.message());
        }
    }

    #[test]
    fn the_text_of_the_server_follows_the_remedy() {
        let fault = Fault::status(StatusCode::FORBIDDEN, &HeaderMap::new(), String::new(), true);
        let error = RpcError::from(fault.with_text("workspace 17 is archived".to_owned()));
        assert!(error.message().ends_with(" (server: `workspace 17 is archived`)"), "{error}");
        assert_eq!(error.code(), ErrorCode::PERMISSION_DENIED);
        assert_eq!(HttpFailure::from_error(&error), Some(HttpFailure::Status(403)));
    }

    #[test]
    fn retry_after_becomes_a_hint_of_at_most_a_day() {
        for (seconds, hint) in [("7", 7_000), ("18446744073709551615", 86_400_000)] {
            let headers = [(RETRY_AFTER, seconds.parse().unwrap())].into_iter().collect();
            let fault =
                Fault::status(StatusCode::TOO_MANY_REQUESTS, &headers, String::new(), false);
            let error = RpcError::from(fault);
            assert_eq!(error.as_recovery().unwrap().retry_after_ms, Some(hint));
        }
    }
}
