//! One subscription and the events it stores; `subscription/delivery.rs` sends them to the subscriber.
//!
//! The last events are stored for replays and for the time while the subscriber is disconnected. They are also the
//! queue of the sending task. If the subscriber reads too slowly, the oldest unsent events are dropped, and the next
//! notification reports how many. Events of durable subscriptions (`subscription/durable.rs`) are in the store instead.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgp_types::service::{CallKey, Context, Principal};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::binding::{ScopeBinding, is_lasting};
use super::draft::{EventSubject, PublishedEvent};
use super::filter::Filter;
use super::hub::Hub;
use super::pattern::Pattern;
use super::viewer::viewer;

mod delivery;
mod durable;

/// The maximum number of events that a subscription which is not durable keeps in memory; if they are large, fewer are
/// kept.
pub(super) const MAX_KEPT: usize = 1_024;

/// The maximum total size of the events that a subscription keeps in memory, in bytes.
const MAX_KEPT_BYTES: usize = 8 * 1024 * 1024;

/// The number of unsent events of a subscription from which on publishers wait for the subscriber.
const HIGH_MARK: u64 = MAX_KEPT as u64 / 2;

/// Publishers stop waiting for a subscriber if fewer events than this are unsent.
const LOW_MARK: u64 = HIGH_MARK / 2;

/// The highest sequence number that a client can name when it continues a subscription. Numbers in JSON are exact only
/// up to 2^53, so half of that leaves room for the numbers of later events.
const MAX_BASE: u64 = 1 << 52;

/// The time for which a subscription that belongs to no connection or session is kept after its last use.
pub(super) const LEASE: Duration = Duration::from_mins(5);

pub(super) struct Subscription {
    id: String,
    principal: Principal,
    patterns: Vec<Pattern>,
    filter: Filter,
    pub(super) binding: ScopeBinding,
    pub(super) is_durable: bool,
    /// A token for counting readers: each reader in this process holds a clone of it.
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
    /// `true` after a publisher has waited too long for the subscriber, until fewer than [`LOW_MARK`] events are
    /// unsent. Publishers do not wait for such a subscriber, so events can be dropped.
    is_slow: AtomicBool,
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
    /// The sequence number before the first event of the subscription.
    base: u64,
    /// The sequence number of the last event that was dropped or acknowledged, or whose sending has begun. An event
    /// whose sending fails is not sent again, unless the subscriber asks for it.
    cursor: u64,
    /// The context of the subscriber, for checking the access to each event.
    viewer: Context,
    target: Option<Target>,
    is_sending: bool,
    is_ended: bool,
    /// The expiry time of a subscription without an attached connection or stream; `None` if the subscription ends with
    /// its connection or session.
    expires_at: Option<Instant>,
    /// The lifetime that the subscriber chose; `None` if it chose none.
    lifetime: Option<Lifetime>,
    /// The time at which the use of a durable subscription was last stored; `None` if it was not stored by this
    /// process.
    use_stored_at: Option<Instant>,
}

/// The time at which a subscription ends, and the task that ends it. If this value is dropped, the task is cancelled.
pub(super) struct Lifetime {
    pub(super) until: Timestamp,
    pub(super) task: AbortHandle,
}

impl Drop for Lifetime {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The connection or stream that carries the events of a subscription.
#[derive(Clone)]
pub(super) struct Target {
    /// The key of the call that opened the stream. When a stream ends, it detaches only the target with its own key,
    /// because another target may have replaced that target.
    pub(super) key: CallKey,
    pub(super) cx: Context,
    /// The id of the stream that carries the notifications; `None` for a legacy session.
    pub(super) stream: Option<Payload>,
    /// `true` once events are allowed to be sent to the target. If the sender of this channel is dropped before, no
    /// events are sent.
    pub(super) is_open: watch::Receiver<bool>,
    pub(super) runtime: Handle,
}

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
        filter: Filter,
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
            lifetime: None,
            use_stored_at: None,
        };
        Self {
            id,
            principal: cx.principal.clone(),
            patterns,
            filter,
            binding: ScopeBinding::new(scope),
            is_durable,
            readers: Arc::default(),
            state: Mutex::new(state),
            sent: Notify::new(),
            changed: Notify::new(),
            ended: Notify::new(),
            sending: tokio::sync::Mutex::default(),
            is_slow: AtomicBool::new(false),
        }
    }

    /// Starts the sequence numbers of a new subscription after `seq`, because an earlier subscription with the same id
    /// has used the numbers up to it.
    pub(super) fn numbered_after(mut self, seq: Option<u64>) -> Self {
        let state = self.state.get_mut();
        state.base = seq.unwrap_or(0).min(MAX_BASE);
        (state.next_seq, state.cursor, state.stored) = (state.base + 1, state.base, state.base);
        self
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

    pub(super) fn filter(&self) -> &Filter {
        &self.filter
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
        let is_visible = event.is_last() || hub.sees(&state.viewer, &event.draft.subject);
        if state.is_ended || !is_visible {
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
            && state.unsent() >= HIGH_MARK
            && !self.is_slow.load(Ordering::Relaxed)
    }

    /// Returns three sequence numbers: of the oldest event that is kept, of the last event that was acknowledged or
    /// whose sending has begun, and of the last event in the store.
    pub(super) fn positions(&self) -> (u64, u64, u64) {
        let state = self.state.lock();
        (state.first(), state.cursor, state.stored)
    }

    /// Returns the sequence number that was assigned last to an event of the subscription.
    pub(super) fn last_seq(&self) -> u64 {
        self.state.lock().next_seq - 1
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

    /// Starts to send the events after the sequence number `after` to a target, which replaces the current target.
    /// Without `after`, continues after the last event whose sending has begun. Returns whether some of these events
    /// are lost.
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

    /// Postpones the expiry of the subscription. Called when the subscription is used.
    pub(super) fn renew(&self) {
        self.state.lock().renew();
    }

    /// Sets the time at which the subscription ends, in place of an earlier one.
    pub(super) fn set_lifetime(&self, lifetime: Lifetime) {
        let mut state = self.state.lock();
        if !state.is_ended {
            state.lifetime = Some(lifetime);
        }
    }

    /// Returns the time at which the subscription ends, if its subscriber chose one.
    pub(super) fn ends_at(&self) -> Option<Timestamp> {
        self.state.lock().lifetime.as_ref().map(|lifetime| lifetime.until.clone())
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

    /// Ends the subscription: no more events are sent, except an event that is already being sent.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.is_ended = true;
        state.lifetime = None;
        // Free the kept events now, because a stream may refer to the subscription for a long time after its end.
        state.kept = VecDeque::new();
        drop(state);
        self.binding.release();
        self.ended.notify_one();
        self.sent.notify_waiters();
    }
}

impl SubscriptionState {
    fn renew(&mut self) {
        self.expires_at = self.expires_at.map(|_| Instant::now() + LEASE);
    }

    /// Returns the number of events whose sending has not begun.
    fn unsent(&self) -> u64 {
        self.next_seq - 1 - self.cursor
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
