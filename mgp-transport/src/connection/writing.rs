//! The half of a connection that writes.

use std::io;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use rustc_hash::FxHashSet;
use tokio::io::AsyncWrite;

use super::Connection;
use super::outbox::{Outbox, request_numbers};

/// The bytes that are being written; the first `written` bytes are done.
#[derive(Default)]
pub(super) struct Writing {
    bytes: Vec<u8>,
    written: usize,
    /// `true` after a write failed. Answers that have already arrived are still read, but no more calls start.
    pub(super) has_failed: bool,
}

impl Writing {
    /// Writes until the outbox is empty or the writer accepts no more. Returns whether the writer accepted any bytes.
    pub(super) fn write<R, W: AsyncWrite + Unpin>(
        &mut self,
        connection: &mut Connection<R, W>,
        task: &mut Task<'_>,
    ) -> io::Result<bool> {
        let outbox = &connection.send_half.outbox;
        outbox.register_driver(task);
        let mut any = false;
        loop {
            if self.written == self.bytes.len() {
                self.clear();
                // Frees the large buffer that remains after a burst of messages.
                if self.bytes.capacity() > connection.limits.unread_bytes {
                    self.bytes = Vec::new();
                }
                outbox.take_into(&mut self.bytes);
                if self.bytes.is_empty() {
                    if let Poll::Ready(result) = Pin::new(&mut connection.writer).poll_flush(task) {
                        result?;
                    }
                    return Ok(any);
                }
            }
            match Pin::new(&mut connection.writer).poll_write(task, &self.bytes[self.written..]) {
                Poll::Ready(Ok(0)) => return Err(io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => {
                    self.written += count;
                    outbox.note_written(count);
                    any = true;
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(any),
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.written = 0;
    }

    /// Returns the numbers of the requests of this side that are not completely written.
    pub(super) fn unwritten_requests(&self, outbox: &Outbox) -> FxHashSet<i64> {
        let line_end = memchr::memrchr(b'\n', &self.bytes[..self.written]);
        let unfinished = &self.bytes[line_end.map_or(0, |at| at + 1)..];
        let mut numbers = request_numbers(unfinished).collect();
        outbox.add_requests(&mut numbers);
        numbers
    }
}
