//! Batches: several messages in one array, a feature of revision 2025-03-26 only.

use std::sync::Arc;

use bytestring::ByteString;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{Response, StatusCode};
use mgp_types::Id;
use mgp_types::service::{Call, Context, Message, Method, Params, Principal};

use super::super::ReceivedRequest;
use super::super::body::HttpBody;
use super::super::load::LoadGuard;
use super::super::post::{Post, context, encode_answer};
use super::super::refusal::{Refusal, empty, json};
use super::session::Session;
use crate::connection::read_reply;
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
        let busy = Arc::new(busy);
        let batch = Batch { received, session, principal: self.principal, busy };
        let mut waiting = FuturesUnordered::new();
        let mut answers: Vec<Vec<u8>> = Vec::new();
        for item in items {
            match Message::parse(item) {
                Ok(Message::Request { id, method, params }) => {
                    match batch.request(id.clone(), method, params) {
                        Ok(answer) => waiting.push(answer),
                        Err(refusal) => answers.push(refusal.into_message(Some(id))),
                    }
                }
                Ok(Message::Notification { method, params }) => batch.notify(method, params),
                Ok(Message::Response { id, outcome }) => {
                    let sent_requests = batch.session.sent_requests();
                    if let Some((id, sent_requests)) = id.as_ref().zip(sent_requests) {
                        sent_requests
                            .complete(id, |cx| outcome.map(|result| read_reply(cx, result)));
                    }
                }
                Ok(Message::Batch(_)) => answers.push(Refusal::Batch.into_message(None)),
                Err(bad) => {
                    if let Some(error) = bad.error {
                        answers.push(Refusal::Message(error, None).into_message(bad.id));
                    }
                }
            }
        }
        while let Some(answer) = waiting.next().await {
            answers.extend(answer.filter(|answer| !answer.is_empty()));
        }
        Ok(respond(&answers))
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
    ) -> Result<ScopedTask<Vec<u8>>, Refusal> {
        let (state, session) = (&self.received.state, &self.session);
        let running = state.load.admit(&self.principal, state.config.in_flight)?;
        let mut cx = self.context();
        cx.wire_id = Some(id.clone());
        let call = state.stack.send(Call::request(method, params, cx));
        let held = (session.running(), Arc::clone(&self.busy), running);
        Ok(spawn_scoped(session.scope(), async move {
            let _held = held;
            encode_answer(&id, &call.await)
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

fn respond(answers: &[Vec<u8>]) -> Response<HttpBody> {
    if answers.is_empty() {
        return empty(StatusCode::ACCEPTED);
    }
    let mut array = vec![b'['];
    array.extend_from_slice(&answers.join(&b','));
    array.push(b']');
    json(StatusCode::OK, array)
}
