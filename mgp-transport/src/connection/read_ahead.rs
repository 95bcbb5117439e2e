//! Messages read while too many calls run, so that pings among them are found at once.

use std::collections::VecDeque;

use mgp_types::service::Message;

/// Number of bytes read ahead at which reading stops; messages after them, pings included, then wait.
const MAX_BYTES: usize = 1 << 20;

/// Messages that were read ahead, in the order in which they arrived.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    messages: VecDeque<(Message, usize)>,
    bytes: usize,
}

impl ReadAhead {
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns whether reading ahead must stop; a single message larger than the bound still fits.
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
        // Frees the memory that a burst left behind.
        if self.messages.is_empty() {
            self.messages = VecDeque::new();
        }
        Some((message, size))
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
