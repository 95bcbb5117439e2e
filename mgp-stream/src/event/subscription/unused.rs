//! The use of a durable subscription, and the removal of its old events.

use std::sync::Arc;

use super::Subscription;
use crate::event::journal::StoredSubscription;

impl Subscription {
    /// Returns whether a subscriber is connected, or a reader of this process exists. Such a subscription is in use
    /// also while there are no events.
    pub(in crate::event) fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.readers) > 1 || self.state.lock().target.is_some()
    }

    /// Forgets the events that the store has removed because they were too old.
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
