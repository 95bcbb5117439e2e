//! Calls that did not complete when they were dispatched, and batches. A batch is an array of several messages, which
//! is answered with an array (MCP 2025-03-26 only).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use mgp_types::service::{BoxFuture, Reply};
use mgp_types::sync::Mutex;
use mgp_types::{Id, RpcError};

use super::Counters;
use super::gauges::{CountedRequest, HeldBytes};

/// The estimated memory of a message in addition to its text. It is counted so that many tiny calls reach the limit
/// too.
pub(super) const CALL_COST: usize = 512;

/// A request of the peer, from its start to its answer.
pub(super) struct RunningRequest {
    pub(super) id: Id,
    pub(super) batch: Option<Batch>,
    pub(super) counted: CountedRequest,
}

/// A running request, with the future of its outcome.
pub(super) struct Running {
    /// `None` after the request has completed.
    pub(super) request: Option<RunningRequest>,
    /// `true` for a stream of changes, which lasts as long as the peer wants.
    pub(super) is_stream: bool,
    pub(super) future: BoxFuture<'static, Result<Reply, RpcError>>,
}

impl Future for Running {
    type Output = (RunningRequest, Result<Reply, RpcError>);

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let outcome = ready!(self.future.as_mut().poll(task));
        match self.request.take() {
            Some(request) => Poll::Ready((request, outcome)),
            // The future completed in an earlier poll, and must not be polled any more.
            None => Poll::Pending,
        }
    }
}

/// The maximum size, in bytes, of a short answer, e.g. an error. A batch always has room for short answers.
pub(crate) const MAX_SHORT_ANSWER: usize = 512;

/// The answers to the messages of a batch, as far as they have been collected.
#[derive(Clone, Debug)]
pub(super) struct Batch(Arc<Mutex<Answers>>);

#[derive(Debug)]
struct Answers {
    open: usize,
    text: Vec<u8>,
    /// The bytes of `text`.
    held: HeldBytes,
}

impl Batch {
    pub(super) fn new(counters: &Arc<Counters>) -> Self {
        let held = HeldBytes::new(counters, 0);
        Self(Arc::new(Mutex::new(Answers { open: 0, text: Vec::new(), held })))
    }

    /// Adds one to the number of messages that must be answered.
    pub(super) fn open(&self) {
        self.0.lock().open += 1;
    }

    /// Returns the size of the answers that have been collected, in bytes.
    pub(super) fn size(&self) -> usize {
        self.0.lock().text.len()
    }

    /// Adds the answer to one message; an empty answer adds nothing. Returns the array of answers when all messages are
    /// answered, unless it is empty.
    pub(super) fn close(&self, answer: &[u8]) -> Option<Vec<u8>> {
        let mut answers = self.0.lock();
        answers.open -= 1;
        if !answer.is_empty() {
            let separator = if answers.text.is_empty() { b'[' } else { b',' };
            answers.text.push(separator);
            answers.text.extend_from_slice(answer);
        }
        let is_complete = answers.open == 0 && !answers.text.is_empty();
        let array = is_complete.then(|| {
            answers.text.push(b']');
            std::mem::take(&mut answers.text)
        });
        let bytes = answers.text.len();
        answers.held.set(bytes);
        array
    }
}
