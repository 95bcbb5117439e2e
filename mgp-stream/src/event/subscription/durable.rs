//! Durable subscriptions: their stored form, and their events in the store.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::service::{Context, Peer, Scope, ScopeKind};
use tokio::time::Instant;

use super::{Replayed, Subscription, SubscriptionState};
use crate::event::draft::PublishedEvent;
use crate::event::event_json::Terms;
use crate::event::hub::Hub;
use crate::event::journal::StoredSubscription;

/// The maximum number of events of a durable subscription that the store keeps.
const MAX_STORED: usize = 10_000;
/// The maximum total size of the events of a durable subscription that the store keeps, in bytes.
const MAX_STORED_BYTES: usize = 32 * 1024 * 1024;

/// The time of the last use of a durable subscription is stored at most once in this interval.
const USE_INTERVAL: Duration = Duration::from_hours(1);

impl Subscription {
    /// Restores a durable subscription from its stored form; no connection or stream is attached to it yet.
    pub(in crate::event) fn from_stored(stored: &StoredSubscription) -> Result<Self, RpcError> {
        let (principal, patterns, filter) = Terms::read(&stored.terms)?;
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Handle), principal);
        let mut new = Self::new(stored.id.clone(), &cx, patterns, filter, true);
        let state = new.state.get_mut();
        state.kept_bytes = stored.sizes.iter().map(|size| *size as usize).sum();
        state.sizes = stored.sizes.iter().copied().collect();
        (state.next_seq, state.stored) = (stored.next_seq, stored.next_seq - 1);
        state.cursor = stored.cursor.min(state.stored);
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
        event: &PublishedEvent,
    ) -> Option<(u64, u64)> {
        let mut state = self.state.lock();
        if state.is_ended || !hub.sees(&state.viewer, &event.draft.subject) {
            return None;
        }
        let size = u32::try_from(event.bytes()).unwrap_or(u32::MAX);
        state.sizes.push_back(size);
        state.kept_bytes += size as usize;
        state.next_seq += 1;
        while state.sizes.len() > MAX_STORED || state.kept_bytes > MAX_STORED_BYTES {
            let oldest = state.sizes.pop_front();
            state.kept_bytes -= oldest.unwrap_or_default() as usize;
        }
        Some((state.next_seq - 1, state.first()))
    }

    /// Records that the store contains the event with number `seq`, so that the event can be sent or read.
    pub(in crate::event) fn record_stored(self: &Arc<Self>, hub: &Arc<Hub>, seq: u64) {
        let mut state = self.state.lock();
        state.stored = state.stored.max(seq);
        self.start_sending(&mut state, hub);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Returns the stored events of a durable subscription after the sequence number `after`, up to the last stored
    /// event.
    pub(in crate::event) async fn replay_stored(
        &self,
        hub: &Hub,
        after: u64,
        limit: usize,
    ) -> Result<Replayed, RpcError> {
        let (stored, first) = {
            let state = self.state.lock();
            (state.stored, state.first())
        };
        let mut events = hub.read_stored(&self.id, after, stored, limit + 1).await?;
        let has_more = events.len() > limit;
        events.truncate(limit);
        let truncated = after < stored && first > after + 1;
        Ok(Replayed { events, has_more, truncated })
    }

    /// Passes the stored form of the subscription to `put`, which stores that the subscription is used. Does nothing if
    /// the subscription has ended, or if its use was stored recently. The subscription cannot end before `put` returns.
    pub(in crate::event) fn put_use<T>(
        &self,
        put: impl FnOnce(StoredSubscription) -> T,
    ) -> Option<T> {
        let mut state = self.state.lock();
        if state.is_ended || state.use_stored_at.is_some_and(|at| at.elapsed() < USE_INTERVAL) {
            return None;
        }
        state.use_stored_at = Some(Instant::now());
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

    fn stored_form(&self, state: &SubscriptionState) -> StoredSubscription {
        StoredSubscription {
            id: self.id.clone(),
            terms: Terms::to_json(&self.principal, &self.patterns, &self.filter),
            next_seq: state.next_seq,
            sizes: Vec::new(),
            cursor: state.cursor,
        }
    }
}
