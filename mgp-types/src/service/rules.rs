//! What the handshake tells the transport of the same connection.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::mcp::Revision;

/// Rules of the wire that depend on the negotiated revision; kept in the [`Scope`](super::Scope).
#[derive(Debug, Default)]
pub struct WireRules {
    revision: OnceLock<Revision>,
    recovery: AtomicBool,
}

impl WireRules {
    /// Whether several messages may come in one array: in revision 2025-03-26 only.
    #[must_use]
    pub fn takes_batches(&self) -> bool {
        self.revision() == Some(&Revision::V2025_03_26)
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

    /// The legacy revision that was settled on; `None` before `initialize`, and in the modern era.
    #[must_use]
    pub fn revision(&self) -> Option<&Revision> {
        self.revision.get()
    }

    /// Notes the revision that was settled on; the first one stays.
    pub fn settle(&self, revision: &Revision) {
        self.revision.get_or_init(|| revision.clone());
    }
}
