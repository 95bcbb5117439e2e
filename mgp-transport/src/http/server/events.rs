//! What reads a stream for a response, and drives the call behind it where nobody else does.
//!
//! Applies to: inbound.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use bytes::Bytes;
use mgp_types::service::{BoxFuture, Pass, Reply, write_answer};
use mgp_types::{Id, RpcError};
use tokio::time::{Sleep, sleep};

use super::handles::Within;
use super::load::Busy;
use super::stream::Stream;

/// A comment: it keeps proxies from giving up, and finds out that the client has left.
const NOTHING: &[u8] = b": \n\n";

/// A response that reads a stream, or that will where there is something to read.
///
/// It reads from the moment its request is there: nothing is dropped because the response has not begun.
pub(super) struct Reader {
    stream: Arc<Stream>,
    number: u64,
}

impl Reader {
    /// Reads from where the last reader was, or from behind an event.
    pub(super) fn new(stream: &Arc<Stream>, after: Option<u64>) -> Self {
        Self { stream: Arc::clone(stream), number: stream.attach(after) }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stream.detach(self.number);
    }
}

/// The events of a response.
pub(super) struct Events {
    /// It goes before the reader: what it lets go of may still want to write.
    driven: Option<Driven>,
    reader: Reader,
    /// What the client showed; it hears nothing more once that no longer holds.
    pass: Option<Pass>,
    keep_alive: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

/// A call that lives as long as its response.
pub(super) struct Driven {
    id: Id,
    call: BoxFuture<'static, Result<Reply, RpcError>>,
    /// What it belongs to, and what it weighs, until it ends.
    _held: (Within, Busy),
}

impl Driven {
    pub(super) fn new(
        id: Id,
        call: BoxFuture<'static, Result<Reply, RpcError>>,
        held: (Within, Busy),
    ) -> Self {
        Self { id, call, _held: held }
    }

    /// Drives the call; once it has ended its answer is in the stream.
    fn poll(&mut self, stream: &Stream, task: &mut Task<'_>) -> Poll<()> {
        self.call.as_mut().poll(task).map(|outcome| {
            let mut answer = Vec::with_capacity(128);
            write_answer(&mut answer, Some(&self.id), &outcome);
            stream.finish(answer);
        })
    }
}

impl Events {
    /// What a reader reads.
    pub(super) fn new(reader: Reader, keep_alive: Duration) -> Self {
        Self { driven: None, reader, pass: None, keep_alive, timer: None }
    }

    /// Ends when what its client showed no longer holds.
    pub(super) fn for_holder_of(mut self, pass: Option<Pass>) -> Self {
        self.pass = pass;
        self
    }

    /// Drives a call, which ends when nobody reads its response any more.
    pub(super) fn driving(mut self, driven: Driven) -> Self {
        self.driven = Some(driven);
        self
    }

    /// The next bytes; `None` at the end.
    pub(super) fn poll_next(&mut self, task: &mut Task<'_>) -> Poll<Option<Bytes>> {
        if self.pass.as_ref().is_some_and(|pass| !pass.is_good()) {
            tracing::debug!("a stream ends: what its client showed no longer holds");
            self.driven = None;
            return Poll::Ready(None);
        }
        if let Some(driven) = &mut self.driven
            && driven.poll(&self.reader.stream, task).is_ready()
        {
            self.driven = None;
        }
        if let Poll::Ready(read) = self.reader.stream.poll_read(self.reader.number, task) {
            if let Some(timer) = &mut self.timer {
                timer.set(sleep(self.keep_alive));
            }
            return Poll::Ready(read);
        }
        let keep_alive = self.keep_alive;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(keep_alive)));
        if timer.as_mut().poll(task).is_pending() {
            return Poll::Pending;
        }
        timer.set(sleep(keep_alive));
        Poll::Ready(Some(Bytes::from_static(NOTHING)))
    }
}
