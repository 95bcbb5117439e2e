//! The fault "a request body of 1 GiB": the server must refuse it early and must not store it.

use super::{head, mebibytes};
use crate::{
    exchange::{Status, exchange},
    run::{Context, Failure, Outcome},
    serving::{Served, memory},
};
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

const BODY: u64 = 1 << 30;
const CHUNK: usize = 1 << 16;
/// The maximum number of bytes that the client may have sent when it reads the refusal. The value leaves room for the
/// server's limit and the socket buffers.
const MAX_SENT: u64 = 64 << 20;
/// The maximum growth of the server's peak memory in the test, in bytes.
const MAX_GROWTH: u64 = 48 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);

/// The framing of the body: with its length in the head, or in chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length,
    Chunks,
}

/// Sends the body until the server refuses it, and checks the status, the bytes sent and the server's memory.
pub(super) fn gigabyte(served: &Served, framing: Framing) -> Outcome<String> {
    let before = memory(served.process(), "VmHWM").context("the server's memory")?;
    let framed = match framing {
        Framing::Length => format!("Content-Length: {BODY}\r\n"),
        Framing::Chunks => "Transfer-Encoding: chunked\r\n".to_owned(),
    };
    let head = head(served.port(), "POST", &framed).into_bytes();
    let data = vec![b' '; CHUNK];
    let chunk = match framing {
        Framing::Length => data,
        Framing::Chunks => [format!("{CHUNK:x}\r\n").as_bytes(), data.as_slice(), b"\r\n"].concat(),
    };
    let sent = AtomicU64::new(0);
    let count = BODY / u64::try_from(CHUNK)?;
    let chunks = (0..count).map(|_| {
        sent.fetch_add(u64::try_from(CHUNK).unwrap_or(0), Ordering::Relaxed);
        (chunk.clone(), Duration::ZERO)
    });
    let pieces = std::iter::once((head, Duration::ZERO)).chain(chunks);
    let answers = exchange(served.port(), pieces, "POST", 1, TIMEOUT);
    let status = answers.first().map_or(Status::Silent, |answer| answer.status);
    let sent = sent.load(Ordering::Relaxed);
    let after = memory(served.process(), "VmHWM").context("the server's memory")?;
    let growth = after.saturating_sub(before);
    let seen =
        format!("{} after {}, grew by {}", status.value(), mebibytes(sent), mebibytes(growth));
    // A closed connection counts as refused, because the close may arrive before the 413 while bytes are still in
    // flight.
    let refused = matches!(status, Status::Of(413) | Status::Closed);
    if refused && sent <= MAX_SENT && growth <= MAX_GROWTH {
        Ok(seen)
    } else {
        Err(Failure::new(seen))
    }
}
