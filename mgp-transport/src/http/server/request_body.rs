//! Reads the body of a request, with limits for its size, its duration, and the size of all bodies together.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use http_body::Body;
use http_body_util::BodyExt;
use mgp_types::{ErrorCode, RpcError};
use tokio::time::{Instant, timeout};

use super::config::HttpConfig;
use super::headers::RequestHeaders;
use super::load::LoadGuard;
use super::multipart;
use super::refusal::Refusal;
use crate::http::body_buffer::BodyBuffer;

/// The time for which the server still reads the rest of a body that is too long.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);
/// The number of received bytes that extend the time limit of a body by one second. A slow connection thus gets enough
/// time, but a client that sends single bytes does not.
const MIN_BYTES_PER_SECOND: usize = 8 * 1024;
/// The time limit, in place of `HttpConfig::body_timeout`, for the body of a request that exceeds a limit of the
/// server. This body is read only to find out whether it is a ping, an answer or a cancellation, which are served
/// nevertheless.
const EXTRA_BODY_TIMEOUT: Duration = Duration::from_secs(1);
/// Bodies up to this size are copied out of the connection's buffer, which can then be reused.
const MAX_COPIED_BODY: usize = 16 * 1024;

/// Reads a body as text. For a body with several parts, which has a boundary, returns the text
/// of the assembled message.
pub(super) async fn read_text<B>(
    headers: &RequestHeaders<'_>,
    body: B,
    boundary: Option<&str>,
    config: &HttpConfig,
    load: &mut LoadGuard,
) -> Result<ByteString, Refusal>
where
    B: Body<Data = Bytes>,
{
    let bound = config.body_bytes;
    let announced = body.size_hint().lower();
    let mut body = pin!(body);
    if announced > bound as u64 {
        if announced / 2 <= bound as u64 {
            discard(body, bound.saturating_mul(2)).await;
        }
        return Err(Refusal::BodyTooLong(bound));
    }
    if headers.content_encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        return Err(Refusal::Encoding);
    }
    load.check_extra_size(usize::try_from(announced).unwrap_or(usize::MAX))?;
    // The body of a request that is above a limit of the server gets less time.
    let extra_timeout = load.is_extra().then_some(EXTRA_BODY_TIMEOUT);
    let time = config.body_timeout.min(extra_timeout.unwrap_or(Duration::MAX));
    let start = Instant::now();
    let expected = usize::try_from(announced).unwrap_or(0).min(bound);
    let mut whole = BodyBuffer::default();
    // Check for the end before each poll: a body of known length then needs no further poll after its last bytes.
    while !body.is_end_stream() {
        let earned = Duration::from_secs((whole.len() / MIN_BYTES_PER_SECOND) as u64);
        let left = time.saturating_add(earned).saturating_sub(start.elapsed());
        let frame = match timeout(left, body.frame()).await {
            Err(_) => return Err(Refusal::BodyTimeout),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(Refusal::BodyIncomplete),
            Ok(Some(Ok(frame))) => frame,
        };
        // Trailers are ignored.
        let Ok(data) = frame.into_data() else { continue };
        let length = whole.len() + data.len();
        if length > bound {
            discard(body, bound).await;
            return Err(Refusal::BodyTooLong(bound));
        }
        load.add_bytes(data.len(), config.held_bytes)?;
        load.check_extra_size(length)?;
        whole.push(data, expected);
    }
    let mut whole = whole.into_bytes(MAX_COPIED_BODY);
    if let Some(boundary) = boundary {
        let message = multipart::message(&whole, boundary)?;
        // The base64 makes the message longer than the body, by at most a third of the data, so count the additional
        // bytes.
        load.add_bytes(message.len().saturating_sub(whole.len()), config.held_bytes)?;
        whole = message.into();
    }
    to_text(whole)
}

fn to_text(whole: Bytes) -> Result<ByteString, Refusal> {
    ByteString::try_from(whole).map_err(|_| {
        let error = RpcError::new(ErrorCode::PARSE_ERROR, "the body is not UTF-8");
        Refusal::Message(error.without_recovery(), None)
    })
}

/// Reads and discards what the client still sends, up to a limit. If the connection were closed while the client is
/// sending, the client would not read the answer.
async fn discard<B: Body<Data = Bytes>>(mut body: Pin<&mut B>, bytes: usize) {
    let mut left = bytes;
    let rest = async {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            if length > left {
                return;
            }
            left -= length;
        }
    };
    let _ = timeout(DISCARD_TIMEOUT, rest).await;
}
