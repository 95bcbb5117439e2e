//! Records that a durable subscription is used, and forgets events that the store has removed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Subscription;
use crate::event::journal::StoredSubscription;

/// The time of the last use of a durable subscription is stored at most once in this interval.
const NOTE_INTERVAL: Duration = Duration::from_hours(1);

impl Subscription {
    /// Passes the stored form of the subscription to `put`, which stores that the subscription is used. Does nothing if
    /// the subscription has ended, or if its use was stored recently. The subscription cannot end before `put` returns.
    pub(in crate::event) fn put_use<T>(
        &self,
        put: impl FnOnce(StoredSubscription) -> T,
    ) -> Option<T> {
        let mut state = self.state.lock();
        if state.is_ended || state.noted_at.is_some_and(|at| at.elapsed() < NOTE_INTERVAL) {
            return None;
        }
        state.noted_at = Some(Instant::now());
        Some(put(self.stored_form(&state)))
    }

    /// Sets the number of the last event that a reader in this process has acknowledged, and passes the stored form of
    /// the subscription to `put`. Does not call `put` if the subscription has ended. The subscription cannot end before
    /// `put` returns.
    pub(in crate::event) fn put_cursor<T>(
        &self,
        seq: u64,
        put: impl FnOnce(StoredSubscription) -> T,
    ) -> Option<T> {
        let mut state = self.state.lock();
        state.cursor = state.cursor.max(seq);
        (!state.is_ended).then(|| put(self.stored_form(&state)))
    }

    /// Returns whether the subscription is in use even if there are no events: a subscriber is connected, or a reader
    /// in this process exists.
    pub(in crate::event) fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.readers) > 1 || self.state.lock().target.is_some()
    }

    /// Forgets the sizes of the events that the store has removed because they were too old.
    pub(in crate::event) fn forget_removed(&self, stored: &StoredSubscription) {
        let first = stored.next_seq.saturating_sub(stored.sizes.len() as u64);
        let mut state = self.state.lock();
        while state.first() < first
            && let Some(size) = state.sizes.pop_front()
        {
            state.kept_bytes -= size as usize;
        }
    }
}
