//! Reading recorded events in the order of their numbers (MGP §6, `_mgp.seq`).

use mgp_types::mgp::AuditEvent;
use mgp_types::service::{BoxFuture, MemoryAudit};
use mgp_types::store::StoreError;
use tokio::sync::watch;

/// A log that can be read while it is written.
///
/// Every event has a number in `_mgp.seq`; numbers grow by one and are never reused.
pub trait EventSource: Send + Sync {
    /// Returns up to `max` events after a number, oldest first, without the internal records of the log.
    ///
    /// # Errors
    /// [`StoreError`] when the log cannot be read.
    fn after(
        &self,
        seq: u64,
        max: usize,
    ) -> BoxFuture<'static, Result<Vec<AuditEvent>, StoreError>>;

    /// Returns a receiver of the number of the newest durable event.
    fn newest(&self) -> watch::Receiver<u64>;
}

/// Reads the events in memory; events that were evicted are missing at the front.
impl EventSource for MemoryAudit {
    fn after(
        &self,
        seq: u64,
        max: usize,
    ) -> BoxFuture<'static, Result<Vec<AuditEvent>, StoreError>> {
        Box::pin(std::future::ready(Ok(Self::after(self, seq, max))))
    }

    fn newest(&self) -> watch::Receiver<u64> {
        Self::newest(self)
    }
}
