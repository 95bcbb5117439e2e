//! Calls that did not complete when they were dispatched, and batches. A batch is an array of several messages, which
//! is answered with an array (MCP 2025-03-26 only).

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use mgp_types::service::{BoxFuture, Reply};
use mgp_types::sync::Mutex;
use mgp_types::{Id, RpcError};

/// The estimated memory of a message in addition to its text. It is counted so that many tiny calls reach the limit
/// too.
pub(super) const CALL_COST: usize = 512;

pub(super) struct Running {
    pub(super) id: Option<Id>,
    pub(super) size: usize,
    pub(super) batch: Option<Batch>,
    pub(super) future: BoxFuture<'static, Result<Reply, RpcError>>,
}

pub(super) struct Finished {
    pub(super) id: Id,
    pub(super) size: usize,
    pub(super) batch: Option<Batch>,
    pub(super) outcome: Result<Reply, RpcError>,
}

impl Future for Running {
    type Output = Finished;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Finished> {
        let outcome = ready!(self.future.as_mut().poll(task));
        Poll::Ready(Finished {
            id: self.id.take().unwrap_or(Id::Number(0)),
            size: self.size,
            batch: self.batch.take(),
            outcome,
        })
    }
}

/// The maximum size, in bytes, of a short answer, e.g. an error. A batch always has room for short answers.
pub(crate) const MAX_SHORT_ANSWER: usize = 512;

/// The answers to the messages of a batch, as far as they have been collected.
#[derive(Clone, Debug, Default)]
pub(super) struct Batch(Arc<Mutex<Answers>>);

#[derive(Debug, Default)]
struct Answers {
    open: usize,
    text: Vec<u8>,
}

impl Batch {
    /// Adds one to the number of messages that must be answered.
    pub(super) fn open(&self) {
        self.0.lock().open += 1;
    }

    /// Returns the size of the answers that have been collected, in bytes.
    pub(super) fn size(&self) -> usize {
        self.0.lock().text.len()
    }

    /// Adds the answer to one message; an empty answer adds nothing. Returns the array of answers when all messages are
    /// answered.
    pub(super) fn close(&self, answer: &[u8]) -> Option<Vec<u8>> {
        let mut answers = self.0.lock();
        answers.open -= 1;
        if !answer.is_empty() {
            let separator = if answers.text.is_empty() { b'[' } else { b',' };
            answers.text.push(separator);
            answers.text.extend_from_slice(answer);
        }
        if answers.open > 0 || answers.text.is_empty() {
            return None;
        }
        answers.text.push(b']');
        Some(std::mem::take(&mut answers.text))
    }
}
