//! The cancellation signal of one call, shared by its handler and the layer.

use std::fmt;
use std::future::poll_fn;
use std::task::{Context as Task, Poll, Waker};

use mgp_types::Payload;
use mgp_types::sync::Mutex;

/// The most bytes of chunks kept for the partial result of a cancelled call.
const MAX_PARTIAL_BYTES: usize = 1 << 20;

/// Cancellation signal of one call; handlers find it in the call's extensions.
///
/// By default the future of a cancelled call is dropped. A handler that calls [`CancelSignal::listen`] is notified
/// instead, and must end by itself.
#[derive(Default)]
pub struct CancelSignal(Mutex<SignalState>);

#[derive(Default)]
struct SignalState {
    cancelled: Option<Cancellation>,
    listening: bool,
    layer: Option<Waker>,
    listener: Option<Waker>,
    partial: Vec<Payload>,
    partial_bytes: usize,
    chunks: u64,
}

/// The way a call was cancelled, which decides how the call itself is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cancellation {
    /// By `notifications/cancelled`: the call gets no answer.
    Silently,
    /// `mgp/stream/cancel`: the call is answered with the content sent so far.
    WithPartial { reason: Option<String> },
}

/// The content that a cancelled call had sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Partial {
    pub(super) content: Vec<Payload>,
    pub(super) chunks: u64,
}

impl CancelSignal {
    /// Waits until the call is cancelled. From the first poll on, a cancellation no longer drops the call.
    ///
    /// # Cancel safety
    /// Cancel safe: the future may be dropped and created again.
    pub async fn listen(&self) {
        poll_fn(|task| {
            let mut state = self.0.lock();
            state.listening = true;
            if state.cancelled.is_some() {
                return Poll::Ready(());
            }
            state.listener = Some(task.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Returns whether the call was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.lock().cancelled.is_some()
    }

    pub(super) fn cancel(&self, how: Cancellation) -> Partial {
        let (wakers, partial) = {
            let mut state = self.0.lock();
            state.cancelled.get_or_insert(how);
            let partial = Partial { content: state.partial.clone(), chunks: state.chunks };
            ([state.layer.take(), state.listener.take()], partial)
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
        partial
    }

    /// Records a chunk that was sent.
    pub(crate) fn record_chunk(&self, content: &Payload) {
        let mut state = self.0.lock();
        state.chunks += 1;
        state.partial_bytes += content.as_str().len();
        if state.partial_bytes <= MAX_PARTIAL_BYTES {
            state.partial.push(content.clone());
        }
    }

    /// Waits until the call is cancelled and must be dropped.
    pub(super) fn poll_dropped(&self, task: &Task<'_>) -> Poll<(Cancellation, Partial)> {
        let mut state = self.0.lock();
        match &state.cancelled {
            Some(cancellation) if !state.listening => {
                let cancellation = cancellation.clone();
                let partial =
                    Partial { content: std::mem::take(&mut state.partial), chunks: state.chunks };
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

    pub(super) fn cancellation(&self) -> Option<Cancellation> {
        self.0.lock().cancelled.clone()
    }
}

impl fmt::Debug for CancelSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_cancelled() { "CancelSignal(cancelled)" } else { "CancelSignal" })
    }
}
