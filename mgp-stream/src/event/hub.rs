//! The hub, which accepts published events and passes them to the subscriptions that match.

use std::cell::LazyCell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mgp_types::mgp::{KernelEventsParams, KernelEventsResult, Severity};
use mgp_types::service::{Context, Principal, Scope, ServerId};
use mgp_types::store::StoreError;
use mgp_types::sync::RwLock;
use mgp_types::{ErrorCode, Payload, RpcError};
use serde::Serialize;
use tokio::time::Instant;

use super::draft::{EventDraft, EventSubject, PublishedEvent};
use super::filter::Members;
use super::journal::{EventStore, Journal};
use super::pattern::Pattern;
use super::recent::RecentEvents;
use super::sending::SendingList;
use super::subscription::Subscription;
use super::table::Table;

/// The prefix of the ids of subscriptions that callers requested. Subscriptions of readers in this process have other
/// ids.
pub(super) const ID_PREFIX: &str = "sub-";

/// The maximum time for which a publisher waits for slow subscribers, so that their queues do not overflow.
const ROOM_TIMEOUT: Duration = Duration::from_millis(250);

/// Hub that accepts published events and passes them to the subscriptions that match (MGP §13); clones share one hub.
///
/// A channel exists from its declaration or its first event on. Each subscription that is not durable keeps its last
/// 1,024 events, up to 8 MiB; these events are also the queue of the events to send to the subscriber.
///
/// ```
/// use mgp_stream::{EventDraft, EventHub};
/// use mgp_types::service::{Stack, mock};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let hub = EventHub::new();
/// hub.declare("model.loaded", "A model was loaded");
/// let mut client = mock::client(Stack::new(hub.router()));
/// let answer = client.request("mgp/events/subscribe", r#"{"channels":["model.*"]}"#).await.unwrap();
/// assert!(answer.as_str().contains(r#""subscribed":["model.loaded"]"#));
/// hub.publish(EventDraft::new("model.loaded")).unwrap().acknowledged().await.unwrap();
/// # });
/// ```
#[derive(Clone)]
pub struct EventHub(pub(super) Arc<Hub>);

/// The limits of an [`EventHub`]. A subscription that would exceed them is refused with code 3001 (resource exhausted).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EventLimits {
    /// The maximum number of subscriptions of one connection or session. Default: 64.
    pub per_scope: usize,
    /// The maximum number of subscriptions of one principal, over all its connections. Default: 1,024.
    pub per_principal: usize,
    /// The maximum number of subscriptions in the hub. Default: 65,536.
    pub total: usize,
}

impl Default for EventLimits {
    fn default() -> Self {
        Self { per_scope: 64, per_principal: 1_024, total: 65_536 }
    }
}

type Sees = dyn Fn(&Context, &EventSubject) -> bool + Send + Sync;

pub(super) struct Hub {
    pub(super) limits: EventLimits,
    sees: Box<Sees>,
    recent: Option<RecentEvents>,
    /// The queue of events that are to be stored for durable subscriptions; not set if the hub has no store.
    pub(super) journal: OnceLock<Arc<Journal>>,
    pub(super) table: RwLock<Table>,
    pub(super) sending: SendingList<Subscription>,
}

/// An event that was published.
pub struct Published {
    /// The journal with the newest row that is not stored yet; `None` if all rows are stored.
    storing: Option<(Arc<Journal>, u64)>,
    /// The subscriptions that have so many unsent events that the publisher should wait.
    behind: Vec<Arc<Subscription>>,
}

impl Published {
    /// Waits until the event is stored for all durable subscriptions that match it. Also waits, for at most a quarter
    /// of a second, until slow subscribers have room for more events. A fast publisher that does not wait can overrun
    /// its subscribers.
    ///
    /// # Errors
    /// Returns 3003 (timeout) if storing takes too long.
    ///
    /// # Cancel safety
    /// Dropping the future only ends the wait.
    pub async fn acknowledged(self) -> Result<(), RpcError> {
        if let Some((journal, row)) = self.storing {
            journal.wait_stored(row).await?;
        }
        let deadline = Instant::now() + ROOM_TIMEOUT;
        for subscription in self.behind {
            subscription.wait_for_room(deadline).await;
        }
        Ok(())
    }
}

mgp_types::opaque_debug!(Published);
mgp_types::opaque_debug!(EventHub);

impl Default for EventHub {
    fn default() -> Self {
        Self::new()
    }
}

impl EventHub {
    /// Creates a hub in which every subscriber may see all events, except those that belong to another principal.
    #[must_use]
    pub fn new() -> Self {
        let sees = |cx: &Context, subject: &EventSubject| {
            subject.owner.as_ref().is_none_or(|owner| *owner == cx.principal)
        };
        Self::with_limits(EventLimits::default(), sees)
    }

    /// Creates a hub with limits, and with a function `sees` that decides whether a subscriber may see an event or a
    /// channel.
    ///
    /// The function is called when an event is published and again when the event is sent. The function must not block,
    /// and must not call the hub.
    #[must_use]
    pub fn with_limits(
        limits: EventLimits,
        sees: impl Fn(&Context, &EventSubject) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::build(limits, Box::new(sees), None)
    }

    /// Creates a hub like [`with_limits`](Self::with_limits) that also stores its last events, so that operators can
    /// look at them later.
    #[must_use]
    pub fn with_recent(
        limits: EventLimits,
        sees: impl Fn(&Context, &EventSubject) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::build(limits, Box::new(sees), Some(RecentEvents::default()))
    }

    fn build(limits: EventLimits, sees: Box<Sees>, recent: Option<RecentEvents>) -> Self {
        Self(Arc::new(Hub {
            limits,
            sees,
            recent,
            journal: OnceLock::new(),
            table: RwLock::default(),
            sending: SendingList::default(),
        }))
    }

    /// Returns the last events, without checking the caller's access. Returns no events unless the hub was created with
    /// [`with_recent`](Self::with_recent).
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the channel or the time is not valid.
    pub fn recent(&self, params: &KernelEventsParams) -> Result<KernelEventsResult, RpcError> {
        self.0
            .recent
            .as_ref()
            .map_or_else(|| Ok(KernelEventsResult::new(0_u64)), |all| all.query(params))
    }

    // === Publishing ===

    /// Declares a channel for events that this server itself publishes.
    pub fn declare(&self, channel: impl Into<String>, description: impl Into<String>) {
        self.0.table.write().add_channel(None, channel.into(), Some(description.into()));
    }

    /// Replaces the known channels of another server, whose events this hub forwards to its own subscribers.
    pub fn set_channels<S: Into<String>>(
        &self,
        server: &ServerId,
        channels: impl IntoIterator<Item = S>,
    ) {
        let mut table = self.0.table.write();
        table.forget_channels(server);
        for name in channels {
            table.add_channel(Some(server), name.into(), None);
        }
    }

    /// Publishes an event: puts it into the queues of the subscriptions that match it.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the channel's name is not valid or is reserved, if the data is too large, or
    /// if the event's depth in a chain of events exceeds 10. Returns 3001 (resource exhausted) if too many events wait
    /// to be stored for durable subscriptions; other subscriptions get the event nevertheless.
    pub fn publish(&self, draft: EventDraft) -> Result<Published, RpcError> {
        draft.check()?;
        let hub = &self.0;
        let rank = draft.effective_severity().rank();
        let event = Arc::new(PublishedEvent::new(draft, rank));
        let EventDraft { channel, subject, .. } = &event.draft;
        let (mut behind, mut refusal) = (Vec::new(), None);
        if let Some(recent) = &hub.recent {
            recent.push(&event);
        }
        let server = subject.server.as_ref().filter(|_| subject.is_forwarded);
        let data = LazyCell::new(|| event.draft.data.get::<Members>().ok());
        let is_known = {
            let table = hub.table.read();
            table.each_match(channel, rank, |subscription| {
                if !subscription.filter.accepts(&data) {
                    return;
                }
                if let Some(journal) = hub.journal.get().filter(|_| subscription.is_durable()) {
                    if let Err(error) = journal.append(hub, subscription, &event) {
                        refusal = Some(error);
                    }
                } else if subscription.push(hub, &event) {
                    behind.push(Arc::clone(subscription));
                }
            });
            table.has_channel(server, channel)
        };
        if !is_known {
            hub.table.write().add_channel(server, channel.clone().into_owned(), None);
        }
        match refusal {
            Some(error) => Err(error),
            None => Ok(Published { storing: self.storing(), behind }),
        }
    }

    /// Waits until all events published so far are stored for durable subscriptions.
    ///
    /// # Errors
    /// Returns 3003 (timeout) if storing takes too long.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn flush(&self) -> Result<(), RpcError> {
        match self.storing() {
            Some((journal, row)) => journal.wait_stored(row).await,
            None => Ok(()),
        }
    }

    /// Waits until the events published so far are sent to the subscriptions of a connection or session. Await this
    /// before the answer to a call is sent, so that the answer does not arrive before the events of the call. Stops
    /// waiting for the store after 10 s, and for the subscriptions if one of them is sent no event for a quarter of a
    /// second.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn settle(&self, scope: &Scope) {
        if let Err(error) = self.flush().await {
            tracing::warn!(%error, "events of durable subscriptions are not stored");
        }
        for subscription in self.0.sending.all() {
            if !subscription.wait_sent(scope.id(), ROOM_TIMEOUT).await {
                break;
            }
        }
    }

    /// Returns whether any events are being sent or wait to be stored.
    #[must_use]
    pub fn is_sending(&self) -> bool {
        !self.0.sending.is_empty() || self.storing().is_some()
    }

    /// Returns the journal with its newest row, if that row is not stored yet.
    fn storing(&self) -> Option<(Arc<Journal>, u64)> {
        let journal = self.0.journal.get()?;
        Some((Arc::clone(journal), journal.unstored()?))
    }

    /// Restores the durable subscriptions from a store, and stores later subscriptions there. From then on, the hub
    /// removes once a day the subscriptions that were not used for a month, and the events that are older than a week.
    /// Only the first call has an effect.
    ///
    /// # Errors
    /// Returns the store's error if the store fails.
    ///
    /// # Cancel safety
    /// If the future is dropped, there are no durable subscriptions.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub async fn keep_in(&self, store: Arc<dyn EventStore>) -> Result<(), StoreError> {
        let stored = store.load().await?;
        if self.0.journal.set(Arc::new(Journal::new(store))).is_err() {
            return Ok(());
        }
        super::cleaning::start(&self.0);
        let mut table = self.0.table.write();
        for one in stored {
            let restored = Subscription::from_stored(&one);
            let inserted =
                restored.and_then(|restored| table.insert(&self.0.limits, &Arc::new(restored)));
            if let Err(error) = inserted {
                tracing::warn!(subscription = one.id, %error, "durable subscription dropped");
            }
        }
        Ok(())
    }

    /// Restores the durable subscriptions from a database and saves later subscriptions there, like
    /// [`keep_in`](Self::keep_in) with a store. Other parts of the program may use the same database.
    ///
    /// # Errors
    /// Returns the store's error if the store fails.
    ///
    /// # Cancel safety
    /// If the future is dropped, there are no durable subscriptions.
    #[cfg(feature = "sqlite")]
    pub async fn keep_in_db(&self, db: mgp_types::store::Db) -> Result<(), StoreError> {
        self.keep_in(Arc::new(super::sqlite::SqliteEvents::open(db).await?)).await
    }

    /// Checks that the durable subscriptions of a database can be read, without changing it.
    ///
    /// # Errors
    /// Returns the store's error. [`keep_in_db`](Self::keep_in_db) would fail with the same error.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    #[cfg(feature = "sqlite")]
    pub async fn check_db(db: &mgp_types::store::Db) -> Result<(), StoreError> {
        super::sqlite::read_all(db).await.map(drop)
    }

    /// Publishes an event with a severity and data, and waits until it is [acknowledged](Published::acknowledged).
    ///
    /// # Errors
    /// See [`publish`](Self::publish) and [`Published::acknowledged`]; −32603 if the data cannot be written as JSON.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the event is published nevertheless.
    pub async fn emit<T: Serialize + ?Sized>(
        &self,
        channel: &str,
        severity: Severity,
        data: &T,
    ) -> Result<(), RpcError> {
        let data = Payload::of(data)?;
        let draft = EventDraft::new(channel.to_owned()).severity(severity).payload(data);
        self.publish(draft)?.acknowledged().await
    }

    /// Returns whether any subscription receives events of `server`, a server behind this one. Such a subscription
    /// matches one of the server's known channels, and its subscriber may see the events. If `owner` is set, the events
    /// are those of this principal's own instance of the server, and only this principal's subscriptions count.
    #[must_use]
    pub fn has_subscriber(&self, server: &ServerId, owner: Option<&Principal>) -> bool {
        let subject = EventSubject {
            server: Some(server.clone()),
            owner: owner.cloned(),
            is_forwarded: true,
            ..EventSubject::default()
        };
        let now = Instant::now();
        let receives = |one: &Arc<Subscription>| {
            owner.is_none_or(|owner| one.principal == *owner)
                && !one.is_expired(now)
                && one.may_see(&self.0, &subject)
        };
        let table = self.0.table.read();
        let own = table.channels().filter(|(of, _)| *of == Some(server));
        let mut is_received = false;
        for channel in own.flat_map(|(_, names)| names.keys()) {
            table.each_match(channel, Severity::Error.rank(), |one| {
                is_received = is_received || receives(one);
            });
        }
        is_received
    }

    /// Returns the number of subscriptions.
    #[must_use]
    pub fn subscriptions(&self) -> usize {
        self.0.table.read().len()
    }
}

impl Hub {
    pub(super) fn sees(&self, cx: &Context, subject: &EventSubject) -> bool {
        (self.sees)(cx, subject)
    }

    /// Returns whether a caller may see the channels of a server behind this one. `None` as the server means this
    /// server itself, whose channels are public.
    pub(super) fn sees_channel(&self, cx: &Context, server: Option<&ServerId>) -> bool {
        server.is_none_or(|server| {
            let subject = EventSubject {
                server: Some(server.clone()),
                is_forwarded: true,
                ..EventSubject::default()
            };
            self.sees(cx, &subject)
        })
    }

    /// Reads up to `max` events of a durable subscription from the store, with sequence numbers above `after` and at
    /// most `until`.
    pub(super) async fn read_stored(
        &self,
        id: &str,
        after: u64,
        until: u64,
        max: usize,
    ) -> Result<Vec<(u64, Arc<PublishedEvent>)>, StoreError> {
        let journal = self.journal.get().ok_or(StoreError::NotLoaded)?;
        let rows = journal.store.read(id, after, until, max).await?;
        let read = |(seq, text): (u64, String)| Some((seq, PublishedEvent::from_stored(&text)?));
        Ok(rows.into_iter().filter_map(read).collect())
    }

    /// Returns the names of the visible channels that match a requested pattern. Also returns the patterns that match
    /// no known channel yet.
    pub(super) fn known_channels(
        &self,
        table: &Table,
        cx: &Context,
        requested: &[String],
    ) -> Result<(Vec<String>, Vec<String>), RpcError> {
        let visible: Vec<&str> = table
            .channels()
            .filter(|(server, _)| self.sees_channel(cx, *server))
            .flat_map(|(_, names)| names.keys().map(String::as_str))
            .collect();
        let (mut known, mut unknown) = (std::collections::BTreeSet::new(), Vec::new());
        for text in requested {
            let pattern = Pattern::parse(text)?;
            let mut matching = visible.iter().filter(|name| pattern.matches(name)).peekable();
            if matching.peek().is_none() && !unknown.contains(text) {
                unknown.push(text.clone());
            }
            known.extend(matching.map(|name| (*name).to_owned()));
        }
        Ok((known.into_iter().collect(), unknown))
    }

    /// Returns the subscription with an id, if it belongs to `principal`. A subscription of another principal is
    /// reported as unknown.
    pub(super) fn find(
        &self,
        principal: &Principal,
        id: &str,
    ) -> Result<Arc<Subscription>, RpcError> {
        let table = self.table.read();
        let is_own = |found: &&Arc<Subscription>| {
            found.principal == *principal && !found.is_expired(Instant::now())
        };
        let found = table.get(id).filter(is_own);
        found.cloned().ok_or_else(|| {
            let id = mgp_types::clip(id, 64);
            RpcError::new(
                ErrorCode::INVALID_PARAMS,
                format!("there is no subscription `{id}`; it may have ended, so subscribe again"),
            )
        })
    }

    /// Returns whether a caller can choose this id for a new subscription: the id has the form of the ids that the hub
    /// creates, and no subscription has it.
    pub(super) fn is_free(&self, id: &str) -> bool {
        let is_random = id.strip_prefix(ID_PREFIX).is_some_and(|random| {
            random.len() == 32 && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
        });
        is_random && self.table.read().get(id).is_none()
    }

    pub(super) fn remove(&self, id: &str) -> Option<Arc<Subscription>> {
        let removed = self.table.write().remove(id)?;
        removed.end();
        Some(removed)
    }

    /// Removes the subscription with an id if it belongs to `principal` and has expired, so that the principal can use
    /// its id again.
    pub(super) fn remove_if_expired(&self, principal: &Principal, id: &str) {
        let mut table = self.table.write();
        let is_expired =
            |one: &Arc<Subscription>| one.principal == *principal && one.is_expired(Instant::now());
        if table.get(id).is_some_and(is_expired)
            && let Some(expired) = table.remove(id)
        {
            expired.end();
        }
    }

    /// Removes the expired subscriptions of all principals. To save time, does so only if the table is full, if this
    /// principal has the maximum number of subscriptions, or if the size of the table is a multiple of 64.
    pub(super) fn remove_expired(&self, principal: &Principal) {
        let mut table = self.table.write();
        let is_full =
            table.len() >= self.limits.total || table.is_full_for(&self.limits, principal);
        // Searching the whole table is slow. While there is room, search it only at every 64th size.
        if !is_full && !table.len().is_multiple_of(64) {
            return;
        }
        let now = Instant::now();
        let expired: Vec<_> =
            table.all().filter(|one| one.is_expired(now)).map(|one| one.id.clone()).collect();
        for id in expired {
            if let Some(expired) = table.remove(&id) {
                expired.end();
            }
        }
    }
}
