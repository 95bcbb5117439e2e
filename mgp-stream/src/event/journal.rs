//! Durable subscriptions: each event is stored before it is sent, and its publisher can wait until it is stored.

use std::sync::{Arc, Weak};
use std::time::Duration;

use mgp_types::service::BoxFuture;
use mgp_types::store::StoreError;
use mgp_types::sync::Mutex;
use mgp_types::{Backoff, ErrorCode, RpcError};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::draft::PublishedEvent;
use super::hub::Hub;
use super::sending::spawn;
use super::subscription::Subscription;

/// The maximum number of events that wait to be stored. When it is reached, publishing an event for a durable
/// subscription fails.
const MAX_PENDING: usize = 65_536;

/// The maximum number of events that the journal stores in one batch.
const MAX_BATCH: usize = 4_096;

/// The maximum time that a publisher waits until its event is stored.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// The delay before the journal first retries to store events.
const RETRY_DELAY: Duration = Duration::from_millis(50);
/// The maximum delay between two attempts to store events.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

/// A store for durable subscriptions and their events.
// The methods are not `async`: an operation is queued when its method is called, so that operations stay in order.
pub trait EventStore: Send + Sync {
    /// Returns all subscriptions, after removing those that were not used for a month, and the events that are older
    /// than a week. A hub calls this at its start and once a day.
    ///
    /// # Errors
    /// Returns the store's error if the store fails.
    fn load(&self) -> BoxFuture<'static, Result<Vec<StoredSubscription>, StoreError>>;

    /// Stores a subscription. If one with the same id is stored already, changes only its cursor and the time of its
    /// last use.
    ///
    /// # Errors
    /// Returns the store's error if the store fails.
    fn put(&self, subscription: StoredSubscription) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Removes a subscription with its events.
    ///
    /// # Errors
    /// Returns the store's error if the store fails.
    fn remove(&self, id: &str) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Stores events, and the number after the last event of each subscription as its `next_seq`: either all of this or
    /// nothing.
    ///
    /// # Errors
    /// Returns the store's error if the store fails.
    fn append(&self, events: Vec<StoredEvent>) -> BoxFuture<'static, Result<(), StoreError>>;

    /// Returns up to `max` stored events of a subscription, each as its sequence number and its JSON. The sequence
    /// numbers are above `after` and at most `until`.
    ///
    /// # Errors
    /// Returns the store's error if the store fails.
    fn read(
        &self,
        id: &str,
        after: u64,
        until: u64,
        max: usize,
    ) -> BoxFuture<'static, Result<Vec<(u64, String)>, StoreError>>;
}

/// A durable subscription in an [`EventStore`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StoredSubscription {
    /// The id of the subscription.
    pub id: String,
    /// The owner, the patterns and the filter, as JSON.
    pub terms: String,
    /// The sequence number of the next event of the subscription.
    pub next_seq: u64,
    /// The sizes of the stored events, oldest first, as [`load`](EventStore::load) returns them. Their sequence numbers
    /// are consecutive. The list is empty in the argument of [`put`](EventStore::put).
    pub sizes: Vec<u32>,
    /// The sequence number of the last event that an [`EventReader`](crate::EventReader) has acknowledged, or whose
    /// sending to a client had begun.
    pub cursor: u64,
}

/// An event that is stored for one subscription in an [`EventStore`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StoredEvent {
    /// The id of the subscription to which the event belongs.
    pub subscription: String,
    /// The sequence number of the event within the subscription.
    pub seq: u64,
    /// The event in a JSON form that only this crate reads.
    pub event: String,
    /// The sequence number of the oldest event that the subscription still keeps. The store removes older events of the
    /// subscription.
    pub oldest: u64,
}

/// The queue of events that are to be written to the store.
pub(super) struct Journal {
    pub(super) store: Arc<dyn EventStore>,
    pending: Mutex<Pending>,
    /// The number of the last row that is stored. A row is one event for one subscription; rows are numbered in the
    /// order in which they were queued.
    stored: watch::Sender<u64>,
    runtime: Handle,
}

#[derive(Default)]
struct Pending {
    rows: Vec<Row>,
    /// The number of the row that was queued last.
    newest: u64,
    is_writing: bool,
}

struct Row {
    subscription: Arc<Subscription>,
    seq: u64,
    event: Arc<PublishedEvent>,
    oldest: u64,
}

impl Journal {
    pub(super) fn new(store: Arc<dyn EventStore>) -> Self {
        let (pending, stored) = (Mutex::default(), watch::Sender::new(0));
        Self { store, pending, stored, runtime: Handle::current() }
    }

    /// Adds an event to the queue for a durable subscription, if the subscription's owner may see the event.
    pub(super) fn append(
        self: &Arc<Self>,
        hub: &Arc<Hub>,
        subscription: &Arc<Subscription>,
        event: &Arc<PublishedEvent>,
    ) -> Result<(), RpcError> {
        let mut pending = self.pending.lock();
        if pending.rows.len() >= MAX_PENDING {
            let message = "too many events wait to be stored; publish more slowly";
            return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message));
        }
        // Assign the sequence number while the lock of the queue is held, so that events are stored in the order of
        // their numbers.
        let Some((seq, oldest)) = subscription.assign_seq(hub, event) else { return Ok(()) };
        let (subscription, event) = (Arc::clone(subscription), Arc::clone(event));
        pending.rows.push(Row { subscription, seq, event, oldest });
        pending.newest += 1;
        if !pending.is_writing {
            pending.is_writing = true;
            spawn(&self.runtime, Arc::clone(self).write_all(Arc::downgrade(hub)));
        }
        Ok(())
    }

    /// Returns the number of the newest row if it is not stored yet, or `None` if all rows are stored.
    pub(super) fn unstored(&self) -> Option<u64> {
        let pending = self.pending.lock();
        (*self.stored.borrow() < pending.newest).then_some(pending.newest)
    }

    /// Waits until the row with a number is stored; fails after [`STORE_TIMEOUT`].
    pub(super) async fn wait_stored(&self, row: u64) -> Result<(), RpcError> {
        let mut stored = self.stored.subscribe();
        let waiting = stored.wait_for(|stored| *stored >= row);
        match tokio::time::timeout(STORE_TIMEOUT, waiting).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(StoreError::Timeout(STORE_TIMEOUT).into()),
        }
    }

    async fn write_all(self: Arc<Self>, hub: Weak<Hub>) {
        while let Some((rows, last)) = self.take() {
            if !self.write(&rows).await {
                return;
            }
            // Pass the events on before the rows are reported as stored, so that the answer to a call does not arrive
            // before the events of the call.
            if let Some(hub) = hub.upgrade() {
                for row in &rows {
                    row.subscription.record_stored(&hub, row.seq);
                }
            }
            self.stored.send_replace(last);
        }
    }

    fn take(&self) -> Option<(Vec<Row>, u64)> {
        let mut pending = self.pending.lock();
        if pending.rows.is_empty() {
            pending.is_writing = false;
            return None;
        }
        let count = pending.rows.len().min(MAX_BATCH);
        let rows: Vec<_> = pending.rows.drain(..count).collect();
        let last = pending.newest - pending.rows.len() as u64;
        Some((rows, last))
    }

    /// Stores rows, and retries until that succeeds. Returns `false` if the store was closed, so that no rows can be
    /// stored any more.
    async fn write(&self, rows: &[Row]) -> bool {
        let mut backoff = Backoff::new(RETRY_DELAY, MAX_RETRY_DELAY);
        loop {
            let events = rows.iter().map(|row| StoredEvent {
                subscription: row.subscription.id.clone(),
                seq: row.seq,
                event: row.event.to_stored(),
                oldest: row.oldest,
            });
            match self.store.append(events.collect()).await {
                Ok(()) => return true,
                Err(StoreError::Closed) => {
                    tracing::debug!("store closed; events of durable subscriptions are not stored");
                    return false;
                }
                Err(error) => {
                    tracing::warn!(%error, "retry: events of durable subscriptions are not stored yet");
                    tokio::time::sleep(backoff.next_delay()).await;
                }
            }
        }
    }
}
