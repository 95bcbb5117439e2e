//! Reads the events of a stream into a response body, and drives the call that writes them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use bytes::Bytes;
use mgp_types::service::{BoxFuture, CredentialGrant, Reply, write_answer};
use mgp_types::{Id, RpcError};
use tokio::time::{Sleep, sleep};

use super::handle_scopes::ScopedRequest;
use super::load::LoadGuard;
use super::stream::Stream;

/// A comment: it keeps proxies from timing out, and shows whether the client has left.
const KEEP_ALIVE_COMMENT: &[u8] = b": \n\n";

/// Reader of a stream for a response, which may not have begun.
///
/// It is attached when its request arrives, so that nothing is dropped before the response begins.
pub(super) struct StreamReader {
    stream: Arc<Stream>,
    number: u64,
}

impl StreamReader {
    /// Attaches to a stream, after the last event read or after a given one.
    pub(super) fn new(stream: &Arc<Stream>, after: Option<u64>) -> Self {
        Self { stream: Arc::clone(stream), number: stream.attach(after) }
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.stream.detach(self.number);
    }
}

/// Events of a response.
pub(super) struct EventBody {
    /// The call that writes the events. Declared before `reader`, because its destructor may still write.
    driven: Option<DrivenCall>,
    reader: StreamReader,
    /// Credentials of the client; the stream ends when they are no longer valid.
    pass: Option<CredentialGrant>,
    keep_alive: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

/// A call that lives as long as its response.
pub(super) struct DrivenCall {
    id: Id,
    call: BoxFuture<'static, Result<Reply, RpcError>>,
    /// Scope and load of the call, released when it ends.
    _held: (ScopedRequest, LoadGuard),
}

impl DrivenCall {
    pub(super) fn new(
        id: Id,
        call: BoxFuture<'static, Result<Reply, RpcError>>,
        held: (ScopedRequest, LoadGuard),
    ) -> Self {
        Self { id, call, _held: held }
    }

    /// Polls the call; when it completes, writes its answer to the stream.
    fn poll(&mut self, stream: &Stream, task: &mut Task<'_>) -> Poll<()> {
        self.call.as_mut().poll(task).map(|outcome| {
            let mut answer = Vec::with_capacity(128);
            write_answer(&mut answer, Some(&self.id), &outcome);
            stream.finish(answer);
        })
    }
}

impl EventBody {
    pub(super) fn new(reader: StreamReader, keep_alive: Duration) -> Self {
        Self { driven: None, reader, pass: None, keep_alive, timer: None }
    }

    /// Sets the client's credentials; the response ends when they expire.
    pub(super) fn with_pass(mut self, pass: Option<CredentialGrant>) -> Self {
        self.pass = pass;
        self
    }

    /// Sets the call to drive; it ends when the response is dropped.
    pub(super) fn with_call(mut self, driven: DrivenCall) -> Self {
        self.driven = Some(driven);
        self
    }

    /// Returns the next bytes; `None` at the end.
    pub(super) fn poll_next(&mut self, task: &mut Task<'_>) -> Poll<Option<Bytes>> {
        if self.pass.as_ref().is_some_and(|pass| !pass.is_valid()) {
            tracing::debug!("stream ended: the credentials of its client expired");
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
        Poll::Ready(Some(Bytes::from_static(KEEP_ALIVE_COMMENT)))
    }
}
