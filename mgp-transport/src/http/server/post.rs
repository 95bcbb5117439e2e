//! A message that was sent: to which era it belongs, what it becomes, how it is answered.
//!
//! Applies to: inbound.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use bytestring::ByteString;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body::Body;
use mgp_types::mcp::Era;
use mgp_types::method::{Initialize, Request as _, ToolsCall};
use mgp_types::service::{
    Call, Context, Kind, Message, MetaKey, Method, Params, Peer, Principal, Reply, Scope,
    write_answer,
};
use mgp_types::{ErrorCode, Id, Payload, RpcError};
use tokio::time::timeout;

use super::body::HttpBody;
use super::config::{Answers, HttpConfig};
use super::events::{Driven, Events, Reader};
use super::legacy::Session;
use super::load::Busy;
use super::modern::PostLink;
use super::refusal::{Refusal, empty, events, json};
use super::stream::{Begin, Stream};
use super::{Came, Shared, heads, read};
use crate::connection::read_reply;
use crate::own;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Answers a POST.
pub(super) async fn post<B>(came: Came<'_>, body: B) -> Result<Response<HttpBody>, Refusal>
where
    B: Body<Data = Bytes>,
{
    let config = &came.shared.config;
    if !came.heads.content_type.is_some_and(is_json) {
        return Err(Refusal::ContentType);
    }
    if !came.heads.takes_both() {
        return Err(Refusal::Accept);
    }
    let mut busy = came.shared.load.enter(config.in_flight)?;
    let text = read::text(&came.heads, body, config, &mut busy).await?;
    let message = Message::parse(text).map_err(|bad| {
        let error = bad.error.unwrap_or_else(|| RpcError::invalid_request("an unreadable answer"));
        Refusal::Message(error.without_recovery(), bad.id)
    })?;
    let post = Post { came, busy };
    match message {
        Message::Request { id, method, params } => {
            let asked = id.clone();
            let answer = match came.heads.era(Kind::Request, &method, &params) {
                Ok(Era::Modern) => post.modern(id, method, params).await,
                Ok(Era::Legacy) => post.legacy(id, method, params).await,
                Err(refusal) => Err(refusal),
            };
            answer.or_else(|refusal| Ok(refusal.of(Some(asked))))
        }
        Message::Notification { method, params } => {
            match came.heads.era(Kind::Notification, &method, &params)? {
                Era::Modern => post.tell_modern(method, params).await,
                Era::Legacy => post.tell_legacy(method, params),
            }
        }
        Message::Response { id, outcome } => post.answered(id.as_ref(), outcome),
        Message::Batch(items) => post.batch(items).await,
    }
}

fn is_json(kind: &str) -> bool {
    kind == "application/json"
        || kind
            .split(';')
            .next()
            .is_some_and(|essence| essence.trim().eq_ignore_ascii_case("application/json"))
}

/// One message, and where it came from.
struct Post<'a> {
    came: Came<'a>,
    busy: Busy,
}

impl Post<'_> {
    fn context(peer: Peer, scope: &Scope, principal: &Principal, id: Id) -> Context {
        let mut cx = Context::new(peer, scope.clone(), principal.clone());
        cx.wire_id = Some(id);
        cx
    }

    // === Modern ===

    /// A request that stands alone: it ends when its client leaves.
    async fn modern(
        self,
        id: Id,
        method: Method,
        params: Params,
    ) -> Result<Response<HttpBody>, Refusal> {
        let Self { came, busy } = self;
        let shared = came.shared;
        let config = &shared.config;
        let within = shared.callers.enter(came.principal());
        let stream = Arc::new(Stream::new(None, Arc::clone(&shared.store)));
        let reader = Reader::new(&stream, None);
        let peer = PostLink::peer(&stream);
        let mut cx = Self::context(peer, &within.scope, &within.principal, id.clone());
        if method.as_str() == ToolsCall::METHOD {
            cx.extensions.insert(heads::params(&came.parts.headers));
        }
        let says_all = params.meta_member(MetaKey::ClientCapabilities).is_some();
        let mut call = shared.stack.send(Call::request(method, params, cx));
        let mut outcome = None;
        let begin = poll_fn(|task| match call.as_mut().poll(task) {
            Poll::Ready(ended) => {
                outcome = Some(ended);
                Poll::Ready(())
            }
            Poll::Pending => stream.poll_begin(task).map(drop),
        });
        // A call that is silent for long is answered with a stream.
        let _ = timeout(config.quiet, begin).await;
        if let Some(outcome) = outcome {
            let answer = written(&id, &outcome);
            // It was cancelled before it said anything, so nobody waits.
            if answer.is_empty() && stream.is_silent() {
                return Ok(empty(StatusCode::ACCEPTED));
            }
            if stream.is_silent() && config.answers == Answers::AsNeeded {
                return Ok(json(status(&outcome, says_all), answer));
            }
            stream.as_events(None);
            stream.finish(answer);
            return Ok(events(stream.take_all().into()));
        }
        stream.as_events(None);
        let driven = Driven::new(id, call, (within, busy));
        let body = Events::new(reader, config.keep_alive).driving(driven);
        Ok(events(HttpBody::events(body)))
    }

    async fn tell_modern(
        self,
        method: Method,
        params: Params,
    ) -> Result<Response<HttpBody>, Refusal> {
        let within = self.came.shared.callers.enter(self.came.principal());
        let cx = Context::new(Peer::none(), within.scope.clone(), within.principal.clone());
        let telling = self.came.shared.stack.send(Call::notification(method, params, cx));
        // A notification has no answer; what it meets is logged by whoever meets it.
        let _ = telling.await;
        Ok(empty(StatusCode::ACCEPTED))
    }

    // === Legacy ===

    /// A request in a session: it goes on when its client leaves.
    async fn legacy(
        self,
        id: Id,
        method: Method,
        params: Params,
    ) -> Result<Response<HttpBody>, Refusal> {
        let opens = method.as_str() == Initialize::METHOD && self.came.heads.session.is_none();
        if !opens {
            let session = self.came.session()?;
            return self.in_session(&session, id, method, params).await;
        }
        self.came.heads.legacy(None)?;
        let shared = Arc::clone(self.came.shared);
        let session = shared.sessions.open(self.came.principal())?;
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
        let Self { came, busy } = self;
        let shared = came.shared;
        let config = &shared.config;
        let cx = Self::context(session.peer(), session.scope(), session.principal(), id.clone());
        let open = session.open(cx.key);
        // It may have ended since it was found; nothing has run, so the client may safely ask again in another.
        if session.is_over() {
            return Err(Refusal::UnknownSession);
        }
        let stream = Arc::clone(&open.stream);
        let reader = Reader::new(&stream, None);
        let mut call = shared.stack.send(Call::request(method, params, cx));
        let first = poll_fn(|task| Poll::Ready(call.as_mut().poll(task))).await;
        match first {
            Poll::Ready(outcome) => stream.finish(written(&id, &outcome)),
            Poll::Pending => {
                let stream = Arc::clone(&stream);
                // The session owns it from here on; whoever reads its stream may leave and come back.
                drop(own(session.scope(), async move {
                    let _held = (open, busy);
                    let outcome = call.await;
                    stream.finish(written(&id, &outcome));
                }));
            }
        }
        answer_from(&stream, reader, config, session).await
    }

    fn tell_legacy(self, method: Method, params: Params) -> Result<Response<HttpBody>, Refusal> {
        let session = self.came.session()?;
        let cx = Context::new(session.peer(), session.scope().clone(), session.principal().clone());
        let telling = self.came.shared.stack.send(Call::notification(method, params, cx));
        let busy = self.busy;
        drop(own(session.scope(), async move {
            let _held = busy;
            // As above.
            let _ = telling.await;
        }));
        Ok(empty(StatusCode::ACCEPTED))
    }

    /// The answer to a question of ours.
    fn answered(
        self,
        id: Option<&Id>,
        outcome: Result<Payload, RpcError>,
    ) -> Result<Response<HttpBody>, Refusal> {
        if self.came.heads.is_modern() {
            return Err(Refusal::NoQuestions);
        }
        let session = self.came.session()?;
        let known = id.zip(session.asked()).is_some_and(|(id, asked)| {
            asked.answer(id, |cx| outcome.map(|result| read_reply(cx, result)))
        });
        if !known {
            tracing::debug!(?id, "an answer to nothing we asked");
        }
        Ok(empty(StatusCode::ACCEPTED))
    }

    /// Several messages at once (2025-03-26 only): their answers come in one array, in the order they are ready.
    async fn batch(self, items: Vec<ByteString>) -> Result<Response<HttpBody>, Refusal> {
        if self.came.heads.is_modern() {
            return Err(Refusal::Batch);
        }
        let session = self.came.session()?;
        if !session.rules().takes_batches() {
            return Err(Refusal::Batch);
        }
        // Its calls go on when the client leaves, and so does what the body weighs.
        let busy = Arc::new(self.busy);
        let mut waiting = FuturesUnordered::new();
        let mut answers: Vec<Vec<u8>> = Vec::new();
        for item in items {
            match Message::parse(item) {
                Ok(Message::Request { id, method, params }) => {
                    let cx = Self::context(
                        session.peer(),
                        session.scope(),
                        session.principal(),
                        id.clone(),
                    );
                    let call = self.came.shared.stack.send(Call::request(method, params, cx));
                    let held = (session.running(), Arc::clone(&busy));
                    waiting.push(own(session.scope(), async move {
                        let _held = held;
                        written(&id, &call.await)
                    }));
                }
                Ok(Message::Notification { method, params }) => {
                    let cx = Context::new(
                        session.peer(),
                        session.scope().clone(),
                        session.principal().clone(),
                    );
                    let telling =
                        self.came.shared.stack.send(Call::notification(method, params, cx));
                    let busy = Arc::clone(&busy);
                    drop(own(session.scope(), async move {
                        let _held = busy;
                        telling.await
                    }));
                }
                Ok(Message::Response { id, outcome }) => {
                    if let Some((id, asked)) = id.as_ref().zip(session.asked()) {
                        asked.answer(id, |cx| outcome.map(|result| read_reply(cx, result)));
                    }
                }
                Ok(Message::Batch(_)) => answers.push(Refusal::Batch.written(None)),
                Err(bad) => {
                    if let Some(error) = bad.error {
                        answers.push(Refusal::Message(error, None).written(bad.id));
                    }
                }
            }
        }
        while let Some(answer) = waiting.next().await {
            answers.extend(answer.filter(|answer| !answer.is_empty()));
        }
        if answers.is_empty() {
            return Ok(empty(StatusCode::ACCEPTED));
        }
        let mut array = vec![b'['];
        array.extend_from_slice(&answers.join(&b','));
        array.push(b']');
        Ok(json(StatusCode::OK, array))
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

/// Answers from the stream of a call that its session owns.
async fn answer_from(
    stream: &Stream,
    reader: Reader,
    config: &HttpConfig,
    session: &Session,
) -> Result<Response<HttpBody>, Refusal> {
    match timeout(config.quiet, poll_fn(|task| stream.poll_begin(task))).await {
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
    Ok(events(HttpBody::events(Events::new(reader, config.keep_alive))))
}

/// An answer as it is written; empty where there is none.
fn written(id: &Id, outcome: &Result<Reply, RpcError>) -> Vec<u8> {
    let mut answer = Vec::with_capacity(256);
    write_answer(&mut answer, Some(id), outcome);
    answer
}

/// The status of a modern answer: what a proxy should see is wrong with the request has one of its own.
fn status(outcome: &Result<Reply, RpcError>, says_all: bool) -> StatusCode {
    match outcome.as_ref().map_err(RpcError::code) {
        Err(ErrorCode::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Err(
            ErrorCode::PARSE_ERROR
            | ErrorCode::INVALID_REQUEST
            | ErrorCode::HEADER_MISMATCH
            | ErrorCode::MISSING_CLIENT_CAPABILITY
            | ErrorCode::UNSUPPORTED_VERSION,
        ) => StatusCode::BAD_REQUEST,
        Err(ErrorCode::INVALID_PARAMS) if !says_all => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::Payload;

    use super::*;

    #[test]
    fn statuses_say_what_a_proxy_should_see() {
        for (code, says_all, expected) in [
            (ErrorCode::METHOD_NOT_FOUND, true, 404),
            (ErrorCode::PARSE_ERROR, true, 400),
            (ErrorCode::INVALID_REQUEST, true, 400),
            (ErrorCode::HEADER_MISMATCH, true, 400),
            (ErrorCode::MISSING_CLIENT_CAPABILITY, true, 400),
            (ErrorCode::UNSUPPORTED_VERSION, true, 400),
            (ErrorCode::INVALID_PARAMS, true, 200),
            (ErrorCode::INVALID_PARAMS, false, 400),
            (ErrorCode::INTERNAL_ERROR, true, 200),
            (ErrorCode::RESOURCE_EXHAUSTED, true, 200),
            (ErrorCode(1000), true, 200),
        ] {
            let outcome = Err(RpcError::new(code, "no"));
            assert_eq!(status(&outcome, says_all), expected, "{code:?} {says_all}");
        }
        assert_eq!(status(&Ok(Reply::raw(Payload::empty_object())), false), 200);
        assert_eq!(written(&Id::Number(1), &Ok(Reply::None)), b"", "what has no answer");
    }
}
