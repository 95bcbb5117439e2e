//! Dispatching of messages: requests and notifications start calls, and answers complete calls of this side.

use std::sync::atomic::Ordering;
use std::task::{Context as Task, Poll};

use bytestring::ByteString;
use mgp_types::method::{Request as _, ServerDiscover, SubscriptionsListen};
use mgp_types::service::{Call, CallKey, Message, Method, Params, WireRules};
use mgp_types::{ErrorCode, Id, Payload, RpcError};

use super::closing::FlushReason;
use super::driver::Driver;
use super::gauges::CountedRequest;
use super::link::read_reply;
use super::notifications::is_report;
use super::priority::{extra_places, is_ping};
use super::running::{Batch, Running, RunningRequest};

impl<R, W> Driver<R, W> {
    pub(super) fn dispatch(
        &mut self,
        message: Message,
        size: usize,
        batch: Option<&Batch>,
        task: &mut Task<'_>,
    ) {
        match message {
            // After a write failed, no answer can be sent, so the call is not started.
            Message::Request { .. } if self.writing.has_failed => {}
            Message::Request { ref id, ref method, .. } if self.is_echo(id, method) => {
                tracing::warn!(?id, %method, "ignored a request that the child printed as it read it");
            }
            Message::Request { id, method, params } => {
                self.dispatch_request(id, method, params, size, batch, task);
            }
            Message::Notification { method, params } => {
                self.dispatch_notification(method, params, size, task);
            }
            Message::Response { id, outcome } => self.dispatch_response(id, outcome),
            Message::Batch(items) => self.dispatch_array(items, batch, task),
        }
    }

    /// Returns whether a request is an echo: this side sent it, and the child printed it back, e.g. because a terminal
    /// is between this side and the child. Such a request gets no answer: the child would print the answer too, and
    /// this side would take it for the answer to its own request. Pings and requests about tasks never count as echoes,
    /// because both sides send them, and the ids can be equal by chance.
    fn is_echo(&self, id: &Id, method: &Method) -> bool {
        let is_of_both = is_ping(method) || method.as_str().starts_with("tasks/");
        self.connection.is_child()
            && !is_of_both
            && self.connection.send_half.pending.is_of(id, method)
    }

    fn dispatch_request(
        &mut self,
        id: Id,
        method: Method,
        params: Params,
        size: usize,
        batch: Option<&Batch>,
        task: &mut Task<'_>,
    ) {
        if self.exceeds_limits(&method, size) {
            self.connection.counters.shed.fetch_add(1, Ordering::Relaxed);
            let error = RpcError::new(
                ErrorCode::RESOURCE_EXHAUSTED,
                "too many requests in flight on this connection; wait for some answers first",
            );
            return self.connection.refuse(Some(&id), batch, error);
        }
        let mut cx = self.cx.clone();
        cx.key = CallKey::next();
        cx.wire_id = Some(id.clone());
        if let Some(batch) = batch {
            batch.open();
        }
        let counted = CountedRequest::new(&self.connection.counters, size);
        let request = RunningRequest { id, batch: batch.cloned(), counted };
        let is_stream = method.as_str() == SubscriptionsListen::METHOD;
        let mut future = self.connection.stack.send(Call::request(method, params, cx));
        if !self.holds_answers()
            && let Poll::Ready(outcome) = future.as_mut().poll(task)
        {
            return self.connection.answer(request, &outcome);
        }
        self.calls.push(Running { request: Some(request), is_stream, future });
    }

    /// Returns whether a request must be refused at the limits of running calls and of their bytes. Small pings, and
    /// small requests for health or shutdown, can run beyond both, because a busy server must answer them.
    fn exceeds_limits(&self, method: &Method, size: usize) -> bool {
        let limits = &self.connection.limits;
        let held = self.connection.counters.held.load(Ordering::Relaxed);
        // A request may be of any size if no other bytes are held.
        let is_heavy = held > 0 && held.saturating_add(size) > limits.held_bytes;
        if !is_heavy && !self.has_too_many_calls() {
            return false;
        }
        let more = extra_places(method, size);
        is_heavy && more == 0 || self.calls.len() >= limits.in_flight.saturating_add(more)
    }

    fn dispatch_notification(
        &mut self,
        method: Method,
        params: Params,
        size: usize,
        task: &mut Task<'_>,
    ) {
        if !self.notifications.has_room(size, &self.connection.limits) {
            self.connection.counters.dropped.fetch_add(1, Ordering::Relaxed);
            if !is_report(method.as_str()) {
                self.closing.start_flush(FlushReason::Flooded);
            }
            return;
        }
        let mut cx = self.cx.clone();
        cx.key = CallKey::next();
        let mut handling = self.connection.stack.send(Call::notification(method, params, cx));
        if self.notifications.is_empty() && handling.as_mut().poll(task).is_ready() {
            return;
        }
        self.notifications.push(size, handling);
    }

    fn dispatch_response(&self, id: Option<Id>, outcome: Result<Payload, RpcError>) {
        let pending = &self.connection.send_half.pending;
        // Some legacy servers cannot parse `server/discover`, with which the client finds out the era, so their error
        // has no id. The error counts as the answer to that request.
        let id =
            id.or_else(|| pending.first_of(ServerDiscover::METHOD).filter(|_| outcome.is_err()));
        let known = id.as_ref().is_some_and(|id| {
            pending.complete(id, |cx| outcome.and_then(|result| read_reply(cx, result)))
        });
        if !known {
            tracing::debug!(?id, "ignored an answer to an unknown request");
        }
    }

    /// Dispatches the messages of an array. If `outer` is set, the array is itself an item of that batch, and is
    /// refused, because batches cannot contain batches.
    fn dispatch_array(
        &mut self,
        mut items: Vec<ByteString>,
        outer: Option<&Batch>,
        task: &mut Task<'_>,
    ) {
        let accepts_batches = self.connection.scope.state::<WireRules>().accepts_batches();
        let batch = if outer.is_none() && accepts_batches {
            let batch = Batch::new(&self.connection.counters);
            // The batch itself counts as one message without answer until all its messages are dispatched; otherwise a
            // fast answer would complete the batch too early.
            batch.open();
            Some(batch)
        } else if outer.is_none() && self.connection.is_child() {
            // Some servers write each answer in an array, in any revision. If these answers were ignored, the calls
            // would wait for their time limits. Values that are not objects are ignored.
            items.retain(|item| item.starts_with('{'));
            None
        } else {
            let error = RpcError::invalid_request(
                "batches (several messages in one array) are not part of this revision",
            );
            return self.connection.refuse(None, outer, error);
        };
        for item in items {
            if let Some((message, size)) = self.connection.parse_message(item, batch.as_ref()) {
                self.dispatch(message, size, batch.as_ref(), task);
            }
        }
        if let Some(batch) = batch {
            self.connection.answer_batch(&batch, &[]);
        }
    }
}
