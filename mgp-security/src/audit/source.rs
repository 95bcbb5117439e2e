//! Reading recorded events in the order of their numbers (MGP §6, `_mgp.seq`).

use async_trait::async_trait;
use mgp_types::mgp::AuditEvent;
use mgp_types::service::MemoryAudit;
use mgp_types::store::StoreError;
use tokio::sync::watch;

/// A log that can be read while it is written.
///
/// Every event has a number in `_mgp.seq`. Numbers grow by one. A number is given to a second event only if a power cut
/// lost the first event that had it.
///
/// An implementation needs the attribute `#[async_trait]` of the crate `async-trait`.
#[async_trait]
pub trait EventSource: Send + Sync {
    /// Returns up to `max` events whose number is greater than `seq`, oldest first. Internal records of the log are not
    /// among them.
    ///
    /// # Errors
    /// [`StoreError`] if the log cannot be read.
    async fn after(&self, seq: u64, max: usize) -> Result<Vec<AuditEvent>, StoreError>;

    /// Returns a receiver of the number of the newest written event.
    fn newest(&self) -> watch::Receiver<u64>;
}

/// Reads the events in memory. Events that were evicted are missing at the beginning.
#[async_trait]
impl EventSource for MemoryAudit {
    async fn after(&self, seq: u64, max: usize) -> Result<Vec<AuditEvent>, StoreError> {
        Ok(Self::after(self, seq, max))
    }

    fn newest(&self) -> watch::Receiver<u64> {
        Self::newest(self)
    }
}
