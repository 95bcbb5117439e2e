//! The cancellation signal of one call, shared by its handler and the layer.

use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context as Task, Poll, Waker};

use mgp_types::Payload;
use mgp_types::service::JoinedContent;
use mgp_types::sync::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::chunk::{ChunkSender, KeptBytes};

/// The maximum size, in bytes, of the sent chunks of one call that are kept as its partial result in case it is
/// cancelled.
const MAX_PARTIAL_BYTES: usize = 1 << 20;

/// Cancellation signal of one call. A handler finds the signal of its call among the extensions of the call's context.
///
/// By default, the future of a cancelled call is dropped. A handler that calls [`CancelSignal::listen`] is notified
/// instead, and must end by itself.
pub struct CancelSignal {
    since: Instant,
    state: Mutex<SignalState>,
    /// Notified when the call is cancelled.
    listeners: Notify,
    /// The counter of the bytes of sent chunks that are kept; all calls of the layer share it.
    kept: KeptBytes,
    /// The stream of the call's chunks; not set if the caller did not ask for chunks.
    stream: OnceLock<Weak<ChunkSender>>,
}

#[derive(Default)]
struct SignalState {
    cancelled: Option<Cancellation>,
    /// `true` if the call was answered, so that it can no longer be cancelled.
    is_answered: bool,
    listening: bool,
    layer: Option<Waker>,
    partial: Vec<Payload>,
    partial_bytes: usize,
    /// `true` if no more chunks are added to the partial result, because a chunk could not be kept or the call was
    /// cancelled.
    is_cut: bool,
    chunks: u64,
}

/// The method by which the caller cancelled a call. It determines how the call itself is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cancellation {
    /// By `notifications/cancelled`: the call gets no answer.
    Silently,
    /// By `mgp/stream/cancel`: the call is answered with the content sent so far.
    WithPartial { reason: Option<String> },
}

/// The content that a call had sent before it was cancelled.
#[derive(Clone, Debug, Default)]
pub(super) struct Partial {
    chunks: Vec<Payload>,
    pub(super) chunks_sent: u64,
}

impl Partial {
    /// Returns the content as blocks, with adjacent texts joined to one block.
    pub(super) fn content(self) -> Vec<Payload> {
        self.chunks.into_iter().collect::<JoinedContent>().to_blocks()
    }
}

impl CancelSignal {
    pub(crate) fn new(kept: KeptBytes) -> Self {
        Self {
            since: Instant::now(),
            state: Mutex::default(),
            listeners: Notify::new(),
            kept,
            stream: OnceLock::new(),
        }
    }

    /// Waits until the call is cancelled. After the first poll, a cancellation no longer drops the call.
    ///
    /// # Cancel safety
    /// Cancel safe: the future may be dropped and created again.
    pub async fn listen(&self) {
        // Create the future before the check, so that it also receives a notification that comes after the check.
        let notified = self.listeners.notified();
        {
            let mut state = self.state.lock();
            state.listening = true;
            if state.cancelled.is_some() {
                return;
            }
        }
        notified.await;
    }

    /// Returns whether the call was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state.lock().cancelled.is_some()
    }

    /// Cancels the call. Returns the content sent so far, or `None` if the call was already answered.
    pub(super) fn cancel(&self, how: Cancellation) -> Option<Partial> {
        let (layer, partial) = {
            let mut state = self.state.lock();
            if state.is_answered {
                return None;
            }
            state.cancelled.get_or_insert(how);
            state.is_cut = true;
            let partial = Partial { chunks: state.partial.clone(), chunks_sent: state.chunks };
            (state.layer.take(), partial)
        };
        if let Some(layer) = layer {
            layer.wake();
        }
        self.listeners.notify_waiters();
        Some(partial)
    }

    #[cfg(test)]
    pub(crate) fn cancel_silently(&self) {
        self.cancel(Cancellation::Silently);
    }

    /// Counts a sent chunk, and keeps it for the partial result if it fits within the limits.
    pub(crate) fn record_chunk(&self, content: &Payload) {
        let mut state = self.state.lock();
        state.chunks += 1;
        let size = content.as_str().len();
        let fits = !state.is_cut && state.partial_bytes + size <= MAX_PARTIAL_BYTES;
        state.is_cut = !(fits && self.kept.reserve(size));
        if !state.is_cut {
            state.partial_bytes += size;
            state.partial.push(content.clone());
        }
    }

    /// Returns the counter for the bytes of sent chunks that are kept.
    pub(crate) fn kept(&self) -> &KeptBytes {
        &self.kept
    }

    /// Stores the stream of the call's chunks.
    pub(crate) fn attach(&self, stream: &Arc<ChunkSender>) {
        // Ignore the error, which would mean that a stream is stored already: a call opens only one stream.
        let _ = self.stream.set(Arc::downgrade(stream));
    }

    /// Returns the stream of the call, if it has one that is still open.
    pub(super) fn stream(&self) -> Option<Arc<ChunkSender>> {
        self.stream.get()?.upgrade()
    }

    /// Returns the time since the start of the call, in milliseconds.
    pub(super) fn elapsed_ms(&self) -> u64 {
        mgp_types::millis(self.since.elapsed())
    }

    /// Completes when the call must be dropped, because it was cancelled and its handler does not listen. Returns the
    /// cancellation, and the content sent so far.
    pub(super) fn poll_dropped(&self, task: &Task<'_>) -> Poll<(Cancellation, Partial)> {
        let mut state = self.state.lock();
        match &state.cancelled {
            Some(cancellation) if !state.listening => {
                let cancellation = cancellation.clone();
                let partial = Partial { chunks: state.partial.clone(), chunks_sent: state.chunks };
                Poll::Ready((cancellation, partial))
            }
            _ => {
                if !state.layer.as_ref().is_some_and(|waker| waker.will_wake(task.waker())) {
                    state.layer = Some(task.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    /// Records that the handler has completed. Returns the cancellation if the call was cancelled before.
    pub(super) fn end(&self) -> Option<Cancellation> {
        let mut state = self.state.lock();
        state.is_answered = state.cancelled.is_none();
        state.cancelled.clone()
    }
}

impl Drop for CancelSignal {
    fn drop(&mut self) {
        self.kept.release(self.state.get_mut().partial_bytes);
    }
}

mgp_types::opaque_debug!(CancelSignal);
