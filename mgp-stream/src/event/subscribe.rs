//! The requests that subscribers make to the hub: subscriptions and replays.

use std::sync::Arc;

use mgp_types::mgp::{
    EventChannel, EventsReplayParams, EventsReplayResult, SubscribeEventsParams,
    SubscribeEventsResult, UnsubscribeResult,
};
use mgp_types::service::{Context, Principal};
use mgp_types::{ErrorCode, Payload, RpcError, random_name};
use tokio::runtime::Handle;

use super::EventHub;
use super::attach::has_stream;
use super::filter::Filter;
use super::hub::ID_PREFIX;
use super::journal::Journal;
use super::pattern::Pattern;
use super::sending::spawn;
use super::subscription::Subscription;

/// The maximum number of durable subscriptions of one principal. Subscriptions of readers in this process do not count.
const MAX_DURABLE: usize = 16;

/// The maximum number of channels that one subscription request can name.
const MAX_REQUESTED: usize = 64;

/// The number of replayed events in an answer if the caller sets no limit.
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
        let subscription = Subscription::new(id.clone(), cx, patterns, filter, is_durable);
        let subscription = Arc::new(subscription.numbered_after(params.after_seq));
        self.0.remove_expired(&cx.principal);
        if is_durable {
            self.check_durable(&cx.principal)?;
            self.store(&subscription).await?;
        }
        let (subscribed, unsupported) = {
            let mut table = self.0.table.write();
            table.insert(&self.0.limits, &subscription)?;
            self.0.known_channels(&table, cx, &params.channels)?
        };
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

    /// Returns an error if a principal already has the maximum number of durable subscriptions that callers requested.
    fn check_durable(&self, principal: &Principal) -> Result<(), RpcError> {
        let is_own = |one: &&Arc<Subscription>| {
            one.is_durable && one.principal() == principal && one.id().starts_with(ID_PREFIX)
        };
        if self.0.table.read().all().filter(is_own).count() < MAX_DURABLE {
            return Ok(());
        }
        let message = format!(
            "a caller may have {MAX_DURABLE} durable subscriptions; unsubscribe from another one first"
        );
        Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message))
    }

    /// Stores a new durable subscription in the event store, unless the table has no room for it.
    pub(super) async fn store(&self, new: &Subscription) -> Result<(), RpcError> {
        let journal = self.0.journal.get().ok_or_else(|| {
            RpcError::invalid_params(
                "this server keeps no events of absent subscribers; omit `durable`",
            )
        })?;
        self.0.table.read().check_room(&self.0.limits, new)?;
        Ok(journal.store.put(new.to_stored()).await?)
    }

    /// Stores that a durable subscription is in use, because the store removes subscriptions that are not used. If
    /// storing fails, this is only logged, because the subscription itself is not affected.
    pub(super) fn record_use(&self, used: &Subscription) {
        let Some(journal) = self.0.journal.get().filter(|_| used.is_durable) else { return };
        // If the subscription has ended, it was removed from the store, and must not be stored again.
        let Some(storing) = used.put_use(|used| journal.store.put(used)) else { return };
        let id = used.id().to_owned();
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
        check_lifetime(subscription.is_durable, params)?;
        self.bind_to_caller(cx, subscription)?;
        subscription.renew();
        let lost = self.attach_session(cx, subscription, params.after_seq);
        self.record_use(subscription);
        let patterns: Vec<_> = subscription.patterns().iter().map(Pattern::to_text).collect();
        let (subscribed, unsupported) =
            self.0.known_channels(&self.0.table.read(), cx, &patterns)?;
        let mut result = SubscribeEventsResult::new(subscribed, subscription.id());
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
        if let Some(subscription) = &removed {
            subscription.wait_idle().await;
            if let Some(journal) = self.0.journal.get().filter(|_| subscription.is_durable)
                && let Err(error) = self.remove_stored(journal, &id).await
            {
                tracing::warn!(%error, "durable subscription not removed from the store");
            }
        }
        UnsubscribeResult::new(id, removed.is_some())
    }

    /// Removes an ended subscription from the store. Waits for its last events to be stored before, because they would
    /// otherwise be stored after the removal.
    async fn remove_stored(&self, journal: &Journal, id: &str) -> Result<(), RpcError> {
        let flushed = self.flush().await;
        journal.store.remove(id).await?;
        flushed
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
        let mut replayed = if subscription.is_durable {
            subscription.replay_stored(&self.0, after, limit).await?
        } else {
            subscription.replay(after, limit)
        };
        let (mut events, mut bytes) = (Vec::new(), 0);
        for (seq, event) in replayed.events {
            if bytes + event.members().len() > MAX_REPLAY_BYTES && !events.is_empty() {
                replayed.has_more = true;
                break;
            }
            bytes += event.members().len();
            if self.0.sees(cx, &event.draft.subject) {
                events.push(Payload::from_trusted(event.to_json(None, seq, 0)));
            }
        }
        let mut result = EventsReplayResult::new(params.subscription_id, events, replayed.has_more);
        result.truncated = replayed.truncated.then_some(true);
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

/// Returns an error if a request to continue a subscription names other channels or another filter. Both cannot be
/// changed.
fn check_same(known: &Subscription, params: &SubscribeEventsParams) -> Result<(), RpcError> {
    let asked = Filter::read(params.filter.as_ref())?;
    let has_rank = params.filter.as_ref().is_some_and(|filter| filter.min_severity.is_some());
    let is_same = (params.channels.is_empty()
        || Pattern::parse_all(&params.channels)? == known.patterns())
        && (!has_rank || asked.rank == known.filter().rank)
        && (asked.data.is_empty() || asked.data == known.filter().data);
    if is_same {
        return Ok(());
    }
    let message = "a subscription that is continued keeps its channels and its filter; leave `channels` empty and \
                   omit `filter`, or subscribe without `subscription_id`";
    Err(RpcError::invalid_params(message))
}
