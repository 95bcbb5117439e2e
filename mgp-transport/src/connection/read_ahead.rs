//! Messages that are read while too many calls run, in order to find pings among them immediately.

use std::collections::VecDeque;

use mgp_types::service::Message;

/// The number of bytes after which reading ahead stops; later messages, including pings, then wait.
const MAX_BYTES: usize = 1 << 20;

/// The messages that were read ahead, in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    messages: VecDeque<(Message, usize)>,
    bytes: usize,
}

impl ReadAhead {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns whether reading ahead must stop; a single message that is larger than the limit is still accepted.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= MAX_BYTES
    }

    pub(super) fn push(&mut self, message: Message, size: usize) {
        self.bytes += size;
        self.messages.push_back((message, size));
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

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
