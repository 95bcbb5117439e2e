//! The extractor for tools that react to the cancellation of their call.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use mgp_stream::CancelSignal;
use mgp_types::RpcError;
use tokio::sync::watch;

use super::{FromCall, ToolRequest};

/// A handle to the cancellation of the call.
///
/// If a call is cancelled, an async tool is dropped at its current await point, so most tools do not need this handle.
/// A tool that waits on [`Cancelled::cancelled`] is not dropped by `notifications/cancelled` and `mgp/stream/cancel`:
/// the future completes, and the tool must return by itself. In all other cases the tool is dropped without notice:
/// after its time limit, if the connection or the stream of its response ends, and by `tasks/cancel`.
///
/// A tool on the blocking pool cannot be dropped, so it is notified in all cases; it should check
/// [`Cancelled::is_cancelled`] from time to time.
///
/// ```
/// use mgp_server_sdk::Cancelled;
/// use mgp_server_sdk::prelude::*;
///
/// let work = Tool::new("work", "Works until it is cancelled", |cancelled: Cancelled| async move {
///     tokio::select! {
///         () = cancelled.cancelled() => "tidied up",
///         () = std::future::pending() => "done",
///     }
/// });
/// # drop(work);
/// ```
#[derive(Clone, Debug)]
pub struct Cancelled {
    signal: Option<Arc<CancelSignal>>,
    /// The notice that the call was dropped, for a tool on the blocking pool; `None` for any other tool, which is
    /// dropped with its call.
    abandoned: Option<Arc<Abandoned>>,
}

impl Cancelled {
    /// Waits until the call is cancelled. After this method was first used, a cancellation no longer drops the call.
    ///
    /// # Cancel safety
    /// The future may be dropped; calling the method again waits for the same cancellation.
    pub async fn cancelled(&self) {
        let mut signalled = pin!(async {
            match &self.signal {
                Some(signal) => signal.listen().await,
                None => pending().await,
            }
        });
        let mut abandoned = pin!(async {
            match &self.abandoned {
                Some(abandoned) => abandoned.wait().await,
                None => pending().await,
            }
        });
        poll_fn(|task| {
            let is_over = signalled.as_mut().poll(task).is_ready()
                || abandoned.as_mut().poll(task).is_ready();
            if is_over { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Returns whether the call was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.signal.as_ref().is_some_and(|signal| signal.is_cancelled())
            || self.abandoned.as_ref().is_some_and(|abandoned| abandoned.is_set())
    }
}

impl FromCall for Cancelled {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        let extensions = &request.cx.extensions;
        Ok(Self { signal: extensions.get_shared(), abandoned: extensions.get_shared() })
    }
}

/// A notice to a function on the blocking pool that its call was dropped while the function was still running.
#[derive(Debug, Default)]
pub(in crate::tool) struct Abandoned(watch::Sender<bool>);

impl Abandoned {
    /// Notifies the function that its call was dropped.
    pub(in crate::tool) fn set(&self) {
        self.0.send_replace(true);
    }

    fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    async fn wait(&self) {
        // The channel cannot be closed, because this value owns its sender.
        let _ = self.0.subscribe().wait_for(|is_set| *is_set).await;
    }
}
