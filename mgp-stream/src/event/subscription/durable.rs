//! Durable subscriptions: their stored form, and their events in the store.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::service::{Context, Peer, Scope, ScopeKind};
use tokio::time::Instant;

use super::queue::Queue;
use super::{Subscription, SubscriptionState};
use crate::event::draft::PublishedEvent;
use crate::event::event_json::Terms;
use crate::event::hub::Hub;
use crate::event::journal::StoredSubscription;

/// The time of the last use of a durable subscription is stored at most once in this interval.
const USE_INTERVAL: Duration = Duration::from_hours(1);

impl Subscription {
    /// Restores a durable subscription from its stored form; no connection or stream is attached to it yet.
    pub(in crate::event) fn from_stored(stored: &StoredSubscription) -> Result<Self, RpcError> {
        let (principal, patterns, filter) = Terms::read(&stored.terms)?;
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Handle), principal);
        let queue = Queue::durable(before_first(stored), &stored.sizes);
        let mut new = Self::new(stored.id.clone(), &cx, patterns, filter, queue);
        let state = new.state.get_mut();
        (state.base, state.cursor) = (0, stored.cursor.min(state.queue.readable()));
        Ok(new)
    }

    pub(in crate::event) fn to_stored(&self) -> StoredSubscription {
        self.stored_form(&self.state.lock())
    }

    /// Assigns the next sequence number to an event of a durable subscription, if the subscriber may see the event.
    /// Returns this number and that of the oldest event that the store must keep.
    pub(in crate::event) fn assign_seq(
        &self,
        hub: &Hub,
        event: &Arc<PublishedEvent>,
    ) -> Option<(u64, u64)> {
        let mut state = self.state.lock();
        state.accept(hub, event).then(|| (state.queue.last(), state.queue.first()))
    }

    /// Records that the store contains the event with number `seq`, so that the event can be sent or read.
    pub(in crate::event) fn record_stored(self: &Arc<Self>, hub: &Arc<Hub>, seq: u64) {
        let mut state = self.state.lock();
        if let Queue::Stored { stored, .. } = &mut state.queue {
            *stored = seq.max(*stored);
        }
        self.start_sending(state, hub);
        self.changed.notify_waiters();
    }

    /// Waits until an event can be read that comes after both the cursor and `seq`. Returns the later of these two
    /// positions.
    pub(in crate::event) async fn wait_readable(&self, seq: u64) -> u64 {
        let mut after = seq;
        self.wait_until(|state| {
            after = seq.max(state.cursor);
            after < state.queue.readable()
        })
        .await;
        after
    }

    /// Passes the stored form of the subscription to `put`, which stores that the subscription is used. Does nothing if
    /// the subscription is not durable or has ended, or if its use was stored recently. The subscription cannot end
    /// before `put` returns.
    pub(in crate::event) fn put_use<T>(
        &self,
        put: impl FnOnce(StoredSubscription) -> T,
    ) -> Option<T> {
        let mut state = self.state.lock();
        let is_ended = state.is_ended;
        let Queue::Stored { use_stored_at, .. } = &mut state.queue else { return None };
        if is_ended || use_stored_at.is_some_and(|at| at.elapsed() < USE_INTERVAL) {
            return None;
        }
        *use_stored_at = Some(Instant::now());
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

    /// Replaces a queue in the store by an empty one in memory, for the last event of a subscription that the store
    /// removes.
    pub(in crate::event) fn leave_store(&self) {
        let mut state = self.state.lock();
        if state.queue.is_durable() {
            state.queue = Queue::memory(state.queue.last());
        }
    }

    /// Forgets the sizes of the events that the store has removed because they were too old.
    pub(in crate::event) fn forget_removed(&self, stored: &StoredSubscription) {
        if let Queue::Stored { sizes, .. } = &mut self.state.lock().queue {
            sizes.drop_before(before_first(stored) + 1);
        }
    }

    fn stored_form(&self, state: &SubscriptionState) -> StoredSubscription {
        StoredSubscription {
            id: self.id.clone(),
            terms: Terms::to_json(&self.principal, &self.patterns, &self.filter),
            next_seq: state.queue.last() + 1,
            sizes: Vec::new(),
            cursor: state.cursor,
        }
    }
}

/// Returns the sequence number before the oldest event of a subscription in the store.
fn before_first(stored: &StoredSubscription) -> u64 {
    stored.next_seq.saturating_sub(1 + stored.sizes.len() as u64)
}
