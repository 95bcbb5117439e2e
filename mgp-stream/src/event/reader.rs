//! A durable subscription of this process itself, e.g. for a webhook.

use std::sync::Arc;

use mgp_types::mgp::Severity;
use mgp_types::service::{Context, Peer, Principal, Scope, ScopeKind};
use mgp_types::{Payload, RpcError};

use super::EventHub;
use super::pattern::Pattern;
use super::subscription::Subscription;

/// Reads stored events of a durable subscription, and keeps its position in the store.
#[derive(Clone)]
pub struct EventReader {
    hub: EventHub,
    subscription: Arc<Subscription>,
}

mgp_types::opaque_debug!(EventReader);

/// An event that an [`EventReader`] returned.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ReadEvent {
    /// The number.
    pub seq: u64,
    /// The event, as in `notifications/mgp.event` without a subscription.
    pub event: Payload,
}

impl EventHub {
    /// Opens a durable subscription of this process, with the authority of an operator. Its `id` is its name in the
    /// store; other patterns than before start a new one.
    ///
    /// # Errors
    /// −32602 if a channel is not valid or the hub keeps no events; else the error of the store.
    ///
    /// # Cancel safety
    /// If the future is dropped, the subscription may be stored.
    pub async fn reader<S: AsRef<str>>(
        &self,
        id: &str,
        channels: &[S],
        min: Option<&Severity>,
    ) -> Result<EventReader, RpcError> {
        let principal = Principal::local().operator();
        let (patterns, rank) = (Pattern::parse_all(channels)?, min.map_or(0, Severity::rank));
        if let Ok(known) = self.0.find(&principal, id) {
            if known.patterns() == patterns && known.rank() == rank {
                return Ok(EventReader { hub: self.clone(), subscription: known });
            }
            self.unsubscribe(&principal, id.to_owned()).await;
        }
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Handle), principal);
        let new = Arc::new(Subscription::new(id.to_owned(), &cx, patterns, rank, true));
        self.store(&cx, &new).await?;
        self.0.insert(&new)?;
        Ok(EventReader { hub: self.clone(), subscription: new })
    }
}

impl EventReader {
    /// Waits for events after the position, and returns up to `max` of them.
    ///
    /// # Errors
    /// The error of the store.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub async fn read(&self, max: usize) -> Result<Vec<ReadEvent>, RpcError> {
        self.read_after(0, max).await
    }

    /// Waits for events after the position and after `seq`, and returns up to `max` of them: a reader that
    /// acknowledges several at once reads on with this.
    ///
    /// # Errors
    /// The error of the store.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub async fn read_after(&self, seq: u64, max: usize) -> Result<Vec<ReadEvent>, RpcError> {
        let mut last = seq;
        loop {
            let changed = self.subscription.changed.notified();
            let (cursor, stored) = self.subscription.positions();
            let after = last.max(cursor);
            if after < stored {
                let id = self.subscription.id();
                let events = self.hub.0.read_stored(id, after, stored, max).await?;
                let read = events.iter().map(|(seq, event)| ReadEvent {
                    seq: *seq,
                    event: Payload::from_trusted(event.to_json(None, *seq, 0)),
                });
                let read: Vec<_> = read.collect();
                if !read.is_empty() {
                    return Ok(read);
                }
                if after == cursor {
                    self.subscription.set_cursor(stored);
                }
                last = stored;
            }
            changed.await;
        }
    }

    /// Moves the position behind an event; it is not read again, also after a restart.
    ///
    /// # Errors
    /// The error of the store; then it may be read again after a restart.
    ///
    /// # Cancel safety
    /// If the future is dropped, the event may be read again after a restart.
    pub async fn acknowledge(&self, seq: u64) -> Result<(), RpcError> {
        self.subscription.set_cursor(seq);
        let Some(journal) = self.hub.0.journal.get() else { return Ok(()) };
        Ok(journal.store.put(self.subscription.to_stored()).await?)
    }

    /// Removes the reader with its events.
    ///
    /// # Cancel safety
    /// If the future is dropped, the events may be kept until they expire.
    pub async fn end(self) {
        let (principal, id) = (self.subscription.principal(), self.subscription.id());
        self.hub.unsubscribe(principal, id.to_owned()).await;
    }

    /// Returns the number of events after the position.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        let (cursor, stored) = self.subscription.positions();
        stored - cursor
    }
}
