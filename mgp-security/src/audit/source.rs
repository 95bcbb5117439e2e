//! Where recorded events are read again, in the order of their numbers (MGP §6, later revisions: `_mgp.seq`).
//!
//! Applies to: both.

use mgp_types::mgp::AuditEvent;
use mgp_types::service::{BoxFuture, MemoryAudit};
use mgp_types::store::StoreError;
use tokio::sync::watch;

/// A log that can be read while it is written.
///
/// Every event has a number in `_mgp.seq`; numbers grow by one and are never used again.
pub trait EventSource: Send + Sync {
    /// The next events after a number, oldest first, at most so many; internal records are not among them.
    ///
    /// # Errors
    /// [`StoreError`] when the log cannot be read.
    fn after(
        &self,
        seq: u64,
        most: usize,
    ) -> BoxFuture<'static, Result<Vec<AuditEvent>, StoreError>>;

    /// The number of the newest event that is durable.
    fn newest(&self) -> watch::Receiver<u64>;
}

/// Reads what is kept in memory; what gave way is missing at the front.
impl EventSource for MemoryAudit {
    fn after(
        &self,
        seq: u64,
        most: usize,
    ) -> BoxFuture<'static, Result<Vec<AuditEvent>, StoreError>> {
        Box::pin(std::future::ready(Ok(Self::after(self, seq, most))))
    }

    fn newest(&self) -> watch::Receiver<u64> {
        Self::newest(self)
    }
}
