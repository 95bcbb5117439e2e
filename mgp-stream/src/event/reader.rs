//! Reads the events of a durable subscription within this process, e.g. to deliver them to a webhook.

use std::sync::Arc;

use mgp_types::mgp::Severity;
use mgp_types::service::{Context, Peer, Principal, Scope, ScopeKind};
use mgp_types::{Payload, RpcError};

use super::EventHub;
use super::filter::Filter;
use super::pattern::Pattern;
use super::subscription::Subscription;

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
    /// Returns −32602 (invalid params) if a channel is not valid or the hub has no store; otherwise the store's error.
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscription may have been stored.
    pub async fn reader<S: AsRef<str>>(
        &self,
        id: &str,
        channels: &[S],
        min: Option<&Severity>,
    ) -> Result<EventReader, RpcError> {
        let principal = Principal::local().operator();
        let patterns = Pattern::parse_all(channels)?;
        let filter = Filter::of_rank(min.map_or(0, Severity::rank));
        let mut last = None;
        if let Ok(known) = self.0.find(&principal, id) {
            if known.patterns() == patterns && *known.filter() == filter {
                self.record_use(&known);
                return Ok(EventReader::new(self, known));
            }
            self.unsubscribe(&principal, id.to_owned()).await;
            // Read the number of the last event only now. It can no longer change, because `unsubscribe` has ended the
            // subscription.
            last = Some(known.last_seq());
        }
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Handle), principal);
        let new = Subscription::new(id.to_owned(), &cx, patterns, filter, true);
        let new = Arc::new(new.numbered_after(last));
        self.store(&new).await?;
        self.0.insert(&new)?;
        Ok(EventReader::new(self, new))
    }

    /// Ends the subscriptions that [`reader`](Self::reader) opened in this process or an earlier process, if `is_ended`
    /// returns `true` for their id. Their stored events are removed.
    ///
    /// # Cancel safety
    /// If the future is dropped, only some of the subscriptions might have ended.
    pub async fn end_readers(&self, is_ended: impl Fn(&str) -> bool) {
        let principal = Principal::local().operator();
        let ended: Vec<_> = {
            let table = self.0.table.read();
            let readers = table.all().filter(|one| one.is_durable && *one.principal() == principal);
            readers.map(|one| one.id().to_owned()).filter(|id| is_ended(id)).collect()
        };
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
        let mut last = seq;
        loop {
            let changed = self.subscription.changed.notified();
            let (_, cursor, stored) = self.subscription.positions();
            let after = last.max(cursor);
            if after < stored {
                let id = self.subscription.id();
                let events = self.hub.0.read_stored(id, after, stored, max).await?;
                if let Some((first, _)) = events.first() {
                    let mut dropped = first - seq.max(cursor) - 1;
                    if dropped > 0 {
                        tracing::warn!(
                            subscription = id,
                            dropped,
                            "dropped events of a subscription: they waited too long, or were too many"
                        );
                    }
                    let read = events.iter().map(|(seq, event)| {
                        let json = event.to_json(None, *seq, std::mem::take(&mut dropped));
                        ReadEvent { seq: *seq, event: Payload::from_trusted(json) }
                    });
                    return Ok(read.collect());
                }
                last = stored;
            }
            changed.await;
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
    /// If the future is dropped, the events might remain stored until they expire.
    pub async fn end(self) {
        let (principal, id) = (self.subscription.principal(), self.subscription.id());
        self.hub.unsubscribe(principal, id.to_owned()).await;
    }

    /// Returns the number of stored events after the reader's position.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        let (first, cursor, stored) = self.subscription.positions();
        (stored + 1).saturating_sub(first.max(cursor + 1))
    }
}
