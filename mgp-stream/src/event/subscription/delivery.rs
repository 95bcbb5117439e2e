//! Sends the events of a subscription to its target (the connection or stream of the subscriber), and waits until
//! events are sent.

use std::sync::Arc;
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::mcp::key;
use mgp_types::method::{EventNotification, Notification as _};
use mgp_types::service::{Call, Context, Method, Params, ScopeId};
use mgp_types::sync::MutexGuard;
use tokio::time::{Instant, timeout, timeout_at};

use super::{LOW_MARK, Page, Subscription, SubscriptionState, Target};
use crate::event::EventHub;
use crate::event::draft::PublishedEvent;
use crate::event::hub::Hub;
use crate::event::sending::{SendingGuard, spawn};
use crate::event::viewer::has_ended_key;

/// The delay before the sending task reads the store again after a failed read.
const READ_DELAY: Duration = Duration::from_secs(1);

/// The maximum number of events that the sending task reads at a time.
const BATCH: usize = 64;

/// The sending task of a subscription. The task owns this value, so a task that panics, or whose runtime ends, is
/// recorded as ended too.
struct SendingTask {
    subscription: Arc<Subscription>,
    /// `false` once the task has recorded its own end; another sending task may run then.
    is_running: bool,
    _entry: SendingGuard<Subscription>,
}

impl SendingTask {
    /// Sends the unsent events until there are none left, no connection or stream is attached, or the subscription has
    /// ended.
    async fn run(mut self, hub: Arc<Hub>) {
        let subscription = &self.subscription;
        self.is_running = tokio::select! {
            biased;
            () = subscription.wait_until(|state| state.is_ended) => true,
            () = subscription.send_unsent(&hub) => false,
        };
    }
}

impl Drop for SendingTask {
    fn drop(&mut self) {
        if self.is_running {
            self.subscription.state.lock().is_sending = false;
        }
        self.subscription.changed.notify_waiters();
    }
}

impl Subscription {
    /// Unlocks the state, and starts the sending task if there are unsent events and a target, unless the task runs
    /// already.
    pub(super) fn start_sending(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, SubscriptionState>,
        hub: &Arc<Hub>,
    ) {
        let is_idle = !state.is_sending && state.unsent() > 0;
        let Some(target) = state.target.as_ref().filter(|_| is_idle) else { return };
        let runtime = target.runtime.clone();
        state.is_sending = true;
        let (subscription, entry) = (Arc::clone(self), hub.sending.add(self));
        let task = SendingTask { subscription, is_running: true, _entry: entry };
        // Unlock the state first: a runtime that has ended drops the task immediately, which locks the state.
        drop(state);
        spawn(&runtime, task.run(Arc::clone(hub)));
    }

    /// Waits until the subscriber has room for more events. If the subscriber still has no room at `deadline`, records
    /// that it is slow.
    pub(in crate::event) async fn wait_for_room(&self, deadline: Instant) {
        let has_room = self.wait_until(|state| !state.is_behind(LOW_MARK));
        if timeout_at(deadline, has_room).await.is_err()
            && !std::mem::replace(&mut self.state.lock().is_slow, true)
        {
            tracing::debug!(subscription = %self.id, "slow subscriber; events can be dropped");
        }
    }

    /// Waits until the events so far are sent, if the subscriber uses the connection or session `scope`. Stops waiting
    /// and returns `false` if no event was sent for the time `pause`.
    pub(in crate::event) async fn wait_sent(&self, scope: ScopeId, pause: Duration) -> bool {
        let (last, mut cursor) = {
            let state = self.state.lock();
            if state.target.as_ref().is_none_or(|target| target.cx.scope.id() != scope) {
                return true;
            }
            (state.queue.readable(), state.cursor)
        };
        loop {
            // The cursor moves when the sending of an event begins. So the last event is sent once the cursor is after
            // it.
            let sent = self.wait_until(|state| {
                !state.is_sending || state.cursor > last || state.target.is_none()
            });
            if timeout(pause, sent).await.is_ok() {
                return true;
            }
            let before = std::mem::replace(&mut cursor, self.state.lock().cursor);
            if before == cursor {
                return false;
            }
        }
    }

    /// Waits until no event of the subscription, which has ended, is being sent.
    pub(in crate::event) async fn wait_idle(&self) {
        self.wait_until(|state| !state.is_sending).await;
    }

    async fn send_unsent(&self, hub: &Arc<Hub>) {
        while let Some((target, after)) = self.next_unsent().await {
            match self.read(hub, after, BATCH).await {
                Ok(page) => self.send_page(hub, &target, page).await,
                Err(error) => {
                    tracing::warn!(subscription = %self.id, %error, "retry: stored events cannot be read");
                    tokio::time::sleep(READ_DELAY).await;
                }
            }
            EventHub(Arc::clone(hub)).record_use(self);
            self.changed.notify_waiters();
        }
    }

    /// Waits until events are allowed to be sent to the target. Returns the target, and the sequence number after which
    /// the unsent events begin. Returns `None` if there are no unsent events or no target; the sending task then ends.
    async fn next_unsent(&self) -> Option<(Target, u64)> {
        let mut next = None;
        self.wait_until(|state| {
            if state.target.as_ref().is_some_and(|target| !target.is_open) {
                return false;
            }
            let unsent = state.unsent();
            let target = state.target.clone().filter(|_| unsent > 0);
            if target.is_none() || unsent < LOW_MARK {
                state.is_slow = false;
            }
            state.is_sending = target.is_some();
            next = target.map(|target| (target, state.cursor));
            true
        })
        .await;
        next
    }

    /// Sends events, until the target has ended or was replaced.
    async fn send_page(&self, hub: &Hub, target: &Target, page: Page) {
        let Page { events, until, mut dropped } = page;
        if events.is_empty() {
            // The store has removed these events.
            let mut state = self.state.lock();
            if state.has_target(target.key) {
                state.cursor = state.cursor.max(until);
            }
        }
        for (seq, event) in events {
            if !self.send(hub, target, seq, &event, dropped).await {
                break;
            }
            dropped = 0;
        }
    }

    /// Sends an event, unless the subscriber may no longer see it. Returns `false` if the target must not be used any
    /// more: it was replaced, has disconnected, or its API key has expired or was revoked.
    async fn send(
        &self,
        hub: &Hub,
        target: &Target,
        seq: u64,
        event: &PublishedEvent,
        dropped: u64,
    ) -> bool {
        if has_ended_key(&target.cx) {
            self.detach(target.key);
            return false;
        }
        {
            let mut state = self.state.lock();
            if !state.has_target(target.key) {
                return false;
            }
            state.cursor = state.cursor.max(seq);
            // Check access again: it may have been revoked since the event was published.
            if !state.may_see(hub, event) {
                return true;
            }
        }
        let sent = self.notify(target, event.to_json(Some(&self.id), seq, dropped)).await;
        if let Err(error) = &sent {
            tracing::debug!(subscription = %self.id, %error, "subscriber disconnected");
            self.detach(target.key);
        }
        sent.is_ok()
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
}
