//! What a cancelled call learns.
//!
//! Applies to: inbound.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context as Task, Poll, Waker};

use mgp_types::Payload;

/// How many bytes of chunks are kept for the partial result of a cancelled call.
const PARTIAL_MAX: usize = 1 << 20;

/// The cancellation of one call; found in the call's extensions.
///
/// By default a cancelled call is dropped where it waits.
/// A handler that calls [`CancelSignal::listen`] is signalled instead and ends by itself.
#[derive(Default)]
pub struct CancelSignal(Mutex<State>);

#[derive(Default)]
struct State {
    cancelled: Option<Cancellation>,
    listening: bool,
    layer: Option<Waker>,
    listener: Option<Waker>,
    partial: Vec<Payload>,
    partial_bytes: usize,
    chunks: u64,
}

/// Who cancelled, which decides how the call itself is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cancellation {
    /// `notifications/cancelled`: the call stays unanswered.
    Silently,
    /// `mgp/stream/cancel`: the call is answered with what it had.
    WithPartial { reason: Option<String> },
}

/// What a cancelled call had sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Partial {
    pub(super) content: Vec<Payload>,
    pub(super) chunks: u64,
}

impl CancelSignal {
    /// Takes part in cancellation: the call is no longer dropped when it is cancelled.
    ///
    /// Resolves when the call is cancelled; until then it waits for ever.
    ///
    /// # Cancel safety
    /// The future may be dropped and asked for again.
    pub async fn listen(&self) {
        poll_fn(|task| {
            let mut state = self.state();
            state.listening = true;
            if state.cancelled.is_some() {
                return Poll::Ready(());
            }
            state.listener = Some(task.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Whether the call was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.state().cancelled.is_some()
    }

    pub(super) fn cancel(&self, how: Cancellation) -> Partial {
        let (wakers, partial) = {
            let mut state = self.state();
            state.cancelled.get_or_insert(how);
            let partial = Partial { content: state.partial.clone(), chunks: state.chunks };
            ([state.layer.take(), state.listener.take()], partial)
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
        partial
    }

    /// Notes a chunk that went out.
    pub(crate) fn sent(&self, content: &Payload) {
        let mut state = self.state();
        state.chunks += 1;
        state.partial_bytes += content.as_str().len();
        if state.partial_bytes <= PARTIAL_MAX {
            state.partial.push(content.clone());
        }
    }

    /// Whether the layer must drop the call now.
    pub(super) fn poll_dropped(&self, task: &Task<'_>) -> Poll<(Cancellation, Partial)> {
        let mut state = self.state();
        match &state.cancelled {
            Some(how) if !state.listening => {
                let how = how.clone();
                let partial =
                    Partial { content: std::mem::take(&mut state.partial), chunks: state.chunks };
                Poll::Ready((how, partial))
            }
            _ => {
                if !state.layer.as_ref().is_some_and(|waker| waker.will_wake(task.waker())) {
                    state.layer = Some(task.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    /// How the call was cancelled, if it was.
    pub(super) fn how(&self) -> Option<Cancellation> {
        self.state().cancelled.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for CancelSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_cancelled() { "CancelSignal(cancelled)" } else { "CancelSignal" })
    }
}
