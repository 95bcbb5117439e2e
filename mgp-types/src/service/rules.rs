//! What the handshake tells the transport of the same connection.
//!
//! Applies to: both.

use std::sync::atomic::{AtomicBool, Ordering};

/// Rules of the wire that depend on the negotiated revision; kept in the [`Scope`](super::Scope).
#[derive(Debug, Default)]
pub struct WireRules {
    batches: AtomicBool,
}

impl WireRules {
    /// Whether several messages may come in one array: in revision 2025-03-26 only.
    #[must_use]
    pub fn takes_batches(&self) -> bool {
        self.batches.load(Ordering::Relaxed)
    }

    /// Allows arrays of messages.
    pub fn allow_batches(&self) {
        self.batches.store(true, Ordering::Relaxed);
    }
}
