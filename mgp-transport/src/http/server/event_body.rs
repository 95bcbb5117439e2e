//! Reads the events of a stream into a response body, and polls the call that writes them.

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
use super::refusal::Refusal;
use super::stream::Stream;

/// A comment: it prevents proxies from timing out, and shows whether the client has disconnected. No empty line
/// follows, because some parsers, e.g. the parser of the Python SDK, read an empty line as an event without data.
const KEEP_ALIVE_COMMENT: &[u8] = b": \n";

/// A reader of a stream for a response that might not have begun yet.
///
/// The reader is attached when the request arrives, so that no event is dropped before the response begins.
pub(super) struct StreamReader {
    stream: Arc<Stream>,
    number: u64,
}

impl StreamReader {
    /// Attaches a reader to a stream: after the last event that was read, or after a given event.
    pub(super) fn new(stream: &Arc<Stream>, after: Option<u64>) -> Self {
        Self { stream: Arc::clone(stream), number: stream.attach(after) }
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        self.stream.detach(self.number);
    }
}

pub(super) struct EventBody {
    /// The call that writes the events. Declared before `reader`, so that it is dropped first: its destructor can still
    /// write events.
    driven: Option<DrivenCall>,
    reader: StreamReader,
    /// The credentials of the client; if they become invalid, the stream ends before its next event or comment.
    grant: Option<CredentialGrant>,
    keep_alive: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

/// A call that ends when its response is dropped.
pub(super) struct DrivenCall {
    id: Id,
    /// `true` if the call is a subscription, whose stream may end without an answer.
    listens: bool,
    call: BoxFuture<'static, Result<Reply, RpcError>>,
    /// The guard that keeps the call in its scope.
    _request: ScopedRequest,
    /// The guard that counts the call in the load of the server.
    _load: LoadGuard,
}

impl DrivenCall {
    pub(super) fn new(
        id: Id,
        listens: bool,
        call: BoxFuture<'static, Result<Reply, RpcError>>,
        request: ScopedRequest,
        load: LoadGuard,
    ) -> Self {
        Self { id, listens, call, _request: request, _load: load }
    }

    /// Ends the call because the credentials of its client ended, and returns the event that is its answer. Returns
    /// `None` for a subscription, so that its client opens it again with new credentials.
    fn refuse(self, stream: &Stream) -> Option<Bytes> {
        let answer = Refusal::CredentialsEnded.into_message(Some(self.id));
        (!self.listens).then(|| stream.encode_event(0, &answer).into())
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
        Self { driven: None, reader, grant: None, keep_alive, timer: None }
    }

    /// Sets the client's credentials, which can end the response.
    pub(super) fn with_grant(mut self, grant: Option<CredentialGrant>) -> Self {
        self.grant = grant;
        self
    }

    /// Sets the call that this body drives. The call ends when the response is dropped.
    pub(super) fn with_call(mut self, driven: DrivenCall) -> Self {
        self.driven = Some(driven);
        self
    }

    pub(super) fn poll_next(&mut self, task: &mut Task<'_>) -> Poll<Option<Bytes>> {
        if self.grant.as_ref().is_some_and(|grant| !grant.is_valid()) {
            tracing::debug!("stream ended: the credentials of its client expired");
            let refused = self.driven.take().and_then(|driven| driven.refuse(&self.reader.stream));
            return Poll::Ready(refused);
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
