//! What the handshake tells the transport of the same connection.
//!
//! Applies to: both.

use std::sync::atomic::{AtomicBool, Ordering};

/// Rules of the wire that depend on the negotiated revision; kept in the [`Scope`](super::Scope).
#[derive(Debug, Default)]
pub struct WireRules {
    batches: AtomicBool,
    recovery: AtomicBool,
}

impl WireRules {
    /// Whether several messages may come in one array: in revision 2025-03-26 only.
    #[must_use]
    pub fn takes_batches(&self) -> bool {
        self.batches.load(Ordering::Relaxed)
    }

    /// Whether the peer negotiated MGP, so that refusals of the transport itself may carry `_mgp`.
    #[must_use]
    pub fn tells_recovery(&self) -> bool {
        self.recovery.load(Ordering::Relaxed)
    }

    /// Notes that the peer negotiated MGP.
    pub fn allow_recovery(&self) {
        self.recovery.store(true, Ordering::Relaxed);
    }

    /// Allows arrays of messages.
    pub fn allow_batches(&self) {
        self.batches.store(true, Ordering::Relaxed);
    }
}
