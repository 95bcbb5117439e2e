//! The rules that a handshake sets for the messages of its connection; the transport applies them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::mcp::Revision;

/// The rules that a handshake sets for the messages of its connection; stored in the [`Scope`](super::Scope) of the
/// connection.
#[derive(Debug, Default)]
pub struct WireRules {
    revision: OnceLock<Revision>,
    recovery: AtomicBool,
}

impl WireRules {
    /// Returns whether several messages can be sent in one array, i.e. whether the revision is MCP 2025-03-26.
    #[must_use]
    pub fn accepts_batches(&self) -> bool {
        self.revision() == Some(&Revision::V2025_03_26)
    }

    /// Returns whether the peer negotiated MGP, so that errors of the transport itself can contain recovery hints
    /// (`_mgp`).
    #[must_use]
    pub fn allows_recovery(&self) -> bool {
        self.recovery.load(Ordering::Relaxed)
    }

    /// Records that the peer negotiated MGP, so that [`allows_recovery`](Self::allows_recovery) returns `true`.
    pub fn allow_recovery(&self) {
        self.recovery.store(true, Ordering::Relaxed);
    }

    /// Returns the negotiated legacy revision; `None` before `initialize`, and in the modern era.
    #[must_use]
    pub fn revision(&self) -> Option<&Revision> {
        self.revision.get()
    }

    /// Records the negotiated revision; only the first call has an effect.
    pub fn set_revision(&self, revision: &Revision) {
        self.revision.get_or_init(|| revision.clone());
    }
}
