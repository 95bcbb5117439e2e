//! Batches: several messages in one array, which only revision 2025-03-26 has.

use std::sync::Arc;

use bytestring::ByteString;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{Response, StatusCode};
use mgp_types::service::{Call, Message};

use super::super::body::HttpBody;
use super::super::post::{Post, context, written};
use super::super::refusal::{Refusal, empty, json};
use crate::connection::read_reply;
use crate::scoped::spawn_scoped;

impl Post<'_> {
    /// Serves a batch: the answers are sent in one array, in the order they are ready.
    pub(in super::super) async fn batch(
        self,
        items: Vec<ByteString>,
    ) -> Result<Response<HttpBody>, Refusal> {
        if self.received.headers.is_modern() {
            return Err(Refusal::Batch);
        }
        let session = self.received.session(&self.principal)?;
        if !session.rules().takes_batches() {
            return Err(Refusal::Batch);
        }
        // The calls continue when the client leaves, and so does the load of the body; the calls are counted one by one.
        let (received, mut busy) = (self.received, self.busy);
        busy.stop_running();
        let busy = Arc::new(busy);
        let bound = received.state.config.in_flight;
        let new_context =
            || context(session.peer(), session.scope(), session.principal(), received);
        let mut waiting = FuturesUnordered::new();
        let mut answers: Vec<Vec<u8>> = Vec::new();
        for item in items {
            match Message::parse(item) {
                Ok(Message::Request { id, method, params }) => {
                    // Each counts like a single request.
                    let running = match received.state.load.admit(&self.principal, bound) {
                        Ok(running) => running,
                        Err(refusal) => {
                            answers.push(refusal.into_message(Some(id)));
                            continue;
                        }
                    };
                    let mut cx = new_context();
                    cx.wire_id = Some(id.clone());
                    let call = received.state.stack.send(Call::request(method, params, cx));
                    let held = (session.running(), Arc::clone(&busy), running);
                    waiting.push(spawn_scoped(session.scope(), async move {
                        let _held = held;
                        written(&id, &call.await)
                    }));
                }
                Ok(Message::Notification { method, params }) => {
                    let call = Call::notification(method, params, new_context());
                    let notifying = received.state.stack.send(call);
                    let busy = Arc::clone(&busy);
                    drop(spawn_scoped(session.scope(), async move {
                        let _held = busy;
                        notifying.await
                    }));
                }
                Ok(Message::Response { id, outcome }) => {
                    if let Some((id, sent_requests)) = id.as_ref().zip(session.sent_requests()) {
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

fn respond(answers: &[Vec<u8>]) -> Response<HttpBody> {
    if answers.is_empty() {
        return empty(StatusCode::ACCEPTED);
    }
    let mut array = vec![b'['];
    array.extend_from_slice(&answers.join(&b','));
    array.push(b']');
    json(StatusCode::OK, array)
}
