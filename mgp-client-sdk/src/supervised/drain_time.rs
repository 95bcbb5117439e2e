//! The time for running calls to finish when a supervised server is stopped (MGP §11.4).

use std::sync::Arc;
use std::time::Duration;

use mgp_types::sync::Mutex;

/// The time for running calls to finish when a server is stopped. A single stop can shorten it.
pub(super) struct DrainTime {
    configured: Duration,
    limit: Mutex<Option<Duration>>,
}

/// A guard that shortens a drain that begins before the guard is dropped.
pub(super) struct DrainLimit(Arc<DrainTime>);

impl DrainTime {
    pub(super) fn new(configured: Duration) -> Arc<Self> {
        Arc::new(Self { configured, limit: Mutex::default() })
    }

    /// Returns the time that a drain that begins now has.
    pub(super) fn get(&self) -> Duration {
        let limit = *self.limit.lock();
        limit.map_or(self.configured, |limit| limit.min(self.configured))
    }

    /// Limits the time of the next drain, if it begins before the returned guard is dropped.
    pub(super) fn limit(self: &Arc<Self>, limit: Duration) -> DrainLimit {
        let mut current = self.limit.lock();
        *current = Some(current.map_or(limit, |current| current.min(limit)));
        drop(current);
        DrainLimit(Arc::clone(self))
    }
}

impl Drop for DrainLimit {
    fn drop(&mut self) {
        *self.0.limit.lock() = None;
    }
}
