//! The response to a POST: JSON, an event stream, an empty response, or a refusal.

use std::time::Duration;

use bytestring::ByteString;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use mgp_types::RpcError;
use mgp_types::service::HttpFailure;
use serde::Deserialize;
use tokio::time::timeout;

use super::error::{Fault, causes};
use super::refusal_text::MAX_REFUSAL_BYTES;
use super::sender::{HttpSender, drain};
use crate::http::body_buffer::BodyBuffer;

/// The maximum time for which the client reads an error response that is not `application/json`.
const REFUSAL_TEXT_TIMEOUT: Duration = Duration::from_secs(1);

/// The response of a server, classified by its head.
pub(super) enum Answer {
    /// One message, or several in an array; the body has not been read.
    Json(Incoming),
    /// An event stream; the body has not been read.
    Events(Incoming),
    /// Any other response, e.g. an empty one or an error.
    Other(Box<Response<Incoming>>),
}

impl Answer {
    pub(super) fn new(response: Response<Incoming>) -> Self {
        match content_kind(response.headers()).filter(|_| response.status().is_success()) {
            Some(ContentKind::Json) => Self::Json(response.into_body()),
            Some(ContentKind::Events) => Self::Events(response.into_body()),
            None => Self::Other(Box::new(response)),
        }
    }

    pub(super) fn kind(&self) -> Option<ContentKind> {
        match self {
            Self::Json(_) => Some(ContentKind::Json),
            Self::Events(_) => Some(ContentKind::Events),
            Self::Other(_) => None,
        }
    }
}

impl HttpSender {
    /// Reads the text of a JSON body, without parsing it; `None` if the body is empty. A byte order mark, which some
    /// servers write, is left out.
    pub(super) async fn read(&self, body: Incoming) -> Result<Option<ByteString>, RpcError> {
        let text = read_body(body, self.config.response_bytes, "the answer").await?;
        let text = match text.strip_prefix('\u{feff}') {
            Some(rest) => text.slice_ref(rest),
            None => text,
        };
        Ok(Some(text).filter(|text| !text.trim().is_empty()))
    }

    /// Reads a response that is neither JSON nor a stream; fails unless the server accepted the message.
    pub(super) async fn read_other(&self, response: Response<Incoming>) -> Result<(), RpcError> {
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            return Err(self.read_refusal(head.status, &head.headers, body).await);
        }
        if matches!(head.status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT)
            || body.is_end_stream()
        {
            drain(body).await;
            return Ok(());
        }
        if let Some(encoding) = content_encoding(&head.headers) {
            return Err(Fault::Encoded { encoding, endpoint: self.endpoint.to_string() }.into());
        }
        let named = head.headers.get(CONTENT_TYPE);
        let named = named.map_or("no content type".to_owned(), |named| {
            format!("{:?}", self.server_text(&String::from_utf8_lossy(named.as_bytes())))
        });
        Err(Fault::Malformed(format!(
            "the server answered with {named} instead of JSON or a stream of events: is {} an MCP endpoint?",
            self.endpoint
        ))
        .into())
    }

    /// Returns the error of a refusal: the JSON-RPC error in its body or, if there is none, an error for its status
    /// with the server's text.
    pub(super) async fn read_refusal(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: Incoming,
    ) -> RpcError {
        let text = if content_kind(headers) == Some(ContentKind::Json) {
            read_body(body, MAX_REFUSAL_BYTES, "the refusal").await.unwrap_or_default()
        } else if is_text(headers) {
            let reading = read_body(body, MAX_REFUSAL_BYTES, "the refusal");
            let read = timeout(REFUSAL_TEXT_TIMEOUT, reading).await;
            read.ok().and_then(Result::ok).unwrap_or_default()
        } else {
            drain(body).await;
            ByteString::new()
        };
        match rpc_error(&text) {
            Some(error) => error.because(HttpFailure::StatusWithError(status.as_u16())),
            None => self.refusal(status, headers).with_text(self.server_text(&text)).into(),
        }
    }
}

/// Returns the JSON-RPC error in the body of a refusal. Returns `None` for an error without `jsonrpc` whose code is an
/// HTTP status, because it comes from a web framework or a proxy.
fn rpc_error(text: &str) -> Option<RpcError> {
    #[derive(Deserialize)]
    struct Refusal {
        jsonrpc: Option<serde::de::IgnoredAny>,
        error: RpcError,
    }
    let Refusal { jsonrpc, error } = serde_json::from_str(text).ok()?;
    (jsonrpc.is_some() || !(400..=599).contains(&error.code().0)).then_some(error)
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentKind {
    Json,
    Events,
}

/// Returns the name of a body's encoding, e.g. of a compression, which this client cannot decode; `unknown` for a name
/// that is not usual, and `None` if the body is not encoded.
fn content_encoding(headers: &HeaderMap) -> Option<&'static str> {
    let named = headers.get(CONTENT_ENCODING)?.as_bytes();
    let is = |name: &&str| named.eq_ignore_ascii_case(name.as_bytes());
    if named.is_empty() || is(&"identity") {
        return None;
    }
    // An unknown name is not shown, because the server can write any text there.
    Some(["gzip", "br", "deflate", "zstd"].into_iter().find(is).unwrap_or("unknown"))
}

/// Returns the kind of a body by its content type; `None` if it is neither JSON nor an event stream, or if it is
/// encoded.
pub(super) fn content_kind(headers: &HeaderMap) -> Option<ContentKind> {
    if content_encoding(headers).is_some() {
        return None;
    }
    let named = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    // This is the usual form, which needs no search.
    if named == "application/json" {
        return Some(ContentKind::Json);
    }
    let named = named.split(';').next().unwrap_or_default().trim();
    if named.eq_ignore_ascii_case("application/json") {
        Some(ContentKind::Json)
    } else if named.eq_ignore_ascii_case("text/event-stream") {
        Some(ContentKind::Events)
    } else {
        None
    }
}

/// Returns whether a body may be text or JSON, by its content type. HTML counts as text, because some web frameworks
/// label plain text as HTML.
fn is_text(headers: &HeaderMap) -> bool {
    if content_encoding(headers).is_some() {
        return false;
    }
    let Some(named) = headers.get(CONTENT_TYPE) else { return true };
    let named = String::from_utf8_lossy(named.as_bytes()).to_ascii_lowercase();
    let named = named.split(';').next().unwrap_or_default().trim();
    let is_text = named.starts_with("text/") && named != "text/event-stream";
    is_text || named == "application/json" || named.ends_with("+json")
}

/// Reads a body of at most `bound` bytes; a body in one piece is not copied.
async fn read_body(
    mut body: Incoming,
    bound: usize,
    what: &'static str,
) -> Result<ByteString, RpcError> {
    let too_long = || RpcError::from(Fault::TooLong { what, bound });
    if body.size_hint().lower() > bound as u64 {
        return Err(too_long());
    }
    let mut buffer = BodyBuffer::default();
    while !body.is_end_stream() {
        let data = match body.frame().await {
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => return Err(Fault::Cut(causes(&error)).into()),
            None => break,
        };
        if data.len() > bound - buffer.len() {
            return Err(too_long());
        }
        buffer.push(data, 0);
    }
    let bytes = buffer.into_bytes(0);
    ByteString::try_from(bytes).map_err(|_| Fault::Malformed(format!("{what} is not UTF-8")).into())
}
