//! Why a request is refused before it becomes a call, and the one place that turns reasons into statuses and codes.
//!
//! Applies to: inbound.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use mgp_types::mcp::{Revision, UnsupportedVersionData};
use mgp_types::service::write_answer;
use mgp_types::{ErrorCode, Id, Payload, RpcError};

use super::body::HttpBody;

/// A reason.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the host `{0}` is not served here; whoever runs this server can allow it")]
    Host(String),
    #[error("the origin `{0}` may not call; whoever runs this server can allow it")]
    Origin(String),
    #[error("nothing is served at `{came}`; the endpoint is `{served}`")]
    Path { came: String, served: String },
    #[error("the method {0} is not part of this protocol; messages are sent with POST")]
    Method(String),
    #[error(
        "there is no stream to GET and no session to DELETE in this revision; messages are sent with POST"
    )]
    Stateless,
    #[error("`Accept` must take application/json and text/event-stream")]
    Accept,
    #[error("`Content-Type` must be application/json")]
    ContentType,
    #[error("a body of this encoding is not read; send it plain")]
    Encoding,
    #[error("the body is longer than {0} bytes, and none such is read here")]
    TooLong(usize),
    #[error("the body came too slowly")]
    TooSlow,
    #[error("the body did not arrive whole")]
    Broken,
    #[error("too many requests run; try again in a moment")]
    Busy,
    #[error("too many of the requests that run are yours; wait for some of their answers")]
    Share,
    #[error("too many connections come from this address; use those that are open")]
    Connections,
    #[error("too many sessions are open; try again in a moment")]
    TooManySessions,
    #[error("the header `{0}` stands twice")]
    Twice(&'static str),
    #[error("the header `{header}` is {came}, the body says {body}")]
    Mismatch { header: &'static str, came: String, body: String },
    #[error("`MCP-Protocol-Version: {0}` is not spoken here")]
    Version(String),
    #[error("`_meta` lacks `io.modelcontextprotocol/protocolVersion`")]
    NoMeta,
    #[error("a request without `Mcp-Session-Id` must be `initialize`")]
    NoSession,
    #[error("the session is unknown or has ended: initialize again")]
    UnknownSession,
    #[error("the session ended while the call ran: it may have had effects")]
    Ended,
    #[error("no event stream of this session has the id `{0}`")]
    UnknownEvent(String),
    #[error("a client answers no questions over this connection in this revision")]
    NoQuestions,
    #[error("several messages in one array are not part of this revision")]
    Batch,
    #[error(
        "nobody said who calls: put an authenticating layer around the service, or say who callers without one are"
    )]
    Nobody,
    #[error("{0}")]
    Message(RpcError, Option<Id>),
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Host(_) | Self::Origin(_) => StatusCode::FORBIDDEN,
            Self::Nobody => StatusCode::UNAUTHORIZED,
            Self::Path { .. } | Self::UnknownSession | Self::UnknownEvent(_) => {
                StatusCode::NOT_FOUND
            }
            // "Not found" would have the client make the call again in a new session.
            Self::Ended => StatusCode::OK,
            Self::Method(_) | Self::Stateless => StatusCode::METHOD_NOT_ALLOWED,
            Self::Accept => StatusCode::NOT_ACCEPTABLE,
            Self::ContentType | Self::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Busy | Self::TooManySessions => StatusCode::SERVICE_UNAVAILABLE,
            Self::Share | Self::Connections => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    fn error(self) -> (RpcError, Option<Id>) {
        let code = match &self {
            Self::Mismatch { .. } => ErrorCode::HEADER_MISMATCH,
            Self::Version(_) => ErrorCode::UNSUPPORTED_VERSION,
            Self::Ended => ErrorCode::SERVER_NOT_READY,
            Self::Nobody => ErrorCode::AUTH_REQUIRED,
            Self::NoMeta => ErrorCode::INVALID_PARAMS,
            Self::Busy | Self::Share | Self::Connections | Self::TooManySessions => {
                ErrorCode::RESOURCE_EXHAUSTED
            }
            _ => ErrorCode::INVALID_REQUEST,
        };
        match self {
            Self::Message(error, id) => (error, id),
            // Nothing was negotiated where this is said.
            why => {
                let error = RpcError::new(code, why.to_string()).without_recovery();
                (why.explained(error), None)
            }
        }
    }

    /// What a client needs to know to ask again.
    fn explained(&self, error: RpcError) -> RpcError {
        let Self::Version(requested) = self else { return error };
        let supported = Revision::SUPPORTED.to_vec();
        let data = UnsupportedVersionData::new(supported, requested.as_str());
        match Payload::of(&data) {
            Ok(data) => error.data(data),
            Err(_) => error,
        }
    }

    /// As a message.
    pub(super) fn written(self, id: Option<Id>) -> Vec<u8> {
        let (error, own) = self.error();
        let mut text = Vec::new();
        write_answer(&mut text, own.or(id).as_ref(), &Err(error));
        text
    }

    /// Under the id of the request, where it could be read.
    pub(super) fn of(self, id: Option<Id>) -> Response<HttpBody> {
        self.of_any(id)
    }

    /// The same, with a body of whatever kind.
    pub(super) fn of_any<R: From<Bytes>>(self, id: Option<Id>) -> Response<R> {
        let status = self.status();
        let allow = if matches!(self, Self::Stateless) { "POST" } else { "GET, POST, DELETE" };
        tracing::debug!(%status, why = %self, "refused a request");
        let mut response = json(status, self.written(id));
        let headers = response.headers_mut();
        match status {
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(header::ALLOW, HeaderValue::from_static(allow));
            }
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            // What is left of the body is not read.
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

/// What came, cut to what fits an error.
pub(super) fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

/// A response of JSON.
pub(super) fn json<R: From<Bytes>>(status: StatusCode, text: Vec<u8>) -> Response<R> {
    let mut response = Response::new(R::from(text.into()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::empty());
    *response.status_mut() = status;
    response
}

/// A response of events.
pub(super) fn events(body: HttpBody) -> Response<HttpBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Reverse proxies would gather events until they are worth a packet.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(make: fn() -> Refusal, status: u16, code: i32, header: Option<(&str, &str)>) {
        let shown = make().to_string();
        let response = make().of(None);
        assert_eq!(response.status(), status, "{shown}");
        assert_eq!(response.headers()["content-type"], "application/json");
        if let Some((name, value)) = header {
            assert_eq!(response.headers()[name], value, "{shown}");
        }
        let text = String::from_utf8(make().written(Some(Id::Number(7)))).unwrap();
        assert!(text.contains(&format!("\"code\":{code}")), "{text}");
        assert!(text.contains("\"id\":7") && !text.contains("_mgp"), "{text}");
    }

    #[test]
    fn each_reason_has_a_status_a_code_and_a_remedy() {
        check(|| Refusal::Host(String::new()), 403, -32600, None);
        check(|| Refusal::Origin(String::new()), 403, -32600, None);
        let path = || Refusal::Path { came: String::new(), served: String::new() };
        check(path, 404, -32600, None);
        check(|| Refusal::Ended, 200, ErrorCode::SERVER_NOT_READY.0, None);
        check(|| Refusal::UnknownSession, 404, -32600, None);
        check(|| Refusal::UnknownEvent(String::new()), 404, -32600, None);
        let allowed = Some(("allow", "GET, POST, DELETE"));
        check(|| Refusal::Method(String::new()), 405, -32600, allowed);
        check(|| Refusal::Stateless, 405, -32600, Some(("allow", "POST")));
        let shown = Some(("www-authenticate", "Bearer"));
        check(|| Refusal::Nobody, 401, ErrorCode::AUTH_REQUIRED.0, shown);
        check(|| Refusal::Accept, 406, -32600, None);
        check(|| Refusal::TooSlow, 408, -32600, Some(("connection", "close")));
        check(|| Refusal::TooLong(1), 413, -32600, Some(("connection", "close")));
        check(|| Refusal::ContentType, 415, -32600, None);
        check(|| Refusal::Encoding, 415, -32600, None);
        let soon = Some(("retry-after", "1"));
        check(|| Refusal::Busy, 503, ErrorCode::RESOURCE_EXHAUSTED.0, soon);
        check(|| Refusal::Share, 429, ErrorCode::RESOURCE_EXHAUSTED.0, soon);
        check(|| Refusal::Connections, 429, ErrorCode::RESOURCE_EXHAUSTED.0, soon);
        check(|| Refusal::TooManySessions, 503, ErrorCode::RESOURCE_EXHAUSTED.0, soon);
        check(|| Refusal::Twice("Host"), 400, -32600, None);
        check(|| Refusal::Broken, 400, -32600, None);
        check(|| Refusal::NoSession, 400, -32600, None);
        check(|| Refusal::NoQuestions, 400, -32600, None);
        check(|| Refusal::Batch, 400, -32600, None);
        check(|| Refusal::NoMeta, 400, -32602, None);
        let version = || Refusal::Version(String::new());
        check(version, 400, ErrorCode::UNSUPPORTED_VERSION.0, None);
        let told = String::from_utf8(version().written(None)).unwrap();
        assert!(told.contains(r#""supported":["2024-11-05""#), "{told}");
        let mismatch =
            || Refusal::Mismatch { header: "Mcp-Name", came: String::new(), body: String::new() };
        check(mismatch, 400, ErrorCode::HEADER_MISMATCH.0, None);
    }
}
