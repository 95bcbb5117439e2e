//! What came back for a POST: JSON, a stream, nothing, or a refusal.
//!
//! Applies to: outbound.

use bytes::Bytes;
use bytestring::ByteString;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use mgp_types::RpcError;
use mgp_types::service::HttpFault;
use serde::Deserialize;

use super::error::{Fault, causes};
use super::wire::Wire;

/// How much of a refusal is read.
const REFUSAL_BYTES: usize = 256 << 10;

/// What a server answered, by its head.
pub(super) enum Answer {
    /// One message, or several in an array, still to be read.
    Json(Incoming),
    /// Events, still to be read.
    Events(Incoming),
    /// Neither.
    Other(Box<Response<Incoming>>),
}

impl Answer {
    pub(super) fn of(response: Response<Incoming>) -> Self {
        match kind(response.headers()).filter(|_| response.status().is_success()) {
            Some(Kind::Json) => Self::Json(response.into_body()),
            Some(Kind::Events) => Self::Events(response.into_body()),
            None => Self::Other(Box::new(response)),
        }
    }
}

impl Wire {
    /// Reads JSON; `None` where there is nothing.
    pub(super) async fn read(&self, body: Incoming) -> Result<Option<ByteString>, RpcError> {
        let text = whole(body, self.config.response_bytes, "the answer").await?;
        Ok(Some(text).filter(|text| !text.trim().is_empty()))
    }

    /// Says what is wrong with a response that is neither JSON nor a stream; nothing where it took the message.
    pub(super) async fn read_other(&self, response: Response<Incoming>) -> Result<(), RpcError> {
        let (head, body) = response.into_parts();
        if !head.status.is_success() {
            return Err(self.read_refusal(head.status, &head.headers, body).await);
        }
        if matches!(head.status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT)
            || body.is_end_stream()
        {
            super::wire::drain(body).await;
            return Ok(());
        }
        let named = head.headers.get(CONTENT_TYPE);
        let named = named.map_or("no content type".to_owned(), |named| format!("{named:?}"));
        Err(Fault::Form(format!(
            "the server answered with {named} instead of JSON or a stream of events: is {} an MCP endpoint?",
            self.endpoint
        ))
        .into())
    }

    /// The error a refusal stands for: the one in its body, else what its status says.
    pub(super) async fn read_refusal(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        body: Incoming,
    ) -> RpcError {
        #[derive(Deserialize)]
        struct Refusal {
            error: RpcError,
        }
        if kind(headers) == Some(Kind::Json) {
            let text = whole(body, REFUSAL_BYTES, "the refusal").await.unwrap_or_default();
            if let Ok(refusal) = serde_json::from_str::<Refusal>(&text) {
                return refusal.error.because(HttpFault::Answered(status.as_u16()));
            }
        } else {
            super::wire::drain(body).await;
        }
        self.refusal(status, headers).into()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Events,
}

/// What the content type says, without its parameters.
pub(super) fn kind(headers: &HeaderMap) -> Option<Kind> {
    let named = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let named = named.split(';').next().unwrap_or_default().trim();
    if named.eq_ignore_ascii_case("application/json") {
        Some(Kind::Json)
    } else if named.eq_ignore_ascii_case("text/event-stream") {
        Some(Kind::Events)
    } else {
        None
    }
}

/// Reads a body that has at most so many bytes; one that comes in one piece is not copied.
async fn whole(
    mut body: Incoming,
    bound: usize,
    what: &'static str,
) -> Result<ByteString, RpcError> {
    let too_long = || RpcError::from(Fault::TooLong { what, bound });
    if body.size_hint().lower() > bound as u64 {
        return Err(too_long());
    }
    let (mut first, mut all) = (Bytes::new(), Vec::new());
    while !body.is_end_stream() {
        let data = match body.frame().await {
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(error)) => return Err(Fault::Cut(causes(&error)).into()),
            None => break,
        };
        if data.len() > bound - first.len().max(all.len()) {
            return Err(too_long());
        }
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&data);
        }
    }
    let bytes = if all.is_empty() { first } else { all.into() };
    ByteString::try_from(bytes).map_err(|_| Fault::Form(format!("{what} is no UTF-8")).into())
}
