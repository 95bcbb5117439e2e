//! What is done with a message that came: answers to their requests, the rest to the inbound stack.
//!
//! Applies to: inbound.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context as Task, Waker};

use bytestring::ByteString;
use futures_util::future::{Either, select};
use mgp_types::service::{
    BadMessage, Call, CallKey, Context, Message, Method, Params, Peer, Reply, WireRules,
    write_answer,
};
use mgp_types::{ErrorCode, Id, RpcError};

use super::core::{Core, Job, Place};
use super::headers::posting;
use super::link::StreamLink;
use super::session::Lease;
use crate::connection::read_reply;

/// What a message costs while it is handled, besides its text.
const COST: usize = 512;

/// Where a message came from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// The answer of this legacy request of ours, in its session; `initialize` is in none.
    Request(i64, Option<Lease>),
    /// The answer of this modern one: the server may ask nothing there.
    Modern(i64),
    /// The stream of no request, in this session.
    Session(Lease),
}

impl Origin {
    fn number(self) -> Option<i64> {
        match self {
            Self::Request(number, _) | Self::Modern(number) => Some(number),
            Self::Session(_) => None,
        }
    }

    fn lease(self) -> Option<Lease> {
        match self {
            Self::Request(_, lease) => lease,
            Self::Session(lease) => Some(lease),
            Self::Modern(_) => None,
        }
    }
}

impl Core {
    /// Takes one message, or several in an array; never waits.
    pub(super) fn take(self: &Arc<Self>, text: ByteString, from: Origin) {
        self.take_one(text, from, true);
    }

    fn take_one(self: &Arc<Self>, text: ByteString, from: Origin, may_be_array: bool) {
        let size = text.len() + COST;
        match Message::parse(text) {
            Ok(Message::Response { id, outcome }) => {
                // An error under no id is for the request whose answer it came as.
                let id = id.or_else(|| from.number().filter(|_| outcome.is_err()).map(Id::Number));
                let known = id.as_ref().is_some_and(|id| {
                    let pending = &self.send_half.pending;
                    pending.complete(id, |cx| outcome.map(|result| read_reply(cx, result)))
                });
                if !known {
                    tracing::debug!(?id, "an answer to no request of ours");
                }
            }
            Ok(Message::Request { id, method, params }) => {
                self.serve(id, method, params, size, from);
            }
            Ok(Message::Notification { method, params }) => {
                self.notice(method, params, size, from);
            }
            Ok(Message::Batch(items)) => {
                let rules = self.scope.state::<WireRules>();
                if may_be_array && (rules.takes_batches() || from.number().is_some()) {
                    for item in items {
                        self.take_one(item, from, false);
                    }
                }
            }
            Err(BadMessage { error, .. }) => {
                tracing::debug!(?error, "what the server sent is no message");
            }
        }
    }

    fn surroundings(self: &Arc<Self>, from: Origin) -> Context {
        let mut cx = self.context();
        if let Some(number) = from.number() {
            cx.peer = Peer::new(Arc::new(StreamLink { core: Arc::clone(self), number }));
        }
        cx.key = CallKey::next();
        cx
    }

    fn has_room(&self, size: usize) -> bool {
        self.counters.held.load(Ordering::Relaxed) + size <= self.limits.held_bytes
    }

    // === Requests of the server ===

    fn serve(self: &Arc<Self>, id: Id, method: Method, params: Params, size: usize, from: Origin) {
        if matches!(from, Origin::Modern(_)) {
            tracing::debug!(%method, "a server of the modern era may not send requests");
            return;
        }
        let core = Arc::clone(self);
        let running = self.counters.running.load(Ordering::Relaxed);
        if running >= self.wire.config.server_requests || !self.has_room(size) {
            self.counters.shed.fetch_add(1, Ordering::Relaxed);
            let error = RpcError::new(
                ErrorCode::RESOURCE_EXHAUSTED,
                "too many requests in flight on this connection; wait for some answers before you ask more",
            );
            let told = self.scope.state::<WireRules>().tells_recovery();
            let error = if told { error } else { error.without_recovery() };
            self.give(async move { core.answer(&id, &Err(error), from).await });
            return;
        }
        let mut cx = self.surroundings(from);
        cx.wire_id = Some(id.clone());
        let future = self.stack.send(Call::request(method, params, cx));
        let running = Running::new(core, size);
        self.give(async move {
            // A server that lost the session has forgotten the question, and may ask another under its id.
            let Some(outcome) = running.core.while_in_session(from, future).await else {
                tracing::debug!(%id, "a question of the server ended with its session");
                return;
            };
            running.core.answer(&id, &outcome, from).await;
        });
    }

    /// Runs something as long as the session lasts in which it came.
    async fn while_in_session<T>(&self, from: Origin, work: impl Future<Output = T>) -> Option<T> {
        let Some(lease) = from.lease() else { return Some(work.await) };
        match select(pin!(self.session.over(lease)), pin!(work)).await {
            Either::Left(_) => None,
            Either::Right((outcome, _)) => Some(outcome),
        }
    }

    async fn answer(self: &Arc<Self>, id: &Id, outcome: &Result<Reply, RpcError>, from: Origin) {
        let mut body = Vec::new();
        write_answer(&mut body, Some(id), outcome);
        if body.is_empty() {
            return;
        }
        let place = from.lease().map_or(Place::Nowhere, Place::ThisSession);
        if let Err(error) = self.post(posting(), body.into(), place).await {
            tracing::debug!(%id, %error, "the server did not take an answer");
        }
    }

    // === Notifications ===

    fn notice(self: &Arc<Self>, method: Method, params: Params, size: usize, from: Origin) {
        let mut handling =
            self.stack.send(Call::notification(method, params, self.surroundings(from)));
        // Most are done at once; the others take turns at the runner.
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
        if !self.job(Job::Notice(size, handling)) {
            self.noticed(size);
            counters.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives back what a waiting notification held.
    pub(super) fn noticed(&self, size: usize) {
        self.counters.waiting.fetch_sub(1, Ordering::Relaxed);
        self.counters.held.fetch_sub(size, Ordering::Relaxed);
    }
}

/// A request of the server that runs.
struct Running {
    core: Arc<Core>,
    size: usize,
}

impl Running {
    fn new(core: Arc<Core>, size: usize) -> Self {
        core.counters.running.fetch_add(1, Ordering::Relaxed);
        core.counters.held.fetch_add(size, Ordering::Relaxed);
        Self { core, size }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.core.counters.running.fetch_sub(1, Ordering::Relaxed);
        self.core.counters.held.fetch_sub(self.size, Ordering::Relaxed);
    }
}
