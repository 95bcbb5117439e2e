//! Why a client at a URL cannot begin, and how failures of HTTP are told to callers.
//!
//! Applies to: outbound.

use std::error::Error as StdError;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use mgp_types::service::HttpFault;
use mgp_types::{ErrorCode, Recovery, RpcError};

/// Why no client can be made for a URL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpClientError {
    /// The URL is none of an endpoint.
    #[error("`{url}` is no URL of a server: {why}")]
    Url {
        /// What was given, as far as it may be shown.
        url: String,
        /// What is wrong with it.
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
    /// A certificate authority of one's own could not be read.
    #[error("what was given to `root_certificates` cannot be used: {0}")]
    RootCertificates(String),
    /// Credentials, or headers that may be keys, would be readable on the way.
    #[error(
        "`{0}` is not https, so the credentials and headers given for it could be read on the way; \
         use https, or set `credentials_in_clear` if the network is yours"
    )]
    InClear(String),
}

/// What went wrong with one exchange.
#[derive(Debug)]
pub(super) enum Fault {
    /// No connection.
    Unreached { place: String, why: String },
    /// Its certificate is not to be trusted.
    Untrusted { place: String, why: String },
    /// The connection broke before the head of the answer.
    Broken { place: String, why: String },
    /// A redirect that is not followed.
    Redirect { status: StatusCode, to: String },
    /// A status that says no, without an error of JSON-RPC.
    Status { status: StatusCode, wait: Option<Duration>, challenge: String, has_credentials: bool },
    /// The answer has the wrong form.
    Form(String),
    /// The answer or one event is too long.
    TooLong { what: &'static str, bound: usize },
    /// The stream ended before the answer and cannot be taken up again.
    Cut(String),
    /// It took too long.
    Late { what: &'static str, bound: Duration },
    /// The session is gone and could not be opened anew.
    Session(String),
    /// A header cannot be written.
    Header(String),
}

impl Fault {
    /// A status that says no.
    pub(super) fn status(status: StatusCode, headers: &HeaderMap, has_credentials: bool) -> Self {
        let wait =
            headers.get(RETRY_AFTER).and_then(|wait| wait.to_str().ok()?.trim().parse().ok());
        let challenge = headers.get(http::header::WWW_AUTHENTICATE);
        Self::Status {
            status,
            wait: wait.map(Duration::from_secs),
            challenge: challenge.map_or(String::new(), |challenge| {
                String::from_utf8_lossy(challenge.as_bytes()).into_owned()
            }),
            has_credentials,
        }
    }
}

/// An error and what is below it, each thing said once.
pub(in crate::http) fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut words = Vec::<String>::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let said = error.to_string();
        if !said.is_empty() && !words.iter().any(|before| before.contains(&said)) {
            words.push(said);
        }
        next = error.source();
    }
    words.join(": ")
}

// === impl From ===

impl From<Fault> for RpcError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unreached { place, why } => {
                Self::new(ErrorCode::SERVER_NOT_READY, format!("cannot reach {place}: {why}"))
                    .because(HttpFault::Unreached)
            }
            Fault::Untrusted { place, why } => {
                let error = Self::new(
                    ErrorCode::SERVER_NOT_READY,
                    format!("cannot trust {place}: {why}"),
                )
                .because(HttpFault::Unreached);
                // The next attempt would meet the same certificate.
                match Recovery::default_for(ErrorCode::SERVER_NOT_READY) {
                    Some(hints) => error.recovery(hints.no_retry()),
                    None => error,
                }
            }
            // It may have run: not the code that invites another attempt.
            Fault::Broken { place, why } => Self::new(
                ErrorCode::UPSTREAM_ERROR,
                format!("the connection to {place} broke before the answer: {why}"),
            )
            .because(HttpFault::Cut),
            Fault::Redirect { status, to } => Self::new(
                ErrorCode::INVALID_REQUEST,
                format!("the server redirects to `{to}`, which is not followed; connect to that URL if you trust it"),
            )
            .because(HttpFault::Status(status.as_u16())),
            Fault::Status { status, wait, challenge, has_credentials } => {
                refusal(status, wait, &challenge, has_credentials)
            }
            Fault::Form(why) => Self::new(ErrorCode::UPSTREAM_ERROR, why),
            Fault::TooLong { what, bound } => Self::new(
                ErrorCode::UPSTREAM_ERROR,
                format!("{what} has more than {bound} bytes; raise the bound in `HttpClientConfig` if that is right"),
            ),
            Fault::Cut(why) => Self::new(
                ErrorCode::UPSTREAM_ERROR,
                format!("the stream ended before the answer: {why}"),
            )
            .because(HttpFault::Cut),
            Fault::Late { what, bound } => {
                Self::new(ErrorCode::TIMEOUT, format!("{what} was not taken within {bound:?}"))
            }
            Fault::Session(why) => Self::new(
                ErrorCode::SERVER_RESTARTING,
                format!("the server no longer has the session: {why}"),
            ),
            Fault::Header(name) => {
                Self::invalid_params(format!("the value of `{name}` holds a line break or another character no header can have: trim it"))
            }
        }
    }
}

/// Words a status and what to do about it.
fn refusal(
    status: StatusCode,
    wait: Option<Duration>,
    challenge: &str,
    has_credentials: bool,
) -> RpcError {
    let said = if challenge.is_empty() { String::new() } else { format!("; it says: {challenge}") };
    let (code, message) = match status {
        StatusCode::UNAUTHORIZED if has_credentials => (
            ErrorCode::AUTH_EXPIRED,
            format!("the server refuses the credentials (HTTP 401): give others, or log in again{said}"),
        ),
        StatusCode::UNAUTHORIZED => (
            ErrorCode::AUTH_REQUIRED,
            format!("the server wants credentials (HTTP 401): give `.bearer(token)` or `.credentials(..)`{said}"),
        ),
        StatusCode::FORBIDDEN => (
            ErrorCode::PERMISSION_DENIED,
            format!("the server forbids it (HTTP 403): other credentials, or its rules for hosts and origins{said}"),
        ),
        StatusCode::NOT_FOUND => {
            (ErrorCode::INVALID_REQUEST, "there is no MCP endpoint at this URL (HTTP 404): check its path, which often is `/mcp`".to_owned())
        }
        StatusCode::METHOD_NOT_ALLOWED => (
            ErrorCode::INVALID_REQUEST,
            "the URL takes no POST (HTTP 405): it is no endpoint of streamable HTTP, perhaps one of the older HTTP+SSE".to_owned(),
        ),
        StatusCode::REQUEST_TIMEOUT => (
            ErrorCode::SERVER_NOT_READY,
            "the server did not wait for the request (HTTP 408): send it again, and look at the network if that lasts".to_owned(),
        ),
        StatusCode::PAYLOAD_TOO_LARGE => {
            (ErrorCode::INVALID_REQUEST, "the request is too long for the server (HTTP 413): send less, or raise its bound".to_owned())
        }
        StatusCode::TOO_MANY_REQUESTS => {
            (ErrorCode::RATE_LIMITED, "the server takes no more requests for now (HTTP 429): send fewer, and try again later".to_owned())
        }
        StatusCode::SERVICE_UNAVAILABLE => {
            (ErrorCode::SERVER_NOT_READY, "the server is not ready (HTTP 503): try again later, and see what its log says if that lasts".to_owned())
        }
        status if status.is_server_error() => {
            (ErrorCode::UPSTREAM_ERROR, format!("the server failed (HTTP {status}): the call may have run; its log says more"))
        }
        status => (
            ErrorCode::INVALID_REQUEST,
            format!("the server refuses the request (HTTP {status}): check that the URL is that of its MCP endpoint, and what its log says{said}"),
        ),
    };
    let error = RpcError::new(code, message).because(HttpFault::Status(status.as_u16()));
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
    fn a_status_says_what_to_do() {
        let told =
            |status: StatusCode| RpcError::from(Fault::status(status, &HeaderMap::new(), false));
        let error = told(StatusCode::UNAUTHORIZED);
        assert_eq!(error.code(), ErrorCode::AUTH_REQUIRED);
        assert!(error.message().contains(".bearer(token)"), "{error}");
        assert_eq!(HttpFault::of(&error), Some(HttpFault::Status(401)));
        assert_eq!(told(StatusCode::BAD_GATEWAY).code(), ErrorCode::UPSTREAM_ERROR);
        assert_eq!(told(StatusCode::GONE).code(), ErrorCode::INVALID_REQUEST);
    }

    #[test]
    fn a_refusal_named_its_status_and_nothing_to_do() {
        for code in (400..=451).filter_map(|code| StatusCode::from_u16(code).ok()) {
            let passing = matches!(code.as_u16(), 408 | 429);
            let error = RpcError::from(Fault::status(code, &HeaderMap::new(), true));
            let advice = error.message().split_once(&format!("HTTP {}", code.as_u16()));
            let advice = advice.map(|(_, advice)| advice.contains(": "));
            let retryable = error.as_recovery().is_some_and(Recovery::is_retryable);
            assert!(advice == Some(true) || (passing && retryable), "{}", error.message());
        }
    }

    #[test]
    fn retry_after_becomes_a_hint() {
        let headers = [(RETRY_AFTER, "7".parse().unwrap())].into_iter().collect();
        let error = RpcError::from(Fault::status(StatusCode::TOO_MANY_REQUESTS, &headers, false));
        assert_eq!(error.as_recovery().unwrap().retry_after_ms, Some(7000));
    }
}
