//! The pause in the dispatch of messages while too many calls run. During the pause, the connection reads messages
//! ahead, so that it finds pings among them immediately.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::Context as Task;
use std::time::Duration;

use mgp_types::service::Message;
use tokio::time::{Instant, Sleep, sleep_until};

use super::priority::is_light_ping;

/// The time for which reading pauses at the limit of running calls, before further calls are refused.
///
/// The pause gives the runtime time to run short calls, because a peer can send them faster than they are scheduled. If
/// the calls take longer, the pause is too short to disturb the peer: messages that the peer sends after these calls
/// (e.g. a cancellation, or an answer that a call needs) are still read soon enough.
const REFUSAL_DELAY: Duration = Duration::from_millis(50);

/// The number of bytes after which reading ahead stops; later messages, including pings, then wait.
const MAX_BYTES: usize = 1 << 20;

/// The pause, and the messages that were read ahead during it, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct ReadPause {
    /// The timer of the pause. It is stored even after it has elapsed, so that no new pause begins until a call ends.
    timer: Option<Pin<Box<Sleep>>>,
    messages: VecDeque<(Message, usize)>,
    bytes: usize,
}

impl ReadPause {
    /// Returns whether reading still pauses; begins the pause if no pause has begun since the last call ended.
    pub(super) fn poll(&mut self, task: &mut Task<'_>) -> bool {
        let timer =
            self.timer.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + REFUSAL_DELAY)));
        !timer.is_elapsed() && timer.as_mut().poll(task).is_pending()
    }

    /// Ends the pause, so that reading can pause again.
    pub(super) fn end(&mut self) {
        self.timer = None;
    }

    pub(super) fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }

    /// Returns whether reading ahead must stop; a single message that is larger than the limit is still accepted.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES
    }

    /// Queues a message until reading resumes. Returns a ping instead, so that it overtakes other messages.
    pub(super) fn push(&mut self, (message, size): (Message, usize)) -> Option<(Message, usize)> {
        if matches!(&message, Message::Request { method, .. } if is_light_ping(method, size)) {
            return Some((message, size));
        }
        self.bytes += size;
        self.messages.push_back((message, size));
        None
    }

    pub(super) fn pop(&mut self) -> Option<(Message, usize)> {
        let (message, size) = self.messages.pop_front()?;
        self.bytes -= size;
        // Frees the memory that remains after a burst of messages.
        if self.messages.is_empty() {
            self.messages = VecDeque::new();
        }
        Some((message, size))
    }
}
