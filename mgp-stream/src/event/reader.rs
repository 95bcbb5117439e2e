//! Reads the events of a durable subscription within this process, e.g. to deliver them to a webhook.

use std::sync::Arc;

use mgp_types::mgp::Severity;
use mgp_types::service::{Context, Peer, Principal, Scope, ScopeKind};
use mgp_types::{Payload, RpcError};

use super::EventHub;
use super::filter::Filter;
use super::pattern::Pattern;
use super::subscription::Subscription;
use super::subscription::queue::Queue;

/// Reader of the stored events of a durable subscription; its position is saved in the store.
#[derive(Clone)]
pub struct EventReader {
    hub: EventHub,
    subscription: Arc<Subscription>,
    /// The mark that a reader exists. While it exists, the subscription counts as used and is not removed.
    _in_use: Arc<()>,
}

mgp_types::opaque_debug!(EventReader);

/// An event that an [`EventReader`] returned.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadEvent {
    /// The sequence number of the event within the subscription.
    pub seq: u64,
    /// The event in the form of the params of `notifications/mgp.event`, but without `subscription_id`.
    pub event: Payload,
}

impl EventHub {
    /// Opens a durable subscription for this process, with the authority of an operator. The store identifies the
    /// subscription by `id`. If the channels or the minimum severity differ from the stored subscription, a new
    /// subscription replaces it: the stored events are lost, and the sequence numbers continue.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if a channel is not valid or the hub has no store, 3001 (resource exhausted) if
    /// the id is in use or a limit of the hub is reached; otherwise the store's error.
    ///
    /// # Cancel safety
    /// If the future is dropped, a replaced subscription may have ended, and the new one may have been stored.
    pub async fn reader<S: AsRef<str>>(
        &self,
        id: &str,
        channels: &[S],
        min: Option<&Severity>,
    ) -> Result<EventReader, RpcError> {
        let principal = Principal::local().operator();
        let patterns = Pattern::parse_all(channels)?;
        let filter = Filter::of_rank(min.map_or(0, Severity::rank));
        let mut last = 0;
        if let Ok(known) = self.0.find(&principal, id) {
            if Pattern::is_same(&known.patterns, &patterns) && known.filter == filter {
                self.record_use(&known);
                return Ok(EventReader::new(self, known));
            }
            self.unsubscribe(&principal, id.to_owned()).await;
            // Read the number of the last event only now. It can no longer change, because `unsubscribe` has ended the
            // subscription.
            last = known.last_seq();
        }
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Handle), principal);
        let queue = Queue::durable(last, &[]);
        let new = Arc::new(Subscription::new(id.to_owned(), &cx, patterns, filter, queue));
        self.add(&new, usize::MAX).await?;
        Ok(EventReader::new(self, new))
    }

    /// Ends those durable subscriptions of the local operator for whose ids `is_ended` returns `true`, e.g. those that
    /// [`reader`](Self::reader) opened in an earlier process. Their stored events are removed.
    ///
    /// # Cancel safety
    /// If the future is dropped, only some of the subscriptions might have ended.
    pub async fn end_readers(&self, is_ended: impl Fn(&str) -> bool) {
        let principal = Principal::local().operator();
        let mut ended: Vec<_> = {
            let table = self.0.table.read();
            let readers = table.all().filter(|one| one.principal == principal && one.is_durable());
            readers.map(|one| one.id.clone()).collect()
        };
        // The table is unlocked here, because the function may call the hub.
        ended.retain(|id| is_ended(id));
        for id in ended {
            self.unsubscribe(&principal, id).await;
        }
    }
}

impl EventReader {
    fn new(hub: &EventHub, subscription: Arc<Subscription>) -> Self {
        let in_use = Arc::clone(&subscription.readers);
        Self { hub: hub.clone(), subscription, _in_use: in_use }
    }

    /// Waits for events after the reader's position (the last acknowledged event), and returns up to `max` of them.
    ///
    /// # Errors
    /// Returns the store's error if the store fails.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn read(&self, max: usize) -> Result<Vec<ReadEvent>, RpcError> {
        self.read_after(0, max).await
    }

    /// Waits for events that come after both the reader's position and `seq`, and returns up to `max` of them. With
    /// this method, a reader can read further events before it acknowledges the previous ones.
    ///
    /// # Errors
    /// Returns the store's error if the store fails.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn read_after(&self, seq: u64, max: usize) -> Result<Vec<ReadEvent>, RpcError> {
        let (mut last, mut dropped) = (seq, 0);
        loop {
            let after = self.subscription.wait_readable(last).await;
            let page = self.subscription.read(&self.hub.0, after, max).await?;
            dropped += page.dropped;
            last = page.until;
            if page.events.is_empty() {
                continue;
            }
            if dropped > 0 {
                tracing::warn!(
                    subscription = self.subscription.id,
                    dropped,
                    "dropped events of a subscription: they waited too long, or were too many"
                );
            }
            let read = page.events.iter().map(|(seq, event)| {
                let json = event.to_json(None, *seq, std::mem::take(&mut dropped));
                ReadEvent { seq: *seq, event: Payload::from_trusted(json) }
            });
            return Ok(read.collect());
        }
    }

    /// Moves the reader's position past an event, which is then not read again, even after a restart. Does nothing if
    /// the subscription has ended.
    ///
    /// # Errors
    /// Returns the error of the store if it fails; the event might be read again after a restart in that case.
    ///
    /// # Cancel safety
    /// If the future is dropped, the event might be read again after a restart.
    pub async fn acknowledge(&self, seq: u64) -> Result<(), RpcError> {
        let Some(journal) = self.hub.0.journal.get() else { return Ok(()) };
        match self.subscription.put_cursor(seq, |moved| journal.store.put(moved)) {
            Some(storing) => Ok(storing.await?),
            None => Ok(()),
        }
    }

    /// Ends the reader's subscription, and removes its stored events.
    ///
    /// # Cancel safety
    /// Once the future was polled, the subscription ends even if the future is dropped.
    pub async fn end(self) {
        let Subscription { principal, id, .. } = &*self.subscription;
        self.hub.unsubscribe(principal, id.clone()).await;
    }

    /// Returns the number of stored events after the reader's position.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.subscription.waiting()
    }
}
