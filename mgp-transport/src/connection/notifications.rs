//! The notification queue: notifications are handled one after another, in the order in which they were read.

use std::collections::VecDeque;
use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::method::{LogMessage, Notification as _, Progress, StreamChunk, StreamProgress};
use mgp_types::service::{BoxFuture, Reply};

type Handling = BoxFuture<'static, Result<Reply, RpcError>>;

/// The handlers of notifications that have not completed, in order of arrival; only the first handler is polled.
#[derive(Default)]
pub(crate) struct NotificationQueue {
    queue: VecDeque<(usize, Handling)>,
    /// The total size of the queued notifications, in bytes.
    bytes: usize,
}

impl NotificationQueue {
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a handler. When it has completed, [`poll`](Self::poll) passes `size` to its callback.
    pub(crate) fn push(&mut self, size: usize, handling: Handling) {
        self.bytes += size;
        self.queue.push_back((size, handling));
    }

    pub(crate) fn clear(&mut self) {
        self.bytes = 0;
        self.queue.clear();
    }

    /// Polls the first handler; whenever one completes, continues with the next.
    pub(crate) fn poll(&mut self, task: &mut Task<'_>, mut done: impl FnMut(usize)) {
        while let Some((size, handling)) = self.queue.front_mut() {
            let Poll::Ready(outcome) = handling.as_mut().poll(task) else { return };
            if let Err(error) = outcome {
                tracing::debug!(%error, "notification failed");
            }
            self.bytes -= *size;
            done(*size);
            self.queue.pop_front();
        }
    }
}

/// Returns whether a notification only reports something (progress, logs and similar), so that it can be dropped under
/// load.
pub(super) fn is_report(method: &str) -> bool {
    matches!(
        method,
        Progress::METHOD | LogMessage::METHOD | StreamChunk::METHOD | StreamProgress::METHOD
    )
}
