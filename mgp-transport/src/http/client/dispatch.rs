//! Dispatch of received messages: answers go to the requests that wait for them, all other
//! messages to the inbound stack.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as Task, Waker};

use bytestring::ByteString;
use futures_util::future::{Either, select};
use mgp_types::service::{
    Call, CallKey, Context, InvalidMessage, Message, Method, Params, Peer, Principal, Reply,
    WireRules, write_answer,
};
use mgp_types::{ErrorCode, Id, RpcError};

use super::core::{Core, Job, SessionBinding};
use super::headers::post_headers;
use super::link::StreamLink;
use super::permits::Permit;
use super::session::SessionRef;
use crate::connection::read_reply;

/// The estimated memory of a message while it is handled, in addition to its text.
const MESSAGE_COST: usize = 512;

/// The response or stream in which a message was received.
#[derive(Clone, Copy, Debug)]
pub(super) enum MessageSource {
    /// The response to this legacy request of the client, sent in this session; `initialize` has no session.
    Request(i64, Option<SessionRef>),
    /// The response to this modern request of the client. The server must not send requests in it.
    Modern(i64),
    /// The GET stream of this session.
    Session(SessionRef),
}

impl MessageSource {
    fn number(self) -> Option<i64> {
        match self {
            Self::Request(number, _) | Self::Modern(number) => Some(number),
            Self::Session(_) => None,
        }
    }

    fn session_ref(self) -> Option<SessionRef> {
        match self {
            Self::Request(_, session_ref) => session_ref,
            Self::Session(session_ref) => Some(session_ref),
            Self::Modern(_) => None,
        }
    }
}

impl Core {
    /// Dispatches one message, or several in an array; never waits.
    pub(super) fn receive(self: &Arc<Self>, text: ByteString, from: MessageSource) {
        self.receive_one(text, from, true);
    }

    fn receive_one(self: &Arc<Self>, text: ByteString, from: MessageSource, may_be_array: bool) {
        let size = text.len() + MESSAGE_COST;
        match Message::parse_server_line(text) {
            Ok(Message::Response { id, outcome }) => {
                // An error without an id belongs to the request whose response contains it.
                let id = id.or_else(|| from.number().filter(|_| outcome.is_err()).map(Id::Number));
                let known = id.as_ref().is_some_and(|id| {
                    let pending = &self.send_half.pending;
                    pending.complete(id, |cx| outcome.and_then(|result| read_reply(cx, result)))
                });
                if !known {
                    tracing::debug!(?id, "ignored an answer to an unknown request");
                }
            }
            Ok(Message::Request { id, method, params }) => {
                self.serve(id, method, params, size, from);
            }
            Ok(Message::Notification { method, params }) => {
                self.notification(method, params, size, from);
            }
            Ok(Message::Batch(items)) => {
                let rules = self.scope.state::<WireRules>();
                if may_be_array && (rules.accepts_batches() || from.number().is_some()) {
                    for item in items {
                        self.receive_one(item, from, false);
                    }
                }
            }
            Err((InvalidMessage { error, .. }, _)) => {
                tracing::debug!(?error, "ignored a malformed message of the server");
            }
        }
    }

    fn inbound_context(self: &Arc<Self>, from: MessageSource) -> Context {
        let mut cx = self.context();
        if let Some(number) = from.number() {
            cx.peer = Peer::new(Arc::new(StreamLink { core: Arc::clone(self), number }));
        }
        cx.key = CallKey::next();
        cx
    }

    /// Returns the principal of the call to which a message of the server belongs. If the message belongs to no call,
    /// returns the principal of the connection.
    fn principal_of(&self, from: MessageSource) -> Principal {
        let number = from.number().map(Id::Number);
        let call = number.and_then(|id| self.send_half.pending.get(&id));
        call.map_or_else(|| self.principal.clone(), |call| call.cx.principal)
    }

    fn has_room(&self, size: usize) -> bool {
        self.counters.held.load(Ordering::Relaxed) + size <= self.limits.held_bytes
    }

    // === Requests of the server ===

    fn serve(
        self: &Arc<Self>,
        id: Id,
        method: Method,
        params: Params,
        size: usize,
        from: MessageSource,
    ) {
        if matches!(from, MessageSource::Modern(_)) {
            tracing::debug!(%method, "ignored a request: a modern server may not send any");
            return;
        }
        let core = Arc::clone(self);
        let permit = self.server_permits.try_acquire(&self.principal_of(from));
        let Some(permit) = permit.filter(|_| self.has_room(size)) else {
            self.counters.shed.fetch_add(1, Ordering::Relaxed);
            let error = RpcError::new(
                ErrorCode::RESOURCE_EXHAUSTED,
                "too many requests in flight on this connection; wait for some answers before sending more",
            );
            let takes_recovery = self.scope.state::<WireRules>().allows_recovery();
            let error = if takes_recovery { error } else { error.without_recovery() };
            self.spawn_task(async move { core.answer(&id, &Err(error), from).await });
            return;
        };
        let mut cx = self.inbound_context(from);
        cx.wire_id = Some(id.clone());
        let future = self.stack.send(Call::request(method, params, cx));
        let running = RunningRequest::new(core, size, permit);
        // The permits limit the number of these tasks.
        self.spawn_unlimited(async move {
            // If the session has ended, the server no longer knows its request and can reuse the id, so the answer is
            // dropped.
            let Some(outcome) = running.core.while_in_session(from, future).await else {
                tracing::debug!(%id, "dropped a server request: its session ended");
                return;
            };
            running.core.answer(&id, &outcome, from).await;
        });
    }

    /// Runs a future until it completes; returns `None` if the session of its message ends before.
    async fn while_in_session<T>(
        &self,
        from: MessageSource,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let Some(session_ref) = from.session_ref() else { return Some(work.await) };
        match select(pin!(self.session.ended(session_ref)), pin!(work)).await {
            Either::Left(_) => None,
            Either::Right((outcome, _)) => Some(outcome),
        }
    }

    async fn answer(
        self: &Arc<Self>,
        id: &Id,
        outcome: &Result<Reply, RpcError>,
        from: MessageSource,
    ) {
        let mut body = Vec::new();
        write_answer(&mut body, Some(id), outcome);
        if body.is_empty() {
            return;
        }
        let session = from.session_ref().map_or(SessionBinding::None, SessionBinding::Only);
        if let Err(error) = self.post(post_headers(), body.into(), session).await {
            tracing::debug!(%id, %error, "the server refused an answer");
        }
    }

    // === Notifications ===

    /// Passes a notification to the inbound stack.
    pub(super) fn notification(
        self: &Arc<Self>,
        method: Method,
        params: Params,
        size: usize,
        from: MessageSource,
    ) {
        let mut handling =
            self.stack.send(Call::notification(method, params, self.inbound_context(from)));
        // Most handlers complete immediately, so poll the handler here if no other handler waits. The others are queued
        // on the runner, which runs them one after another.
        let is_first = self.counters.waiting.load(Ordering::Relaxed) == 0;
        if is_first && handling.as_mut().poll(&mut Task::from_waker(Waker::noop())).is_ready() {
            return;
        }
        let counters = &self.counters;
        let is_full = counters.waiting.load(Ordering::Relaxed) >= self.limits.notifications;
        if is_full || !self.has_room(size) {
            counters.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        counters.waiting.fetch_add(1, Ordering::Relaxed);
        counters.held.fetch_add(size, Ordering::Relaxed);
        if !self.send_job(Job::Notification(size, handling)) {
            self.release_notification(size);
            counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Subtracts a handled notification from the counters.
    pub(super) fn release_notification(&self, size: usize) {
        self.counters.waiting.fetch_sub(1, Ordering::Relaxed);
        self.counters.held.fetch_sub(size, Ordering::Relaxed);
    }
}

struct RunningRequest {
    core: Arc<Core>,
    size: usize,
    _permit: Permit,
}

impl RunningRequest {
    fn new(core: Arc<Core>, size: usize, permit: Permit) -> Self {
        core.counters.running.fetch_add(1, Ordering::Relaxed);
        core.counters.held.fetch_add(size, Ordering::Relaxed);
        Self { core, size, _permit: permit }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        self.core.counters.running.fetch_sub(1, Ordering::Relaxed);
        self.core.counters.held.fetch_sub(self.size, Ordering::Relaxed);
    }
}
