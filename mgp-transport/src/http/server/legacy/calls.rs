//! Messages in a session: a call goes on when its client leaves, and waits for it to come back.
//!
//! Applies to: inbound.

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
use super::super::config::Answers;
use super::super::events::{Events, Reader};
use super::super::load::Busy;
use super::super::post::{Post, context, written};
use super::super::refusal::{Refusal, empty, events, json};
use super::super::stream::{Begin, Stream};
use super::super::{Came, Shared};
use super::session::{OpenCall, Session};
use crate::connection::read_reply;
use crate::scoped::spawn_scoped;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

impl Post<'_> {
    /// A request in a session: it goes on when its client leaves.
    pub(in super::super) async fn legacy(
        self,
        id: Id,
        method: Method,
        params: Params,
    ) -> Result<Response<HttpBody>, Refusal> {
        let opens = method.as_str() == Initialize::METHOD && self.came.heads.session.is_none();
        if !opens {
            let session = self.came.session(&self.principal)?;
            return self.in_session(&session, id, method, params).await;
        }
        self.came.heads.legacy(None)?;
        let shared = Arc::clone(self.came.shared);
        let session = shared.sessions.open(self.principal.clone())?;
        let opening = Opening { shared: &shared, session: &session };
        let mut response = self.in_session(&session, id, method, params).await?;
        if opening.is_settled()
            && let Ok(id) = HeaderValue::from_str(session.id())
        {
            response.headers_mut().insert(SESSION, id);
        }
        Ok(response)
    }

    async fn in_session(
        self,
        session: &Arc<Session>,
        id: Id,
        method: Method,
        params: Params,
    ) -> Result<Response<HttpBody>, Refusal> {
        let Self { came, busy, .. } = self;
        let shared = came.shared;
        let mut cx = context(session.peer(), session.scope(), session.principal(), came);
        cx.wire_id = Some(id.clone());
        let open = session.open(cx.key);
        // It may have ended since it was found; nothing has run, so the client may safely ask again in another.
        if session.is_over() {
            return Err(Refusal::UnknownSession);
        }
        let stream = Arc::clone(&open.stream);
        let reader = Reader::new(&stream, None);
        let call = shared.stack.send(Call::request(method, params, cx));
        let attended = Attended { session, running: Some(Running { id, call, open, _busy: busy }) };
        answer_from(&stream, attended, reader, came).await
    }

    pub(in super::super) fn tell_legacy(
        self,
        method: Method,
        params: Params,
    ) -> Result<Response<HttpBody>, Refusal> {
        let session = self.came.session(&self.principal)?;
        let cx = context(session.peer(), session.scope(), session.principal(), self.came);
        let telling = self.came.shared.stack.send(Call::notification(method, params, cx));
        let busy = self.busy;
        drop(spawn_scoped(session.scope(), async move {
            let _held = busy;
            // A notification has no answer; what it meets is logged by whoever meets it.
            let _ = telling.await;
        }));
        Ok(empty(StatusCode::ACCEPTED))
    }

    /// The answer to a question of ours.
    pub(in super::super) fn answered(
        self,
        id: Option<&Id>,
        outcome: Result<Payload, RpcError>,
    ) -> Result<Response<HttpBody>, Refusal> {
        if self.came.heads.is_modern() {
            return Err(Refusal::NoQuestions);
        }
        let session = self.came.session(&self.principal)?;
        let known = id.zip(session.asked()).is_some_and(|(id, asked)| {
            asked.complete(id, |cx| outcome.map(|result| read_reply(cx, result)))
        });
        if !known {
            tracing::debug!(?id, "an answer to nothing we asked");
        }
        Ok(empty(StatusCode::ACCEPTED))
    }
}

/// A call that runs, and what it holds.
struct Running {
    id: Id,
    call: BoxFuture<'static, Result<Reply, RpcError>>,
    open: OpenCall,
    _busy: Busy,
}

impl Future for Running {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<()> {
        let outcome = ready!(self.call.as_mut().poll(task));
        self.open.stream.finish(written(&self.id, &outcome));
        Poll::Ready(())
    }
}

/// A call as long as somebody waits for its answer; whoever does drives it, which costs less than a task.
///
/// The session owns it: dropped, it goes on there, and whoever reads its stream may leave and come back.
struct Attended<'a> {
    session: &'a Session,
    running: Option<Running>,
}

impl Attended<'_> {
    fn drive(&mut self, task: &mut Task<'_>) {
        // Taken out while it is polled, so that one that panics is not polled again.
        if let Some(mut running) = self.running.take()
            && Pin::new(&mut running).poll(task).is_pending()
        {
            self.running = Some(running);
        }
    }
}

impl Drop for Attended<'_> {
    fn drop(&mut self) {
        // Where the runtime is gone nothing goes on.
        if let Some(running) = self.running.take()
            && Handle::try_current().is_ok()
        {
            drop(spawn_scoped(self.session.scope(), running));
        }
    }
}

/// A session that is not settled yet; it ends where it never is.
struct Opening<'a> {
    shared: &'a Shared,
    session: &'a Session,
}

impl Opening<'_> {
    fn is_settled(&self) -> bool {
        self.session.rules().revision().is_some()
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        if !self.is_settled() {
            self.shared.sessions.close(self.session);
        }
    }
}

/// Answers from the stream of a call.
async fn answer_from(
    stream: &Stream,
    mut attended: Attended<'_>,
    reader: Reader,
    came: &Came<'_>,
) -> Result<Response<HttpBody>, Refusal> {
    let (config, session) = (&came.shared.config, attended.session);
    let begin = poll_fn(|task| {
        attended.drive(task);
        stream.poll_begin(task)
    });
    match timeout(config.quiet, begin).await {
        Ok(Begin::Answer(answer)) if config.answers == Answers::AsNeeded => {
            return Ok(json(StatusCode::OK, answer));
        }
        Ok(Begin::Answer(answer)) => return Ok(events(stream.event(0, &answer).into())),
        Ok(Begin::Nothing) if session.is_over() => return Err(Refusal::Ended),
        // It was cancelled, so nobody waits.
        Ok(Begin::Nothing) => return Ok(empty(StatusCode::ACCEPTED)),
        Ok(Begin::Events) => {}
        Err(_) => stream.as_events(session.may_prime().then_some(config.retry)),
    }
    let body = Events::new(reader, config.keep_alive).for_holder_of(came.pass());
    Ok(events(HttpBody::events(body)))
}
