//! One subscription and the events it keeps; `subscription/delivery.rs` sends them to the subscriber.
//!
//! The last events are kept for replays and for the time while the subscriber is disconnected. They are also the queue
//! of the sending task. If the subscriber reads too slowly, the oldest unsent events are dropped, and the next
//! notification reports how many.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::service::{CallKey, Context, EndGuard, Principal, Scope, ScopeId, ScopeKind};
use mgp_types::store::StoreError;
use mgp_types::sync::Mutex;
use mgp_types::{Payload, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use self::queue::Queue;
use super::draft::{EventSubject, PublishedEvent};
use super::filter::Filter;
use super::hub::Hub;
use super::pattern::Pattern;
use super::viewer::viewer;

mod delivery;
mod durable;
pub(super) mod queue;

/// The number of unsent events of a subscription from which on publishers wait for the subscriber.
const HIGH_MARK: u64 = queue::MAX_KEPT as u64 / 2;

/// Publishers stop waiting for a subscriber if fewer events than this are unsent.
const LOW_MARK: u64 = HIGH_MARK / 2;

/// The time for which a subscription that belongs to no connection or session is kept after its last use.
pub(super) const LEASE: Duration = Duration::from_mins(5);

pub(super) struct Subscription {
    pub(super) id: String,
    pub(super) principal: Principal,
    pub(super) patterns: Vec<Pattern>,
    pub(super) filter: Filter,
    /// A token for counting readers: each reader in this process holds a clone of it.
    pub(super) readers: Arc<()>,
    state: Mutex<SubscriptionState>,
    /// Notified after each change of the state for which a task can wait; see [`wait_until`](Self::wait_until).
    changed: Notify,
}

struct SubscriptionState {
    queue: Queue,
    /// The sequence number before the first event of the subscription.
    base: u64,
    /// The sequence number of the last event that was dropped or acknowledged, or whose sending has begun. An event
    /// whose sending fails is not sent again, unless the subscriber asks for it.
    cursor: u64,
    /// The context of the subscriber, for checking the access to each event.
    viewer: Context,
    target: Option<Target>,
    /// The connection or session with which the subscription ends; `None` if the subscription is durable, or was
    /// requested outside of a connection or session.
    scope: Option<ScopeId>,
    /// The registration of the function that ends the subscription when the scope ends; dropping it removes the
    /// function.
    scope_guard: Option<EndGuard>,
    /// `true` while the sending task runs.
    is_sending: bool,
    /// `true` after a publisher has waited too long for the subscriber, until fewer than [`LOW_MARK`] events are
    /// unsent. Publishers do not wait for such a subscriber, so events can be dropped.
    is_slow: bool,
    is_ended: bool,
    /// The expiry time of a subscription without an attached connection or stream; `None` if the subscription is
    /// durable or ends with its connection or session.
    expires_at: Option<Instant>,
    /// The lifetime that the subscriber chose; `None` if it chose none.
    lifetime: Option<Lifetime>,
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
    /// The key of the call that opened the stream; a new key for a legacy session. When a stream ends, it detaches only
    /// the target with its own key, because another target may have replaced that target.
    pub(super) key: CallKey,
    pub(super) cx: Context,
    /// The id of the stream that carries the notifications; `None` for a legacy session.
    pub(super) stream: Option<Payload>,
    /// `true` once events are allowed to be sent to the target.
    pub(super) is_open: bool,
    pub(super) runtime: Handle,
}

/// The events of a subscription after a sequence number.
pub(super) struct Page {
    pub(super) events: Vec<(u64, Arc<PublishedEvent>)>,
    /// The sequence number of the last event that could be read when the page was read.
    pub(super) until: u64,
    /// The number of events before these that are lost.
    pub(super) dropped: u64,
}

impl Subscription {
    /// Creates a subscription of the caller `cx`, whose first event follows the last number of `queue`.
    pub(super) fn new(
        id: String,
        cx: &Context,
        patterns: Vec<Pattern>,
        filter: Filter,
        queue: Queue,
    ) -> Self {
        let is_durable = queue.is_durable();
        let scope = Some(&cx.scope).filter(|scope| is_lasting(scope) && !is_durable);
        let has_lease = scope.is_none() && !is_durable;
        let state = SubscriptionState {
            base: queue.last(),
            cursor: queue.last(),
            queue,
            viewer: viewer(cx),
            target: None,
            scope: scope.map(Scope::id),
            scope_guard: None,
            is_sending: false,
            is_slow: false,
            is_ended: false,
            expires_at: has_lease.then(|| Instant::now() + LEASE),
            lifetime: None,
        };
        Self {
            id,
            principal: cx.principal.clone(),
            patterns,
            filter,
            readers: Arc::default(),
            state: Mutex::new(state),
            changed: Notify::new(),
        }
    }

    /// Returns whether the events of the subscription are stored before they are sent.
    pub(super) fn is_durable(&self) -> bool {
        self.state.lock().queue.is_durable()
    }

    /// Returns whether the subscription has expired: it has no target, and its last use is too long ago. Durable
    /// subscriptions do not expire in this way.
    pub(super) fn is_expired(&self, now: Instant) -> bool {
        let state = self.state.lock();
        state.target.is_none() && state.expires_at.is_some_and(|at| at <= now)
    }

    /// Returns the connection or session with which the subscription ends.
    pub(super) fn scope(&self) -> Option<ScopeId> {
        self.state.lock().scope
    }

    /// Replaces the scope with which the subscription ends. Only the table calls this, because it counts the
    /// subscriptions of each scope.
    pub(super) fn set_scope(&self, scope: ScopeId) {
        self.state.lock().scope = Some(scope);
    }

    /// Stores the registration `guard` of the function that runs at the end of `scope`. If the subscription does not
    /// end with that scope any more, removes the registration instead.
    pub(super) fn set_scope_guard(&self, scope: ScopeId, guard: EndGuard) {
        let mut state = self.state.lock();
        let is_current = state.scope == Some(scope) && !state.is_ended;
        let unneeded = if is_current { state.scope_guard.replace(guard) } else { Some(guard) };
        // Release the lock before, because dropping a registration takes the lock of its scope.
        drop(state);
        drop(unneeded);
    }

    /// Returns whether the subscriber may see events that relate to this subject.
    pub(super) fn may_see(&self, hub: &Hub, subject: &EventSubject) -> bool {
        hub.sees(&self.state.lock().viewer, subject)
    }

    /// Adds an event to the queue in memory, if the subscriber may see it. Returns whether so many events are unsent
    /// that publishers should wait for the subscriber.
    pub(super) fn push(self: &Arc<Self>, hub: &Arc<Hub>, event: &Arc<PublishedEvent>) -> bool {
        let mut state = self.state.lock();
        if !state.accept(hub, event) {
            return false;
        }
        let is_behind = state.is_behind(HIGH_MARK);
        self.start_sending(state, hub);
        is_behind
    }

    /// Returns the sequence number that was assigned last to an event of the subscription.
    pub(super) fn last_seq(&self) -> u64 {
        self.state.lock().queue.last()
    }

    /// Returns the number of kept events after the cursor that can be read.
    pub(super) fn waiting(&self) -> u64 {
        let state = self.state.lock();
        (state.queue.readable() + 1).saturating_sub(state.queue.first().max(state.cursor + 1))
    }

    /// Returns up to `max` events after the sequence number `after`.
    pub(super) async fn read(&self, hub: &Hub, after: u64, max: usize) -> Result<Page, StoreError> {
        let (kept, until) = {
            let state = self.state.lock();
            (state.queue.in_memory(after, max), state.queue.readable())
        };
        let events = match kept {
            Some(events) => events,
            None => hub.read_stored(&self.id, after, until, max).await?,
        };
        let before = events.first().map_or(until, |(first, _)| first - 1);
        Ok(Page { events, until, dropped: before.saturating_sub(after) })
    }

    /// Starts to send the events after the sequence number `after` to a target, which replaces the current target.
    /// Without `after`, continues after the last event whose sending has begun. Returns whether some of these events
    /// are lost; does nothing and returns `false` if the subscription has ended.
    pub(super) fn attach(
        self: &Arc<Self>,
        hub: &Arc<Hub>,
        target: Target,
        after: Option<u64>,
    ) -> bool {
        let mut state = self.state.lock();
        if state.is_ended {
            return false;
        }
        state.viewer = viewer(&target.cx);
        if let Some(after) = after {
            state.cursor = after.min(state.queue.readable()).max(state.base);
        }
        state.target = Some(target);
        let is_truncated = state.queue.first() > state.cursor + 1;
        self.start_sending(state, hub);
        self.changed.notify_waiters();
        is_truncated
    }

    /// Permits that events are sent to the target with this key.
    pub(super) fn open(&self, key: CallKey) {
        if let Some(target) = self.state.lock().target.as_mut().filter(|target| target.key == key) {
            target.is_open = true;
        }
        self.changed.notify_waiters();
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
        if state.has_target(key) {
            state.target = None;
            state.renew();
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends the subscription: no more events are sent, except an event that is already being sent.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.is_ended = true;
        state.target = None;
        state.lifetime = None;
        if let Queue::Memory(events) = &mut state.queue {
            // Free the events now, because a stream may refer to the subscription for a long time after its end.
            events.clear();
        }
        let guard = state.scope_guard.take();
        drop(state);
        drop(guard);
        self.changed.notify_waiters();
    }

    /// Waits until the state of the subscription meets a condition. The condition may change the state when it is met.
    async fn wait_until(&self, mut is_met: impl FnMut(&mut SubscriptionState) -> bool) {
        loop {
            // Create the future before the check, so that it also receives a notification that comes after the check.
            let changed = self.changed.notified();
            if is_met(&mut self.state.lock()) {
                return;
            }
            changed.await;
        }
    }
}

impl SubscriptionState {
    /// Adds an event to the queue, if the subscriber may see it. Returns whether it was added.
    fn accept(&mut self, hub: &Hub, event: &Arc<PublishedEvent>) -> bool {
        let is_accepted = !self.is_ended && self.may_see(hub, event);
        if is_accepted {
            self.queue.push(event);
        }
        is_accepted
    }

    fn may_see(&self, hub: &Hub, event: &PublishedEvent) -> bool {
        event.is_last() || hub.sees(&self.viewer, &event.draft.subject)
    }

    fn renew(&mut self) {
        self.expires_at = self.expires_at.map(|_| Instant::now() + LEASE);
    }

    fn has_target(&self, key: CallKey) -> bool {
        self.target.as_ref().is_some_and(|target| target.key == key)
    }

    /// Returns the number of events whose sending has not begun.
    fn unsent(&self) -> u64 {
        self.queue.readable().saturating_sub(self.cursor)
    }

    /// Returns whether publishers should wait for the subscriber: at least `mark` events are unsent, and no publisher
    /// has waited too long for the subscriber before.
    fn is_behind(&self, mark: u64) -> bool {
        self.target.is_some() && !self.is_slow && self.unsent() >= mark
    }
}

/// Returns whether a scope is a connection or session. Any other scope, e.g. that of a single request, does not end
/// subscriptions.
pub(super) fn is_lasting(scope: &Scope) -> bool {
    matches!(scope.kind(), ScopeKind::Connection | ScopeKind::Session)
}
