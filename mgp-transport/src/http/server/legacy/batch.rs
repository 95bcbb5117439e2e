//! Batches: several messages in one array, a feature of revision 2025-03-26 only.

use std::sync::Arc;

use bytestring::ByteString;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{Response, StatusCode};
use mgp_types::Id;
use mgp_types::service::{Call, Context, Message, Method, Params, Principal, write_answer};

use super::super::ReceivedRequest;
use super::super::body::HttpBody;
use super::super::config::HttpConfig;
use super::super::headers::RequestHeaders;
use super::super::load::LoadGuard;
use super::super::post::{Post, context, encode_answer};
use super::super::refusal::{Refusal, empty, events, json};
use super::super::stream::push_data;
use super::session::Session;
use crate::connection::{MAX_SHORT_ANSWER, batch_too_long, read_reply};
use crate::scoped::{ScopedTask, spawn_scoped};

impl Post<'_> {
    /// Serves a batch: the answers are sent in one array, in the order in which they become ready.
    pub(in super::super) async fn batch(
        self,
        items: Vec<ByteString>,
    ) -> Result<Response<HttpBody>, Refusal> {
        if self.received.headers.is_modern() {
            return Err(Refusal::Batch);
        }
        let session = self.received.session(&self.principal)?;
        if !session.rules().accepts_batches() {
            return Err(Refusal::Batch);
        }
        let (received, mut busy) = (self.received, self.busy);
        busy.stop_running();
        let config = &received.state.config;
        let mut answers = Answers { array: Vec::new(), config, busy: busy.for_more_bytes() };
        let batch = Batch { received, session, principal: self.principal, busy: Arc::new(busy) };
        let mut waiting = FuturesUnordered::new();
        for item in items {
            match Message::parse(item) {
                Ok(Message::Request { id, method, params }) => {
                    match batch.request(id.clone(), method, params) {
                        Ok(answer) => waiting.push(answer),
                        Err(refusal) => answers.refuse(refusal, Some(id)),
                    }
                }
                Ok(Message::Notification { method, params }) => batch.notify(method, params),
                Ok(Message::Response { id, outcome }) => {
                    let sent_requests = batch.session.sent_requests();
                    if let Some((id, sent_requests)) = id.as_ref().zip(sent_requests) {
                        sent_requests
                            .complete(id, |cx| outcome.and_then(|result| read_reply(cx, result)));
                    }
                }
                Ok(Message::Batch(_)) => answers.refuse(Refusal::Batch, None),
                Err(bad) => {
                    if let Some(error) = bad.error {
                        answers.refuse(Refusal::Message(error, None), bad.id);
                    }
                }
            }
        }
        while let Some(answer) = waiting.next().await {
            if let Some((id, answer)) = answer {
                answers.push(Some(&id), answer);
            }
        }
        Ok(answers.into_response(&received.headers))
    }
}

/// The answers of a batch, as far as they have been collected, as a JSON array without its end. Long answers count
/// against the limit of bytes in memory.
struct Answers<'a> {
    array: Vec<u8>,
    config: &'a HttpConfig,
    busy: LoadGuard,
}

impl Answers<'_> {
    fn refuse(&mut self, refusal: Refusal, id: Option<Id>) {
        let answer = refusal.into_message(id);
        self.push(None, answer);
    }

    /// Adds an answer. Beyond a limit, the client gets an error instead of a long answer.
    fn push(&mut self, id: Option<&Id>, mut answer: Vec<u8>) {
        if answer.is_empty() {
            return;
        }
        // If there is not even room for its id, the error has none.
        for id in [id, None] {
            if self.make_room(answer.len()) {
                break;
            }
            answer.clear();
            let error = batch_too_long(self.config.body_bytes).without_recovery();
            write_answer(&mut answer, id, &Err(error));
        }
        self.array.push(if self.array.is_empty() { b'[' } else { b',' });
        self.array.extend_from_slice(&answer);
    }

    fn make_room(&mut self, size: usize) -> bool {
        if size <= MAX_SHORT_ANSWER {
            return true;
        }
        if self.array.len() + size > self.config.body_bytes {
            return false;
        }
        let is_counted = self.busy.add_bytes(size, self.config.held_bytes).is_ok();
        if !is_counted {
            self.busy.remove_bytes(size);
        }
        is_counted
    }

    /// Returns the response; a client that accepts only event streams gets the array as one event.
    fn into_response(mut self, headers: &RequestHeaders<'_>) -> Response<HttpBody> {
        if self.array.is_empty() {
            return empty(StatusCode::ACCEPTED);
        }
        self.array.push(b']');
        if headers.takes_json() {
            return json(StatusCode::OK, self.array);
        }
        let mut event = b"event: message\n".to_vec();
        push_data(&mut event, &self.array);
        events(event.into())
    }
}

/// The messages of one batch. If the client disconnects, their calls continue; until they end, the body counts against
/// the limit of bytes in memory.
struct Batch<'a> {
    received: &'a ReceivedRequest<'a>,
    session: Arc<Session>,
    principal: Principal,
    busy: Arc<LoadGuard>,
}

impl Batch<'_> {
    /// Starts a call of the batch, which counts in the limits like a single request.
    fn request(
        &self,
        id: Id,
        method: Method,
        params: Params,
    ) -> Result<ScopedTask<(Id, Vec<u8>)>, Refusal> {
        let (state, session) = (&self.received.state, &self.session);
        let running = state.load.admit(&self.principal, state.config.in_flight)?;
        let mut cx = self.context();
        cx.wire_id = Some(id.clone());
        let call = state.stack.send(Call::request(method, params, cx));
        let held = (session.running(), Arc::clone(&self.busy), running);
        Ok(spawn_scoped(session.scope(), async move {
            let _held = held;
            let answer = encode_answer(&id, &call.await);
            (id, answer)
        }))
    }

    fn notify(&self, method: Method, params: Params) {
        let call = Call::notification(method, params, self.context());
        let notifying = self.received.state.stack.send(call);
        let busy = Arc::clone(&self.busy);
        drop(spawn_scoped(self.session.scope(), async move {
            let _held = busy;
            notifying.await
        }));
    }

    fn context(&self) -> Context {
        let session = &self.session;
        context(session.peer(), session.scope(), session.principal(), self.received)
    }
}
