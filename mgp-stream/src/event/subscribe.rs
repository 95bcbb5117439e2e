//! The requests that subscribers make to the hub: subscriptions and replays.

use std::sync::Arc;

use mgp_types::mgp::{
    EventChannel, EventsReplayParams, EventsReplayResult, SubscribeEventsParams,
    SubscribeEventsResult, UnsubscribeResult,
};
use mgp_types::service::{Context, Principal};
use mgp_types::store::StoreError;
use mgp_types::{ErrorCode, Payload, RpcError, random_name};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::EventHub;
use super::attach::has_stream;
use super::filter::Filter;
use super::hub::ID_PREFIX;
use super::pattern::Pattern;
use super::sending::spawn;
use super::subscription::Subscription;
use super::subscription::queue::Queue;
use super::table::Table;

/// The maximum number of durable subscriptions of one principal. Subscriptions of readers in this process do not count.
const MAX_DURABLE: usize = 16;

/// The maximum number of channels that one subscription request can name.
const MAX_REQUESTED: usize = 64;

/// The maximum sequence number after which a client can continue an unknown subscription; it replaces a higher number.
/// Numbers in JSON are exact only up to 2^53, so half of that leaves room for the numbers of later events.
const MAX_BASE: u64 = 1 << 52;

/// The maximum number of replayed events in an answer if the caller sets no limit.
const DEFAULT_REPLAY: u64 = 100;
/// The maximum number of replayed events in one answer.
const MAX_REPLAY: u64 = 1_000;

/// The recommended time between replays, in seconds, for callers to which no events can be sent. It is a tenth of the
/// time after which an unused subscription ends.
const POLL_SECONDS: u64 = 30;

/// The maximum size of the events in one answer to a replay, in bytes; the limit exists because the answer is one line
/// on the wire. If the answer lacks events because of this limit, `has_more` is set.
const MAX_REPLAY_BYTES: usize = 512 * 1024;

impl EventHub {
    /// Subscribes the caller of a request to channels, or continues an existing subscription of the same principal.
    pub(super) async fn subscribe(
        &self,
        cx: &Context,
        params: &SubscribeEventsParams,
    ) -> Result<SubscribeEventsResult, RpcError> {
        if let Some(id) = &params.subscription_id {
            self.0.remove_if_expired(&cx.principal, id);
            match self.0.find(&cx.principal, id) {
                Ok(known) => return self.resume(cx, &known, params),
                Err(unknown) if params.channels.is_empty() || !self.0.is_free(id) => {
                    return Err(unknown);
                }
                // The id has a valid form but is unknown, e.g. after a restart of the server. Start a new subscription
                // with the same id, whose numbers continue after `after_seq`.
                Err(_) => {}
            }
        }
        let is_durable = params.durable == Some(true);
        check_lifetime(is_durable, params)?;
        let filter = Filter::read(params.filter.as_ref())?;
        if params.channels.is_empty() || params.channels.len() > MAX_REQUESTED {
            return Err(RpcError::invalid_params(format!(
                "name 1 to {MAX_REQUESTED} channels; `mgp/events/channels` lists them"
            )));
        }
        let patterns = Pattern::parse_all(&params.channels)?;
        let id = match &params.subscription_id {
            Some(id) => id.clone(),
            None => format!("{ID_PREFIX}{}", random_name()?),
        };
        let base = params.after_seq.unwrap_or(0).min(MAX_BASE);
        let queue = if is_durable { Queue::durable(base, &[]) } else { Queue::memory(base) };
        let subscription = Arc::new(Subscription::new(id.clone(), cx, patterns, filter, queue));
        self.0.remove_expired(&cx.principal);
        self.add(&subscription, MAX_DURABLE).await?;
        let (subscribed, unsupported) =
            self.0.known_channels(&self.0.table.read(), cx, &params.channels)?;
        self.end_with(&cx.scope, &subscription);
        self.attach_session(cx, &subscription, None);
        let mut result = SubscribeEventsResult::new(subscribed, id);
        result.unsupported = unsupported;
        Ok(self.with_terms(result, cx, &subscription, params))
    }

    /// Starts the lifetime that the request names, and adds its end to the answer. If no events can be sent to the
    /// caller, also adds the recommended time between replays.
    fn with_terms(
        &self,
        mut result: SubscribeEventsResult,
        cx: &Context,
        subscription: &Arc<Subscription>,
        params: &SubscribeEventsParams,
    ) -> SubscribeEventsResult {
        if let Some(seconds) = params.ttl_seconds {
            self.end_after(subscription, seconds);
        }
        result.expires_at = subscription.ends_at();
        if !has_stream(cx) {
            (result.supported, result.poll_interval_seconds) = (Some(false), Some(POLL_SECONDS));
        }
        result
    }

    /// Adds a subscription, and stores it if it is durable. Its principal can have up to `max_durable` durable
    /// subscriptions that callers requested.
    ///
    /// The table and the store receive the subscription together, because the caller can drop this future, e.g. when
    /// its client disconnects. A subscription that only the store has would count in no limit, and would receive events
    /// after the next start.
    pub(super) async fn add(
        &self,
        new: &Arc<Subscription>,
        max_durable: usize,
    ) -> Result<(), RpcError> {
        let journal = match self.0.journal.get() {
            None if new.is_durable() => {
                return Err(RpcError::invalid_params(
                    "this server keeps no events of absent subscribers; omit `durable`",
                ));
            }
            journal => journal.filter(|_| new.is_durable()),
        };
        let storing = {
            let mut table = self.0.table.write();
            if journal.is_some() {
                check_durable(&table, &new.principal, max_durable)?;
            }
            table.insert(&self.0.limits, new)?;
            // Queue the write while the table is locked, so that the store receives the subscription before its events.
            journal.map(|journal| journal.store.put(new.to_stored()))
        };
        if let Some(storing) = storing
            && let Err(error) = storing.await
        {
            self.0.remove(&new.id);
            return Err(error.into());
        }
        Ok(())
    }

    /// Stores that a durable subscription is in use, because the store removes subscriptions that are not used. If
    /// storing fails, this is only logged, because the subscription itself is not affected.
    pub(super) fn record_use(&self, used: &Subscription) {
        let Some(journal) = self.0.journal.get() else { return };
        // If the subscription has ended, it was removed from the store, and must not be stored again.
        let Some(storing) = used.put_use(|used| journal.store.put(used)) else { return };
        let id = used.id.clone();
        spawn(&Handle::current(), async move {
            if let Err(error) = storing.await {
                tracing::warn!(subscription = id, %error, "use of a durable subscription not stored");
            }
        });
    }

    /// Continues a subscription on the connection of the caller, who is the principal that requested it.
    fn resume(
        &self,
        cx: &Context,
        subscription: &Arc<Subscription>,
        params: &SubscribeEventsParams,
    ) -> Result<SubscribeEventsResult, RpcError> {
        check_same(subscription, params)?;
        check_lifetime(subscription.is_durable(), params)?;
        self.bind_to_caller(cx, std::slice::from_ref(subscription))?;
        subscription.renew();
        let lost = self.attach_session(cx, subscription, params.after_seq);
        self.record_use(subscription);
        let patterns: Vec<_> = subscription.patterns.iter().map(Pattern::to_text).collect();
        let (subscribed, unsupported) =
            self.0.known_channels(&self.0.table.read(), cx, &patterns)?;
        let mut result = SubscribeEventsResult::new(subscribed, subscription.id.as_str());
        result.unsupported = unsupported;
        result.truncated = lost.then_some(true);
        Ok(self.with_terms(result, cx, subscription, params))
    }

    /// Ends a subscription of the caller. After the answer, no more events of the subscription are sent.
    pub(super) async fn unsubscribe(&self, principal: &Principal, id: String) -> UnsubscribeResult {
        let removed = match self.0.find(principal, &id) {
            Ok(_) => self.0.remove(&id),
            Err(_) => None,
        };
        if let Some(ended) = &removed {
            let stored = ended.is_durable().then(|| id.clone());
            // Ignore the error, which is logged: the subscription has ended nevertheless.
            let _ = self.remove_stored(stored.into_iter().collect()).await;
            ended.wait_idle().await;
        }
        UnsubscribeResult::new(id, removed.is_some())
    }

    /// Removes ended subscriptions from the store. First waits, for a limited time, until their last events are stored,
    /// because they would otherwise be stored after the removal. If this future is dropped after its first poll, the
    /// subscriptions are removed nevertheless.
    pub(super) async fn remove_stored(&self, ids: Vec<String>) -> Result<(), StoreError> {
        let Some(journal) = self.0.journal.get().filter(|_| !ids.is_empty()) else { return Ok(()) };
        let (hub, store) = (self.clone(), Arc::clone(&journal.store));
        let (done, finished) = oneshot::channel();
        spawn(&Handle::current(), async move {
            if let Err(error) = hub.flush().await {
                tracing::warn!(%error, "last events of an ended subscription not stored before its removal");
            }
            let mut removed = Ok(());
            for id in ids {
                if let Err(error) = store.remove(&id).await {
                    tracing::warn!(subscription = id, %error, "durable subscription not removed from the store");
                    removed = Err(error);
                }
            }
            // Ignore the error, which only means that the caller has dropped this future.
            let _ = done.send(removed);
        });
        // The task fails only when the runtime ends.
        finished.await.unwrap_or(Err(StoreError::Closed))
    }

    pub(super) async fn replay(
        &self,
        cx: &Context,
        params: EventsReplayParams,
    ) -> Result<EventsReplayResult, RpcError> {
        let subscription = self.0.find(&cx.principal, &params.subscription_id)?;
        let limit = params.limit.unwrap_or(DEFAULT_REPLAY).clamp(1, MAX_REPLAY);
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let after = params.after_seq.unwrap_or(0);
        self.record_use(&subscription);
        subscription.renew();
        let page = subscription.read(&self.0, after, limit + 1).await?;
        let mut has_more = page.events.len() > limit;
        let (mut events, mut bytes) = (Vec::new(), 0);
        for (seq, event) in page.events.into_iter().take(limit) {
            if bytes + event.members().len() > MAX_REPLAY_BYTES && !events.is_empty() {
                has_more = true;
                break;
            }
            bytes += event.members().len();
            if self.0.sees(cx, &event.draft.subject) {
                events.push(Payload::from_trusted(event.to_json(None, seq, 0)));
            }
        }
        let mut result = EventsReplayResult::new(params.subscription_id, events, has_more);
        result.truncated = (page.dropped > 0).then_some(true);
        Ok(result)
    }

    /// Returns the channels to which a caller is allowed to subscribe.
    pub(super) fn channels(&self, cx: &Context) -> Vec<EventChannel> {
        let table = self.0.table.read();
        let visible = table
            .channels()
            .filter(|(server, _)| self.0.sees_channel(cx, *server))
            .flat_map(|(server, names)| names.iter().map(move |named| (server, named)));
        let described = visible.map(|(server, (name, description))| {
            let mut channel = EventChannel::new(name.clone());
            channel.description.clone_from(description);
            channel.server_id = server.map(ToString::to_string);
            channel
        });
        described.collect()
    }
}

/// Returns an error if a request names a lifetime for a durable subscription, because such a subscription ends only if
/// it is not used for a long time.
fn check_lifetime(is_durable: bool, params: &SubscribeEventsParams) -> Result<(), RpcError> {
    if is_durable && params.ttl_seconds.is_some() {
        let message = "a durable subscription ends only if it is not used for 30 days; omit `ttl_seconds` or `durable`";
        return Err(RpcError::invalid_params(message));
    }
    Ok(())
}

/// Returns an error if a principal already has `max` durable subscriptions that callers requested.
fn check_durable(table: &Table, principal: &Principal, max: usize) -> Result<(), RpcError> {
    let is_own = |one: &&Arc<Subscription>| {
        one.principal == *principal && one.id.starts_with(ID_PREFIX) && one.is_durable()
    };
    let own: Vec<_> = table.all().filter(is_own).collect();
    if own.len() < max {
        return Ok(());
    }
    // Name those without a connection: a caller that lost the answers to its requests does not know the ids. Some of
    // them may be in use nevertheless, by callers that replay the events.
    let absent = own.iter().filter(|one| !one.is_in_use()).map(|one| one.id.as_str());
    let absent = absent.collect::<Vec<_>>().join(", ");
    let hint = if absent.is_empty() { "" } else { "; not connected now: " };
    let message = format!(
        "a caller may have {max} durable subscriptions; unsubscribe from another one first{hint}{absent}"
    );
    Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message))
}

/// Returns an error if a request to continue a subscription names other channels or another filter. Both cannot be
/// changed.
fn check_same(known: &Subscription, params: &SubscribeEventsParams) -> Result<(), RpcError> {
    let asked = Filter::read(params.filter.as_ref())?;
    let has_rank = params.filter.as_ref().is_some_and(|filter| filter.min_severity.is_some());
    let is_same = (params.channels.is_empty()
        || Pattern::is_same(&Pattern::parse_all(&params.channels)?, &known.patterns))
        && (!has_rank || asked.rank == known.filter.rank)
        && (asked.data.is_empty() || asked.data == known.filter.data);
    if is_same {
        return Ok(());
    }
    let message = "a subscription that is continued keeps its channels and its filter; leave `channels` empty and \
                   omit `filter`, or subscribe without `subscription_id`";
    Err(RpcError::invalid_params(message))
}
