//! The notification queue: notifications are handled one after another, in the order in which they were read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_types::RpcError;
use mgp_types::method::{LogMessage, Notification as _, Progress, StreamChunk, StreamProgress};
use mgp_types::service::{BoxFuture, Reply};

use super::gauges::HeldBytes;
use super::{Counters, Limits};

type Handling = BoxFuture<'static, Result<Reply, RpcError>>;

/// The handlers of notifications that have not completed, in order of arrival; only the first handler is polled.
#[derive(Default)]
pub(crate) struct NotificationQueue(VecDeque<(usize, Handling)>);

impl NotificationQueue {
    /// Adds a handler. When it has completed, [`poll`](Self::poll) passes `size` to its callback.
    pub(crate) fn push(&mut self, size: usize, handling: Handling) {
        self.0.push_back((size, handling));
    }

    /// Polls the first handler; whenever one completes, continues with the next.
    pub(crate) fn poll(&mut self, task: &mut Task<'_>, mut done: impl FnMut(usize)) {
        while let Some((size, handling)) = self.0.front_mut() {
            let Poll::Ready(outcome) = handling.as_mut().poll(task) else { return };
            if let Err(error) = outcome {
                tracing::debug!(%error, "notification failed");
            }
            done(*size);
            self.0.pop_front();
        }
    }
}

/// The notification queue of a connection over a byte stream. The gauge `held` includes its size.
pub(super) struct HeldNotifications {
    queue: NotificationQueue,
    held: HeldBytes,
}

impl HeldNotifications {
    pub(super) fn new(counters: &Arc<Counters>) -> Self {
        Self { queue: NotificationQueue::default(), held: HeldBytes::new(counters, 0) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.0.is_empty()
    }

    /// Returns whether the limits allow another notification of this size.
    pub(super) fn has_room(&self, size: usize, limits: &Limits) -> bool {
        // Do not count the bytes of requests: a notification can be the cancellation that frees some of them. A single
        // notification is not a flood, however long it is.
        let waiting = self.held.bytes();
        let is_heavy = waiting > 0 && waiting + size > limits.held_bytes;
        !is_heavy && self.queue.0.len() < limits.notifications
    }

    pub(super) fn push(&mut self, size: usize, handling: Handling) {
        self.queue.push(size, handling);
        self.held.set(self.held.bytes() + size);
    }

    pub(super) fn poll(&mut self, task: &mut Task<'_>) {
        let mut left = self.held.bytes();
        self.queue.poll(task, |size| left -= size);
        self.held.set(left);
    }
}

/// Returns whether a notification only reports something (progress, logs, chunks), so that it can be dropped under
/// load.
pub(super) fn is_report(method: &str) -> bool {
    matches!(
        method,
        Progress::METHOD | LogMessage::METHOD | StreamChunk::METHOD | StreamProgress::METHOD
    )
}
