//! Sends the events of a subscription to its target (the connection or stream of the subscriber), and waits until
//! events are sent.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::mcp::key;
use mgp_types::method::{EventNotification, Notification as _};
use mgp_types::service::{Call, Context, Method, Params, ScopeId};
use tokio::time::Instant;

use super::{LOW_MARK, Subscription, SubscriptionState, Target};
use crate::event::EventHub;
use crate::event::draft::PublishedEvent;
use crate::event::hub::Hub;
use crate::event::sending::{SendingGuard, spawn};
use crate::event::viewer::has_ended_key;

/// The delay before the sending task reads the store again after a failed read.
const READ_DELAY: Duration = Duration::from_secs(1);

/// The maximum number of events that the sending task takes from the queue or the store at a time.
const BATCH: usize = 64;

/// The events that the sending task sends next, with their sequence numbers.
struct Batch {
    target: Target,
    events: Vec<(u64, Arc<PublishedEvent>)>,
    /// The number of events that were dropped before these.
    dropped: u64,
}

impl Subscription {
    pub(super) fn start_sending(self: &Arc<Self>, state: &mut SubscriptionState, hub: &Arc<Hub>) {
        let Some(target) = state.target.as_ref().filter(|_| !state.is_sending) else { return };
        let runtime = target.runtime.clone();
        state.is_sending = true;
        let sending = hub.sending.add(self);
        spawn(&runtime, Arc::clone(self).send_all(Arc::clone(hub), sending));
    }

    /// Waits until the subscriber has room for more events. If the subscriber still has no room at `deadline`, records
    /// that it is slow.
    pub(in crate::event) async fn wait_for_room(&self, deadline: Instant) {
        loop {
            let sent = self.sent.notified();
            if !self.is_behind() {
                return;
            }
            if tokio::time::timeout_at(deadline, sent).await.is_err() {
                if !self.is_slow.swap(true, Ordering::Relaxed) {
                    tracing::debug!(subscription = %self.id, "slow subscriber; events can be dropped");
                }
                return;
            }
        }
    }

    /// Waits until the events so far are sent, if the subscriber uses the connection or session `scope`. Stops waiting
    /// if no event was sent for the time `pause`.
    pub(in crate::event) async fn wait_sent(&self, scope: ScopeId, pause: Duration) {
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

    /// Waits until no event of the subscription is being sent.
    pub(in crate::event) async fn wait_idle(&self) {
        drop(self.sending.lock().await);
    }

    fn is_behind(&self) -> bool {
        let state = self.state.lock();
        state.target.is_some()
            && !state.is_ended
            && state.unsent() >= LOW_MARK
            && !self.is_slow.load(Ordering::Relaxed)
    }

    /// Sends the unsent events until there are none left, or until no connection or stream is attached.
    async fn send_all(self: Arc<Self>, hub: Arc<Hub>, _sending: SendingGuard<Self>) {
        loop {
            let taken =
                if self.is_durable { self.take_stored(&hub).await } else { self.take_batch() };
            let Some(Batch { mut target, events, mut dropped }) = taken else { break };
            if target.is_open.wait_for(|is_open| *is_open).await.is_err() {
                self.detach(target.key);
            }
            for (seq, event) in events {
                if !self.send(&hub, &target, seq, &event, dropped).await {
                    // The target has ended or was replaced. The next iteration of the outer loop takes the current
                    // target, if there is one.
                    break;
                }
                dropped = 0;
            }
            EventHub(Arc::clone(&hub)).record_use(&self);
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
            if !event.is_last() && !hub.sees(&state.viewer, &event.draft.subject) {
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

    /// Takes the next unsent events from the queue. Returns `None` if there are none or no target is attached; the
    /// sending task then ends.
    fn take_batch(&self) -> Option<Batch> {
        let mut state = self.state.lock();
        let (mut events, dropped) = state.after(state.cursor, BATCH);
        let target = state.target.clone().filter(|_| !state.is_ended && !events.is_empty());
        if target.is_none() || state.unsent() < LOW_MARK {
            self.is_slow.store(false, Ordering::Relaxed);
        }
        let Some(target) = target else {
            state.is_sending = false;
            return None;
        };
        events.shrink_to_fit();
        Some(Batch { target, events, dropped })
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
                    return Some(Batch { target, events, dropped });
                }
                Err(error) => {
                    tracing::warn!(subscription = %self.id, %error, "retry: stored events cannot be read");
                    tokio::time::sleep(READ_DELAY).await;
                }
            }
        }
    }
}
