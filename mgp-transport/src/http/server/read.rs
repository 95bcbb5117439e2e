//! Reads the body of a request: bounded in size, in time, and with all others together.
//!
//! Applies to: inbound.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use http_body::Body;
use http_body_util::BodyExt;
use mgp_types::{ErrorCode, RpcError};
use tokio::time::{Instant, timeout};

use super::config::HttpConfig;
use super::heads::Heads;
use super::load::Busy;
use super::refusal::Refusal;

/// How long what is too long is still read.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What a longer one must bring a second, so that it is a slow line and not a slow attack.
const RATE: usize = 8 * 1024;
/// How long the body of a request may take that is beyond a bound.
const SPARE_TIME: Duration = Duration::from_secs(1);
/// A shorter body is copied out of the connection's buffer, which can then be used again.
const SHORT: usize = 16 * 1024;

/// Reads a body as text.
pub(super) async fn text<B>(
    heads: &Heads<'_>,
    body: B,
    config: &HttpConfig,
    busy: &mut Busy,
) -> Result<ByteString, Refusal>
where
    B: Body<Data = Bytes>,
{
    let bound = config.body_bytes;
    let announced = body.size_hint().lower();
    let mut body = pin!(body);
    if announced > bound as u64 {
        if announced / 2 <= bound as u64 {
            pass_over(body, bound.saturating_mul(2)).await;
        }
        return Err(Refusal::TooLong(bound));
    }
    if heads.content_encoding.is_some_and(|encoding| !encoding.eq_ignore_ascii_case("identity")) {
        return Err(Refusal::Encoding);
    }
    busy.within_spare(usize::try_from(announced).unwrap_or(usize::MAX))?;
    // Whoever is only let in to say something may not take long over it.
    let time = if busy.is_spare() { config.body_time.min(SPARE_TIME) } else { config.body_time };
    let start = Instant::now();
    let mut first = Bytes::new();
    let mut all: Vec<u8> = Vec::new();
    let mut length = 0_usize;
    // Where the length was announced nothing is waited for behind it.
    while !body.is_end_stream() {
        let earned = Duration::from_secs((length / RATE) as u64);
        let left = time.saturating_add(earned).saturating_sub(start.elapsed());
        let frame = match timeout(left, body.frame()).await {
            Err(_) => return Err(Refusal::TooSlow),
            Ok(None) => break,
            Ok(Some(Err(_))) => return Err(Refusal::Broken),
            Ok(Some(Ok(frame))) => frame,
        };
        // Trailers say nothing to us.
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length > bound {
            pass_over(body, bound).await;
            return Err(Refusal::TooLong(bound));
        }
        busy.hold(data.len(), config.held_bytes)?;
        busy.within_spare(length)?;
        if all.is_empty() && first.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                all.reserve(usize::try_from(announced).unwrap_or(0).min(bound));
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&data);
        }
    }
    let whole = if !all.is_empty() {
        Bytes::from(all)
    } else if first.len() < SHORT {
        Bytes::copy_from_slice(&first)
    } else {
        first
    };
    let not_text = |_| {
        let error = RpcError::new(ErrorCode::PARSE_ERROR, "the body is not UTF-8");
        Refusal::Message(error.without_recovery(), None)
    };
    ByteString::try_from(whole).map_err(not_text)
}

/// Lets a client finish what it sends, unless it is far too much: one that is cut off while it sends never reads why.
async fn pass_over<B: Body<Data = Bytes>>(mut body: Pin<&mut B>, bytes: usize) {
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
    let _ = timeout(LAST_WORDS, rest).await;
}
