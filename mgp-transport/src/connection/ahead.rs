//! Messages that were read while too many calls run, so that pings among them are found at once.
//!
//! Applies to: inbound.

use std::collections::VecDeque;

use mgp_types::service::Message;

/// How much is read ahead; then reading pauses, and whoever stands behind waits.
const BYTES: usize = 1 << 20;

/// What was read ahead, in the order in which it came.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    messages: VecDeque<(Message, usize)>,
    bytes: usize,
}

impl Ahead {
    /// Whether nothing was read ahead.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether nothing more may be read ahead; one message that is too large always fits.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= BYTES
    }

    /// Puts a message of a size at the end.
    pub(super) fn push(&mut self, message: Message, size: usize) {
        self.bytes += size;
        self.messages.push_back((message, size));
    }

    /// Takes the first.
    pub(super) fn pop(&mut self) -> Option<(Message, usize)> {
        let (message, size) = self.messages.pop_front()?;
        self.bytes -= size;
        // A burst does not keep its memory for ever.
        if self.messages.is_empty() {
            self.messages = VecDeque::new();
        }
        Some((message, size))
    }

    /// Lets go of all.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}
