//! The reasons to refuse a request before it becomes a call, with their HTTP statuses and error codes.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use mgp_types::mcp::{Revision, UnsupportedVersionData};
use mgp_types::service::write_answer;
use mgp_types::{ErrorCode, Id, Payload, RpcError, clip};
use serde::Serialize;

use super::body::HttpBody;

/// The reason to refuse a request.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("the host `{0}` is not served here; the operator of this server can allow it")]
    Host(String),
    #[error("the origin `{0}` may not call; the operator of this server can allow it")]
    Origin(String),
    #[error("nothing is served at `{requested}`; the endpoint is `{served}`")]
    Path { requested: String, served: String },
    #[error("the method {0} is not part of this protocol; messages are sent with POST")]
    Method(String),
    #[error("the method {0} is not served at this path; use {1}")]
    ToolMethod(String, &'static str),
    #[error(
        "there is no stream to GET and no session to DELETE in this revision; messages are sent with POST"
    )]
    Stateless,
    #[error("`Accept` must contain application/json and text/event-stream")]
    Accept,
    #[error("`Content-Type` must be application/json")]
    ContentType,
    #[error("the `Content-Encoding` of the body is not supported; send it uncompressed")]
    Encoding,
    #[error("the body is longer than {0} bytes; send less")]
    BodyTooLong(usize),
    #[error("the body was sent too slowly")]
    BodyTimeout,
    #[error("the body is incomplete")]
    BodyIncomplete,
    #[error("too many requests run; try again in a moment")]
    Busy,
    #[error("you have too many running requests; wait until some of them are answered")]
    CallerBusy,
    #[error("too many connections from this address; reuse the open ones")]
    Connections,
    #[error("the clock of the server is before 1970 or after 9999; its operator must set it")]
    Clock,
    #[error("too many sessions are open; try again in a moment")]
    TooManySessions,
    #[error("the header `{0}` occurs twice")]
    Duplicate(&'static str),
    #[error("the header `{header}` is {found}, but the body has {body}")]
    Mismatch { header: &'static str, found: String, body: String },
    #[error("`MCP-Protocol-Version: {0}` is not supported")]
    Version(String),
    #[error("`_meta` lacks `io.modelcontextprotocol/protocolVersion`")]
    NoMeta,
    #[error(
        "a request without `Mcp-Session-Id` must be a POST of `initialize`; HTTP+SSE is not served"
    )]
    NoSession,
    #[error("the session is unknown or has ended; initialize again")]
    UnknownSession,
    #[error("the session ended while the call ran; it may have had effects")]
    SessionEnded,
    #[error("there is no event stream with the id `{0}`")]
    UnknownEvent(String),
    #[error("this revision has no server requests, so a client cannot answer one")]
    NoServerRequests,
    #[error("batches (several messages in one array) are not part of this revision")]
    Batch,
    #[error(
        "the caller is not authenticated; put an authenticating layer around the service, or set `HttpConfig::anonymous`"
    )]
    NoPrincipal,
    #[error(
        "the credentials of this request expired or were revoked while it was handled, so it may have had effects; get new ones"
    )]
    CredentialsEnded,
    #[error("{0}")]
    Message(RpcError, Option<Id>),
}

impl Refusal {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Host(_) | Self::Origin(_) => StatusCode::FORBIDDEN,
            Self::NoPrincipal | Self::CredentialsEnded => StatusCode::UNAUTHORIZED,
            // An unknown event gets status 400, because 404 would mean to a client that its session has ended.
            Self::Path { .. } | Self::UnknownSession => StatusCode::NOT_FOUND,
            // With status 404, the client would repeat the call in a new session, although the call might already have
            // had effects.
            Self::SessionEnded => StatusCode::OK,
            Self::Method(_) | Self::ToolMethod(..) | Self::Stateless => {
                StatusCode::METHOD_NOT_ALLOWED
            }
            Self::Accept => StatusCode::NOT_ACCEPTABLE,
            Self::ContentType | Self::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::BodyTooLong(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTimeout => StatusCode::REQUEST_TIMEOUT,
            Self::Busy | Self::Clock | Self::TooManySessions => StatusCode::SERVICE_UNAVAILABLE,
            Self::CallerBusy | Self::Connections => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::BAD_REQUEST,
        }
    }

    fn error(self) -> (RpcError, Option<Id>) {
        let code = match &self {
            Self::Mismatch { .. } => ErrorCode::HEADER_MISMATCH,
            Self::Version(_) => ErrorCode::UNSUPPORTED_VERSION,
            Self::SessionEnded | Self::Clock => ErrorCode::SERVER_NOT_READY,
            Self::NoPrincipal => ErrorCode::AUTH_REQUIRED,
            Self::CredentialsEnded => ErrorCode::AUTH_EXPIRED,
            Self::NoMeta => ErrorCode::INVALID_PARAMS,
            Self::Busy | Self::CallerBusy | Self::Connections | Self::TooManySessions => {
                ErrorCode::RESOURCE_EXHAUSTED
            }
            _ => ErrorCode::INVALID_REQUEST,
        };
        match self {
            Self::Message(error, id) => (error, id),
            // No recovery hints are sent, because the client's capabilities are not known yet.
            refusal => {
                let error = RpcError::new(code, refusal.to_string()).without_recovery();
                (refusal.with_data(error), None)
            }
        }
    }

    /// Adds the data that a client needs to send the request again correctly.
    fn with_data(&self, error: RpcError) -> RpcError {
        let Self::Version(requested) = self else { return error };
        let supported = Revision::SUPPORTED.to_vec();
        let data = UnsupportedVersionData::new(supported, requested.as_str());
        match Payload::of(&data) {
            Ok(data) => error.data(data),
            Err(_) => error,
        }
    }

    /// Encodes the refusal as a JSON-RPC message.
    pub(super) fn into_message(self, id: Option<Id>) -> Vec<u8> {
        let (error, own) = self.error();
        let mut text = Vec::new();
        write_answer(&mut text, own.or(id).as_ref(), &Err(error));
        text
    }

    /// Returns the refusal as a response, with the id of the request if the id could be read.
    pub(super) fn into_response<R: From<Bytes>>(self, id: Option<Id>) -> Response<R> {
        self.respond(|refusal| refusal.into_message(id))
    }

    /// Returns the refusal as a response for a caller that does not use JSON-RPC.
    pub(super) fn into_plain_response(self) -> Response<HttpBody> {
        self.respond(|refusal| plain_error(&refusal.error().0))
    }

    fn respond<R: From<Bytes>>(self, write: impl FnOnce(Self) -> Vec<u8>) -> Response<R> {
        let status = self.status();
        let allow = match &self {
            Self::Stateless => "POST",
            Self::ToolMethod(_, allowed) => allowed,
            _ => "GET, POST, DELETE",
        };
        tracing::debug!(%status, reason = %self, "refused a request");
        let mut response = json(status, write(self));
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
            // The rest of the body is not read, so the connection cannot be reused.
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

/// Encodes an error for a caller that does not use JSON-RPC.
pub(super) fn plain_error(error: &RpcError) -> Vec<u8> {
    #[derive(Serialize)]
    struct PlainError<'a> {
        error: &'a RpcError,
    }
    serde_json::to_vec(&PlainError { error }).unwrap_or_else(|_| {
        br#"{"error":{"code":-32603,"message":"an error could not be written"}}"#.to_vec()
    })
}

/// Clips a text of the request for an error message.
pub(super) fn clip_text(text: &str) -> String {
    clip(text, 200)
}

pub(super) fn json<R: From<Bytes>>(status: StatusCode, text: Vec<u8>) -> Response<R> {
    let mut response = Response::new(R::from(text.into()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

pub(super) fn empty(status: StatusCode) -> Response<HttpBody> {
    let mut response = Response::new(HttpBody::empty());
    *response.status_mut() = status;
    response
}

/// Creates an event stream response.
pub(super) fn events(body: HttpBody) -> Response<HttpBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Without this header, reverse proxies would buffer events instead of passing them on immediately.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(make: fn() -> Refusal, status: u16, code: i32, header: Option<(&str, &str)>) {
        let shown = make().to_string();
        let response: Response<HttpBody> = make().into_response(None);
        assert_eq!(response.status(), status, "{shown}");
        assert_eq!(response.headers()["content-type"], "application/json");
        if let Some((name, value)) = header {
            assert_eq!(response.headers()[name], value, "{shown}");
        }
        let plain = String::from_utf8(plain_error(&make().error().0)).unwrap();
        assert!(plain.starts_with(&format!(r#"{{"error":{{"code":{code},"#)), "{plain}");
        let text = String::from_utf8(make().into_message(Some(Id::Number(7)))).unwrap();
        assert!(text.contains(&format!("\"code\":{code}")), "{text}");
        assert!(text.contains("\"id\":7") && !text.contains("_mgp"), "{text}");
    }

    #[test]
    fn each_reason_has_a_status_a_code_and_a_remedy() {
        check(|| Refusal::Host(String::new()), 403, -32600, None);
        check(|| Refusal::Origin(String::new()), 403, -32600, None);
        let path = || Refusal::Path { requested: String::new(), served: String::new() };
        check(path, 404, -32600, None);
        check(|| Refusal::SessionEnded, 200, ErrorCode::SERVER_NOT_READY.0, None);
        check(|| Refusal::UnknownSession, 404, -32600, None);
        check(|| Refusal::UnknownEvent(String::new()), 400, -32600, None);
        let allowed = Some(("allow", "GET, POST, DELETE"));
        check(|| Refusal::Method(String::new()), 405, -32600, allowed);
        check(|| Refusal::Stateless, 405, -32600, Some(("allow", "POST")));
        check(|| Refusal::ToolMethod(String::new(), "GET"), 405, -32600, Some(("allow", "GET")));
        let shown = Some(("www-authenticate", "Bearer"));
        check(|| Refusal::NoPrincipal, 401, ErrorCode::AUTH_REQUIRED.0, shown);
        check(|| Refusal::CredentialsEnded, 401, ErrorCode::AUTH_EXPIRED.0, shown);
        check(|| Refusal::Accept, 406, -32600, None);
        check(|| Refusal::BodyTimeout, 408, -32600, Some(("connection", "close")));
        check(|| Refusal::BodyTooLong(1), 413, -32600, Some(("connection", "close")));
        check(|| Refusal::ContentType, 415, -32600, None);
        check(|| Refusal::Encoding, 415, -32600, None);
        let soon = Some(("retry-after", "1"));
        check(|| Refusal::Busy, 503, ErrorCode::RESOURCE_EXHAUSTED.0, soon);
        check(|| Refusal::CallerBusy, 429, ErrorCode::RESOURCE_EXHAUSTED.0, soon);
        check(|| Refusal::Connections, 429, ErrorCode::RESOURCE_EXHAUSTED.0, soon);
        check(|| Refusal::Clock, 503, ErrorCode::SERVER_NOT_READY.0, soon);
        check(|| Refusal::TooManySessions, 503, ErrorCode::RESOURCE_EXHAUSTED.0, soon);
        check(|| Refusal::Duplicate("Host"), 400, -32600, None);
        check(|| Refusal::BodyIncomplete, 400, -32600, None);
        check(|| Refusal::NoSession, 400, -32600, None);
        check(|| Refusal::NoServerRequests, 400, -32600, None);
        check(|| Refusal::Batch, 400, -32600, None);
        check(|| Refusal::NoMeta, 400, -32602, None);
        let version = || Refusal::Version(String::new());
        check(version, 400, ErrorCode::UNSUPPORTED_VERSION.0, None);
        let message = String::from_utf8(version().into_message(None)).unwrap();
        assert!(message.contains(r#""supported":["2024-11-05""#), "{message}");
        let mismatch =
            || Refusal::Mismatch { header: "Mcp-Name", found: String::new(), body: String::new() };
        check(mismatch, 400, ErrorCode::HEADER_MISMATCH.0, None);
    }
}
