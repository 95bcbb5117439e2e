//! One subscription, with the events it stores and the task that sends them to the subscriber.
//!
//! The last events are stored for replays and for the time while the subscriber is disconnected. They are also the
//! queue of the sending task. If the subscriber reads too slowly, the oldest unsent events are dropped, and the next
//! notification reports how many. Events of durable subscriptions are in the store instead; see `journal.rs`.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgp_types::mcp::key;
use mgp_types::method::{EventNotification, Notification as _};
use mgp_types::service::{
    Call, CallKey, Context, Method, Params, Peer, Principal, Scope, ScopeId, ScopeKind,
};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::EventHub;
use super::binding::{ScopeBinding, is_lasting};
use super::draft::{EventSubject, PublishedEvent};
use super::event_json::Terms;
use super::hub::Hub;
use super::journal::StoredSubscription;
use super::pattern::Pattern;
use super::sending::{SendingGuard, spawn};
use super::viewer::{has_ended_key, viewer};

mod unused;

/// The maximum number of events that a subscription which is not durable keeps in memory; if they are large, fewer are
/// kept.
pub(super) const MAX_KEPT: usize = 1_024;

/// The maximum total size of the events that a subscription keeps in memory, in bytes.
const MAX_KEPT_BYTES: usize = 8 * 1024 * 1024;

/// The number of unsent events of a subscription at which publishers start to wait for the subscriber.
const HIGH_MARK: u64 = MAX_KEPT as u64 / 2;

/// The maximum number of events of a durable subscription that the store keeps.
const MAX_STORED: usize = 10_000;
/// The maximum total size of the events of a durable subscription that the store keeps, in bytes.
const MAX_STORED_BYTES: usize = 32 * 1024 * 1024;

/// The highest sequence number after which a client can let a subscription continue. Numbers in JSON are exact only up
/// to 2^53, so half of it leaves room for the numbers of later events.
const MAX_BASE: u64 = 1 << 52;

/// The delay before the sending task reads the store again after a failed read.
const READ_DELAY: Duration = Duration::from_secs(1);

/// The time for which a subscription that belongs to no connection or session is kept after its last use.
pub(super) const LEASE: Duration = Duration::from_mins(5);

/// The maximum number of events that the sending task takes from the queue or the store at a time.
const BATCH: usize = 64;

pub(super) struct Subscription {
    id: String,
    principal: Principal,
    patterns: Vec<Pattern>,
    rank: u8,
    pub(super) binding: ScopeBinding,
    pub(super) is_durable: bool,
    /// A token of which each reader in this process holds a clone, so that the clones show whether a reader exists.
    pub(super) readers: Arc<()>,
    state: Mutex<SubscriptionState>,
    /// Notified when events of the subscription were sent.
    sent: Notify,
    /// Notified when events of the subscription were stored.
    pub(super) changed: Notify,
    /// Notified when the subscription has ended.
    ended: Notify,
    /// A lock that the sending task holds while it sends an event, so that others can wait until no event is being
    /// sent.
    sending: tokio::sync::Mutex<()>,
    /// `true` while the subscriber reads nothing. Publishers do not wait for such a subscriber, so events can be
    /// dropped.
    is_stuck: AtomicBool,
}

struct SubscriptionState {
    kept: VecDeque<Arc<PublishedEvent>>,
    kept_bytes: usize,
    /// The sizes of the events in the store if the subscription is durable; `kept` is then empty. Otherwise this list
    /// is empty.
    sizes: VecDeque<u32>,
    /// The sequence number of the last event in the store, if the subscription is durable.
    stored: u64,
    next_seq: u64,
    /// The sequence number after which the subscription began: its first event has the next number.
    base: u64,
    /// The sequence number of the last event that was sent, dropped or acknowledged.
    cursor: u64,
    /// The context of the subscriber, with which the access to each event is checked.
    viewer: Context,
    target: Option<Target>,
    is_sending: bool,
    is_ended: bool,
    /// The time at which the subscription expires while no connection or stream is attached to it; `None` if it ends
    /// with its connection or session.
    expires_at: Option<Instant>,
    /// The time at which the use of a durable subscription was last stored; `None` if it was not stored by this
    /// process.
    noted_at: Option<Instant>,
}

/// The connection or stream on which the events of a subscription are sent.
#[derive(Clone)]
pub(super) struct Target {
    /// The key of the call that opened the stream. A stream that ends uses the key to detach only its own target, and
    /// not a target that has replaced it.
    pub(super) key: CallKey,
    pub(super) cx: Context,
    /// The id of the stream that carries the notifications; `None` for a legacy session.
    pub(super) stream: Option<Payload>,
    /// `true` once events are allowed to be sent to the target. If the sender of this channel is dropped before, no
    /// events are sent.
    pub(super) is_open: watch::Receiver<bool>,
    pub(super) runtime: Handle,
}

/// A target, the events to send to it with their sequence numbers, and how many events were dropped before them.
type Batch = (Target, Vec<(u64, Arc<PublishedEvent>)>, u64);

/// The events that a replay returns, whether there are more of them, and whether some are lost.
pub(super) struct Replayed {
    pub(super) events: Vec<(u64, Arc<PublishedEvent>)>,
    pub(super) has_more: bool,
    pub(super) truncated: bool,
}

impl Subscription {
    pub(super) fn new(
        id: String,
        cx: &Context,
        patterns: Vec<Pattern>,
        rank: u8,
        is_durable: bool,
    ) -> Self {
        let scope = Some(&cx.scope).filter(|scope| is_lasting(scope) && !is_durable);
        let expires_at = scope.is_none().then(|| Instant::now() + LEASE);
        let state = SubscriptionState {
            kept: VecDeque::new(),
            kept_bytes: 0,
            sizes: VecDeque::new(),
            stored: 0,
            next_seq: 1,
            base: 0,
            cursor: 0,
            viewer: viewer(cx),
            target: None,
            is_sending: false,
            is_ended: false,
            expires_at,
            noted_at: None,
        };
        Self {
            id,
            principal: cx.principal.clone(),
            patterns,
            rank,
            binding: ScopeBinding::new(scope),
            is_durable,
            readers: Arc::default(),
            state: Mutex::new(state),
            sent: Notify::new(),
            changed: Notify::new(),
            ended: Notify::new(),
            sending: tokio::sync::Mutex::default(),
            is_stuck: AtomicBool::new(false),
        }
    }

    /// Makes the sequence numbers of a new subscription continue after `seq`, because an earlier subscription with the
    /// same id has used the numbers up to it.
    pub(super) fn numbered_after(mut self, seq: Option<u64>) -> Self {
        let state = self.state.get_mut();
        state.base = seq.unwrap_or(0).min(MAX_BASE);
        (state.next_seq, state.cursor, state.stored) = (state.base + 1, state.base, state.base);
        self
    }

    /// Restores a durable subscription from its stored form; no connection or stream is attached to it yet.
    pub(super) fn from_stored(stored: &StoredSubscription) -> Result<Self, RpcError> {
        let (principal, patterns, rank) = Terms::read(&stored.terms)?;
        let cx = Context::new(Peer::none(), Scope::new(ScopeKind::Handle), principal);
        let mut new = Self::new(stored.id.clone(), &cx, patterns, rank, true);
        let state = new.state.get_mut();
        state.kept_bytes = stored.sizes.iter().map(|size| *size as usize).sum();
        state.sizes = stored.sizes.iter().copied().collect();
        (state.next_seq, state.stored) = (stored.next_seq, stored.next_seq - 1);
        state.cursor = stored.cursor.min(state.stored);
        Ok(new)
    }

    pub(super) fn to_stored(&self) -> StoredSubscription {
        self.stored_form(&self.state.lock())
    }

    fn stored_form(&self, state: &SubscriptionState) -> StoredSubscription {
        StoredSubscription {
            id: self.id.clone(),
            terms: Terms::to_json(&self.principal, &self.patterns, self.rank),
            next_seq: state.next_seq,
            sizes: Vec::new(),
            cursor: state.cursor,
        }
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn principal(&self) -> &Principal {
        &self.principal
    }

    pub(super) fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    pub(super) fn rank(&self) -> u8 {
        self.rank
    }

    /// Returns whether the subscription has expired: it has no target, and its last use is too long ago. Durable
    /// subscriptions do not expire in this way.
    pub(super) fn is_expired(&self, now: Instant) -> bool {
        if self.is_durable {
            return false;
        }
        let state = self.state.lock();
        state.target.is_none() && state.expires_at.is_some_and(|at| at <= now)
    }

    /// Returns whether the subscriber may see events that relate to this server, tool and principal.
    pub(super) fn may_see(&self, hub: &Hub, subject: &EventSubject) -> bool {
        hub.sees(&self.state.lock().viewer, subject)
    }

    /// Adds an event to the queue, if the subscriber may see it. Returns whether so many events are unsent that
    /// publishers should wait for the subscriber.
    pub(super) fn push(self: &Arc<Self>, hub: &Arc<Hub>, event: &Arc<PublishedEvent>) -> bool {
        let mut state = self.state.lock();
        if state.is_ended || !hub.sees(&state.viewer, &event.draft.subject) {
            return false;
        }
        state.kept.push_back(Arc::clone(event));
        state.kept_bytes += event.bytes();
        state.next_seq += 1;
        while state.kept.len() > MAX_KEPT
            || (state.kept_bytes > MAX_KEPT_BYTES && state.kept.len() > 1)
        {
            let oldest = state.kept.pop_front();
            state.kept_bytes -= oldest.map_or(0, |oldest| oldest.bytes());
        }
        self.start_sending(&mut state, hub);
        state.target.is_some()
            && state.next_seq - 1 - state.cursor >= HIGH_MARK
            && !self.is_stuck.load(Ordering::Relaxed)
    }

    /// Assigns the next sequence number to an event of a durable subscription, if the subscriber may see the event.
    /// Returns this number and that of the oldest event that the store must keep.
    pub(super) fn number(&self, hub: &Hub, event: &PublishedEvent) -> Option<(u64, u64)> {
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
    pub(super) fn stored(self: &Arc<Self>, hub: &Arc<Hub>, seq: u64) {
        let mut state = self.state.lock();
        state.stored = state.stored.max(seq);
        self.start_sending(&mut state, hub);
        drop(state);
        self.changed.notify_waiters();
    }

    fn start_sending(self: &Arc<Self>, state: &mut SubscriptionState, hub: &Arc<Hub>) {
        let Some(target) = state.target.as_ref().filter(|_| !state.is_sending) else { return };
        let runtime = target.runtime.clone();
        state.is_sending = true;
        let sending = hub.sending.add(self);
        spawn(&runtime, Arc::clone(self).send_all(Arc::clone(hub), sending));
    }

    /// Waits until the subscriber has room for more events. If it still has none at `deadline`, marks the subscriber as
    /// one that reads nothing.
    pub(super) async fn wait_for_room(&self, deadline: Instant) {
        loop {
            let sent = self.sent.notified();
            if !self.is_behind() {
                return;
            }
            if tokio::time::timeout_at(deadline, sent).await.is_err() {
                if !self.is_stuck.swap(true, Ordering::Relaxed) {
                    tracing::debug!(subscription = %self.id, "subscriber does not read; events are dropped");
                }
                return;
            }
        }
    }

    /// Waits until the events so far are sent, if the subscriber uses the connection or session `scope`. Stops waiting
    /// if no event was sent for the time `pause`.
    pub(super) async fn wait_sent(&self, scope: ScopeId, pause: Duration) {
        let last = {
            let state = self.state.lock();
            if state.target.as_ref().is_none_or(|target| target.cx.scope.id() != scope) {
                return;
            }
            if self.is_durable { state.stored } else { state.next_seq - 1 }
        };
        loop {
            let mut sent = pin!(self.sent.notified());
            sent.as_mut().enable();
            let cursor = {
                let state = self.state.lock();
                if !state.is_sending || state.cursor > last || state.target.is_none() {
                    return;
                }
                state.cursor
            };
            let is_late = tokio::time::timeout(pause, sent).await.is_err();
            if is_late && self.state.lock().cursor == cursor {
                return;
            }
        }
    }

    fn is_behind(&self) -> bool {
        let state = self.state.lock();
        state.target.is_some()
            && !state.is_ended
            && state.next_seq - 1 - state.cursor >= HIGH_MARK / 2
            && !self.is_stuck.load(Ordering::Relaxed)
    }

    /// Sends the unsent events until there are none left, or until no connection or stream is attached.
    async fn send_all(self: Arc<Self>, hub: Arc<Hub>, _sending: SendingGuard<Self>) {
        loop {
            let taken =
                if self.is_durable { self.take_stored(&hub).await } else { self.take_batch() };
            let Some((mut target, batch, mut dropped)) = taken else { break };
            if target.is_open.wait_for(|is_open| *is_open).await.is_err() {
                self.detach(target.key);
            }
            for (seq, event) in batch {
                if !self.send(&hub, &target, seq, &event, dropped).await {
                    // The target has ended or was replaced. The next iteration of the loop takes the current target, if
                    // there is one.
                    break;
                }
                dropped = 0;
            }
            EventHub(Arc::clone(&hub)).note_use(&self);
            self.sent.notify_waiters();
        }
        self.sent.notify_waiters();
    }

    /// Sends an event, unless the subscriber may no longer see it. Returns `false` if the subscription has ended, or if
    /// the target must not be used any more: it was replaced, has disconnected, or its API key has expired or was
    /// revoked.
    async fn send(
        &self,
        hub: &Hub,
        target: &Target,
        seq: u64,
        event: &Arc<PublishedEvent>,
        dropped: u64,
    ) -> bool {
        let _sending = self.sending.lock().await;
        if has_ended_key(&target.cx) {
            self.detach(target.key);
            return false;
        }
        {
            let mut state = self.state.lock();
            let is_current = state.target.as_ref().is_some_and(|current| current.key == target.key);
            if state.is_ended || !is_current {
                return false;
            }
            state.cursor = state.cursor.max(seq);
            // Check access again: it may have been revoked since the event was published.
            if !hub.sees(&state.viewer, &event.draft.subject) {
                return true;
            }
        }
        let sent = tokio::select! {
            sent = self.notify(target, event.to_json(Some(&self.id), seq, dropped)) => sent,
            () = self.ended.notified() => return false,
        };
        match sent {
            Ok(()) => true,
            Err(error) => {
                tracing::debug!(subscription = %self.id, %error, "subscriber disconnected");
                self.detach(target.key);
                false
            }
        }
    }

    async fn notify(&self, target: &Target, params: String) -> Result<(), RpcError> {
        let params = Params::split(EventNotification::METHOD, params.into())?;
        let (peer, scope) = (target.cx.peer.clone(), target.cx.scope.clone());
        let cx = Context::new(peer.clone(), scope, self.principal.clone());
        let method = Method::from_static(EventNotification::METHOD);
        let mut call = Call::notification(method, params, cx);
        if let Some(id) = &target.stream {
            call.hop_mut().meta.push((key::SUBSCRIPTION_ID.into(), id.clone()));
            call = call.related(target.key);
        }
        peer.send(call).await.map(drop)
    }

    /// Reads the next unsent events from the store. Returns `None` if there are none or no target is attached; the
    /// sending task then ends.
    async fn take_stored(&self, hub: &Hub) -> Option<Batch> {
        loop {
            let (target, after, stored) = {
                let mut state = self.state.lock();
                let target =
                    state.target.clone().filter(|_| !state.is_ended && state.cursor < state.stored);
                let Some(target) = target else {
                    state.is_sending = false;
                    return None;
                };
                (target, state.cursor, state.stored)
            };
            let read = hub.read_stored(&self.id, after, stored, BATCH).await;
            match read {
                Ok(events) if events.is_empty() => {
                    let mut state = self.state.lock();
                    state.cursor = state.cursor.max(stored);
                }
                Ok(events) => {
                    let dropped = events[0].0 - after - 1;
                    return Some((target, events, dropped));
                }
                Err(error) => {
                    tracing::warn!(subscription = %self.id, %error, "retry: stored events cannot be read");
                    tokio::time::sleep(READ_DELAY).await;
                }
            }
        }
    }

    /// Returns the stored events of a durable subscription after the sequence number `after`, up to the last stored
    /// one.
    pub(super) async fn replay_stored(
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

    /// Returns the sequence numbers of the oldest kept event, of the last sent or acknowledged one, and of the last
    /// stored one.
    pub(super) fn positions(&self) -> (u64, u64, u64) {
        let state = self.state.lock();
        (state.first(), state.cursor, state.stored)
    }

    /// Returns the sequence number that was assigned last to an event of the subscription.
    pub(super) fn last_seq(&self) -> u64 {
        self.state.lock().next_seq - 1
    }

    /// Takes the next unsent events from the queue. Returns `None` if there are none or no target is attached; the
    /// sending task then ends.
    fn take_batch(&self) -> Option<Batch> {
        let mut state = self.state.lock();
        let (mut events, dropped) = state.after(state.cursor, BATCH);
        let target = state.target.clone().filter(|_| !state.is_ended && !events.is_empty());
        let Some(target) = target else {
            state.is_sending = false;
            self.is_stuck.store(false, Ordering::Relaxed);
            return None;
        };
        events.shrink_to_fit();
        Some((target, events, dropped))
    }

    /// Returns up to `limit` stored events after the sequence number `after`, and postpones the expiry of the
    /// subscription.
    pub(super) fn replay(&self, after: u64, limit: usize) -> Replayed {
        let mut state = self.state.lock();
        state.renew();
        let (mut events, dropped) = state.after(after, limit + 1);
        let has_more = events.len() > limit;
        events.truncate(limit);
        Replayed { events, has_more, truncated: dropped > 0 }
    }

    /// Starts to send the events after the sequence number `after` to a target, which replaces the current one. Without
    /// `after`, continues after the last event that was sent. Returns whether some of these events are lost.
    pub(super) fn attach(
        self: &Arc<Self>,
        hub: &Arc<Hub>,
        target: Target,
        after: Option<u64>,
    ) -> bool {
        let mut state = self.state.lock();
        state.viewer = viewer(&target.cx);
        if let Some(after) = after {
            state.cursor = after.min(state.next_seq - 1).max(state.base);
        }
        state.target = Some(target);
        let is_truncated = state.first() > state.cursor + 1;
        self.start_sending(&mut state, hub);
        is_truncated
    }

    /// Postpones the time at which the subscription expires, because it is used now.
    pub(super) fn renew(&self) {
        self.state.lock().renew();
    }

    /// Detaches the target with this key, unless another target has replaced it.
    pub(super) fn detach(&self, key: CallKey) {
        let mut state = self.state.lock();
        if state.target.as_ref().is_some_and(|target| target.key == key) {
            state.target = None;
            state.renew();
        }
        drop(state);
        self.sent.notify_waiters();
    }

    /// Ends the subscription: no more events are sent, except one that is already being sent.
    pub(super) fn end(&self) {
        self.state.lock().is_ended = true;
        self.binding.release();
        self.ended.notify_one();
        self.sent.notify_waiters();
    }

    /// Waits until no event of the subscription is being sent.
    pub(super) async fn wait_idle(&self) {
        drop(self.sending.lock().await);
    }
}

impl SubscriptionState {
    fn renew(&mut self) {
        self.expires_at = self.expires_at.map(|_| Instant::now() + LEASE);
    }

    /// Returns the sequence number of the oldest stored event, or of the next event if none is stored.
    fn first(&self) -> u64 {
        self.next_seq - (self.kept.len() + self.sizes.len()) as u64
    }

    /// Returns up to `max` stored events after the sequence number `seq`, and how many events before them are lost.
    fn after(&self, seq: u64, max: usize) -> (Vec<(u64, Arc<PublishedEvent>)>, u64) {
        let first = self.first();
        // A caller chooses the number freely, so it can be larger than any number that was assigned.
        let seq = seq.min(self.next_seq - 1);
        let from = (seq + 1).max(first);
        let skip = usize::try_from(from - first).unwrap_or(usize::MAX);
        let events = (from..).zip(self.kept.iter().skip(skip).cloned());
        (events.take(max).collect(), from - (seq + 1))
    }
}
