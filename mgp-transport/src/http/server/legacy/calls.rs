//! Messages in a session: if the client disconnects, its call continues, and the answer is kept for a client that
//! reconnects.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};

use http::{HeaderName, HeaderValue, Response, StatusCode};
use mgp_types::method::{Initialize, Request as _};
use mgp_types::service::{BoxFuture, Call, Method, Params, Reply};
use mgp_types::{Id, Payload, RpcError};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::super::body::HttpBody;
use super::super::event_body::{EventBody, StreamReader};
use super::super::load::LoadGuard;
use super::super::post::{Post, context, encode_answer};
use super::super::refusal::{Refusal, empty, events, json};
use super::super::stream::{FirstOutput, Stream};
use super::super::{ReceivedRequest, ServerState};
use super::session::{OpenCall, Session};
use crate::connection::read_reply;
use crate::scoped::spawn_scoped;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The maximum length of a request that opens a session, in bytes: a session keeps what its client declares.
const MAX_OPENING_BYTES: usize = 65_536;

impl Post<'_> {
    /// Serves a request in a session; the call continues if the client disconnects.
    pub(in super::super) async fn answer_legacy(
        self,
        id: Id,
        method: Method,
        params: Params,
    ) -> Result<Response<HttpBody>, Refusal> {
        let opens =
            method.as_str() == Initialize::METHOD && self.received.headers.session.is_none();
        if !opens {
            let session = self.received.session(&self.principal)?;
            return self.answer_in_session(&session, id, method, params).await;
        }
        self.received.headers.check_legacy_revision()?;
        if self.size > MAX_OPENING_BYTES {
            return Err(Refusal::BodyTooLong(MAX_OPENING_BYTES));
        }
        let state = Arc::clone(self.received.state);
        let session = state.sessions.open(self.principal.clone())?;
        let opening = OpeningSession { state: &state, session: &session };
        let mut response = self.answer_in_session(&session, id, method, params).await?;
        if opening.is_settled()
            && let Ok(id) = HeaderValue::from_str(session.id())
        {
            response.headers_mut().insert(SESSION, id);
        }
        Ok(response)
    }

    async fn answer_in_session(
        self,
        session: &Arc<Session>,
        id: Id,
        method: Method,
        params: Params,
    ) -> Result<Response<HttpBody>, Refusal> {
        let Self { received, load, .. } = self;
        let state = received.state;
        let mut cx = context(session.peer(), session.scope(), session.principal(), received);
        cx.wire_id = Some(id.clone());
        let open = session.open(cx.key);
        // The session might have ended since it was found. Nothing has run yet, so the client can safely retry in
        // another session.
        if session.is_ended() {
            return Err(Refusal::UnknownSession);
        }
        let stream = Arc::clone(&open.stream);
        let reader = received.attach_reader(&stream);
        let call = state.stack.send(Call::request(method, params, cx));
        let awaited =
            AwaitedCall { session, running: Some(SessionCall { id, call, open, _load: load }) };
        respond_from(&stream, awaited, reader, received).await
    }

    pub(in super::super) fn notify_legacy(
        self,
        method: Method,
        params: Params,
    ) -> Result<Response<HttpBody>, Refusal> {
        let session = self.received.session(&self.principal)?;
        let cx = context(session.peer(), session.scope(), session.principal(), self.received);
        let notifying = self.received.state.stack.send(Call::notification(method, params, cx));
        let load = self.load;
        drop(spawn_scoped(session.scope(), async move {
            let _held = load;
            // Ignore the outcome: a notification gets no answer, and its handlers log their errors themselves.
            let _ = notifying.await;
        }));
        Ok(empty(StatusCode::ACCEPTED))
    }

    /// Receives the client's answer to a request that the server sent.
    pub(in super::super) fn accept_response(
        self,
        id: Option<&Id>,
        outcome: Result<Payload, RpcError>,
    ) -> Result<Response<HttpBody>, Refusal> {
        if self.received.headers.is_modern() {
            return Err(Refusal::NoServerRequests);
        }
        let session = self.received.session(&self.principal)?;
        let known = id.zip(session.sent_requests()).is_some_and(|(id, sent_requests)| {
            sent_requests.complete(id, |cx| outcome.and_then(|result| read_reply(cx, result)))
        });
        if !known {
            tracing::debug!(?id, "ignored an answer to an unknown request");
        }
        Ok(empty(StatusCode::ACCEPTED))
    }
}

/// A running call, and the resources that it occupies.
struct SessionCall {
    id: Id,
    call: BoxFuture<'static, Result<Reply, RpcError>>,
    open: OpenCall,
    _load: LoadGuard,
}

impl Future for SessionCall {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<()> {
        let outcome = ready!(self.call.as_mut().poll(task));
        self.open.stream.finish(encode_answer(&self.id, &outcome));
        Poll::Ready(())
    }
}

/// A call whose HTTP request is still waiting for the answer. The future of the HTTP request polls the call, which
/// costs less than a separate task.
///
/// If the client disconnects, this value is dropped; the call then continues in a task of the session.
struct AwaitedCall<'a> {
    session: &'a Session,
    running: Option<SessionCall>,
}

impl AwaitedCall<'_> {
    fn drive(&mut self, task: &mut Task<'_>) {
        // The call is taken out while it is polled, so that a call that panics is never polled again.
        if let Some(mut running) = self.running.take()
            && Pin::new(&mut running).poll(task).is_pending()
        {
            self.running = Some(running);
        }
    }
}

impl Drop for AwaitedCall<'_> {
    fn drop(&mut self) {
        // Outside of a runtime, the call cannot continue, and is dropped.
        if let Some(running) = self.running.take()
            && Handle::try_current().is_ok()
        {
            drop(spawn_scoped(self.session.scope(), running));
        }
    }
}

/// A guard for a session during its handshake; it ends the session if the handshake does not complete.
struct OpeningSession<'a> {
    state: &'a ServerState,
    session: &'a Session,
}

impl OpeningSession<'_> {
    fn is_settled(&self) -> bool {
        self.session.rules().revision().is_some()
    }
}

impl Drop for OpeningSession<'_> {
    fn drop(&mut self) {
        if !self.is_settled() {
            self.state.sessions.close(self.session);
        }
    }
}

/// Answers an HTTP request with the output of its call, as JSON or as an event stream.
async fn respond_from(
    stream: &Stream,
    mut awaited: AwaitedCall<'_>,
    reader: StreamReader,
    received: &ReceivedRequest<'_>,
) -> Result<Response<HttpBody>, Refusal> {
    let (config, session) = (&received.state.config, awaited.session);
    let begin = poll_fn(|task| {
        awaited.drive(task);
        stream.poll_first_output(task)
    });
    match timeout(received.stream_delay(), begin).await {
        Ok(FirstOutput::Answer(answer)) if received.answers_in_json() => {
            received.check_credentials_of_call()?;
            return Ok(json(StatusCode::OK, answer));
        }
        Ok(FirstOutput::Answer(answer)) => {
            return Ok(events(stream.encode_event(0, &answer).into()));
        }
        Ok(FirstOutput::Nothing) if session.is_ended() => return Err(Refusal::SessionEnded),
        // The call was cancelled, so the client expects no answer.
        Ok(FirstOutput::Nothing) => return Ok(empty(StatusCode::ACCEPTED)),
        Ok(FirstOutput::Events) => {}
        Err(_) => stream.begin_events(session.supports_priming().then_some(config.retry_delay)),
    }
    let body = EventBody::new(reader, config.keep_alive_interval).with_grant(received.grant());
    Ok(events(HttpBody::events(body)))
}
