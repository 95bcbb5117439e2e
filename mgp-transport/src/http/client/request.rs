//! Sends one request as a POST, reads its answer, which can be an event stream, and resumes an interrupted stream.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use mgp_types::method::{Initialize, SubscriptionsListen};
use mgp_types::service::{BoxFuture, Call, Outlet, Reply, write_call};
use mgp_types::sync::Mutex;
use mgp_types::{Id, RpcError};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::broken_connection::ResendPolicy;
use super::core::{Core, SessionBinding, closed_here, is_session_lost, session_headers};
use super::dispatch::MessageSource;
use super::error::{Fault, causes};
use super::headers::{LAST_EVENT, StandardHeaders, modern_revision, post_headers};
use super::response::{Answer, ContentKind, content_kind};
use super::sender::drain;
use super::session::SessionGuard;
use super::session::{SessionHeaders, SessionRef};
use super::session_settings::{Replayed, SettingChange};
use super::sse::{SseReader, TooLong};
use crate::connection::{SlotEvent, write_cancelled};

/// Initial capacity for an encoded request, in bytes; few requests are longer.
const BODY_CAPACITY: usize = 1000;

/// The number of events that are read before their consumer gets a turn. It is smaller than the queue for the partial
/// results of a call, so that no event is dropped.
const MAX_EVENTS_PER_TURN: usize = 64;

/// The minimum delay before a stream is resumed, so that a server cannot keep the client busy with a very small value.
pub(super) const MIN_RETRY_DELAY: Duration = Duration::from_millis(10);

struct EncodedRequest {
    number: i64,
    /// The standard headers; `None` in the legacy era.
    standard: Option<Box<StandardHeaders>>,
    body: Bytes,
    opens: bool,
    /// If set, a new session is opened when this request finds its session lost.
    renews: bool,
    resend: ResendPolicy,
}

impl EncodedRequest {
    fn is_legacy(&self) -> bool {
        self.standard.is_none()
    }

    fn headers(&self, session: Option<&SessionHeaders>) -> HeaderMap {
        let mut headers = post_headers();
        if let Some(standard) = &self.standard {
            standard.insert_headers(&mut headers);
        }
        if let Some(session) = session {
            session.insert_headers(&mut headers);
        }
        headers
    }

    /// Returns the session if the status of a response might mean that the session is lost; `None` if not, or if the
    /// request must not open a new session.
    fn suspect(
        &self,
        response: &Response<Incoming>,
        session_ref: Option<SessionRef>,
    ) -> Option<SessionRef> {
        let may_be_lost =
            matches!(response.status(), StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST);
        session_ref.filter(|session_ref| self.renews && may_be_lost && session_ref.has_id)
    }
}

/// The state of a request while it is processed.
#[derive(Default)]
struct RequestState {
    /// The headers of the response, if it opens a session.
    headers: OnceLock<Box<HeaderMap>>,
    /// The session in which the request was last sent.
    session_ref: Mutex<Option<SessionRef>>,
}

impl RequestState {
    fn set_session(&self, session_ref: Option<SessionRef>) {
        *self.session_ref.lock() = session_ref;
    }

    fn session_ref(&self) -> Option<SessionRef> {
        *self.session_ref.lock()
    }
}

/// The numbers of consecutive attempts to resume a stream that brought no event.
#[derive(Default)]
struct Attempts {
    /// The number of failed attempts since the last attempt that the server accepted.
    failed: u32,
    /// The number of streams that the server opened, and ended without an event.
    empty: u32,
}

/// The reason why reading a stream ended.
enum StreamEnd {
    /// The answer was received; the rest of the body has not been read.
    Answered,
    /// The stream ended before the answer, for this reason.
    Cut(String),
}

impl Core {
    pub(super) async fn request(self: Arc<Self>, call: Call) -> Result<Reply, RpcError> {
        if self.is_closed() {
            return Err(closed_here());
        }
        // A subscription takes no permit: it can last for as long as the connection, and would block other calls.
        let _permit = if call.is::<SubscriptionsListen>() {
            None
        } else {
            Some(self.permits.acquire(&call.cx().principal).await)
        };
        if !call.is::<Initialize>() {
            let change = SettingChange::of(&call).filter(|_| modern_revision(&call).is_none());
            let (reply, _) = Arc::clone(&self).send_request(call).await?;
            if let Some(change) = change {
                self.session.keep(change);
            }
            return Ok(reply);
        }
        let (reply, headers) = Box::pin(Arc::clone(&self).send_request(call.clone())).await?;
        SessionGuard::new(&self, session_headers(&reply, headers.as_deref())).start(call)?;
        Ok(reply)
    }

    /// Sends a request; returns its answer and, if the response opens a session, the headers of the response.
    pub(super) async fn send_request(
        self: Arc<Self>,
        mut call: Call,
    ) -> Result<(Reply, Option<Box<HeaderMap>>), RpcError> {
        let number = self.send_half.pending.assign_number(&mut call).ok_or_else(closed_here)?;
        let opens = call.is::<Initialize>();
        let state = RequestState::default();
        let waiting = PendingGuard { core: &self, number, state: &state };
        let revision = modern_revision(&call);
        let standard = revision
            .map(|revision| StandardHeaders::of(&call, &revision))
            .transpose()?
            .map(Box::new);
        let mut body = Vec::with_capacity(BODY_CAPACITY);
        let id = Id::Number(number);
        write_call(&mut body, Some(&id), call.method().as_str(), call.params(), call.hop());
        let resend = ResendPolicy::for_method(call.method().as_str());
        let renews = call.cx().extensions.get::<Replayed>().is_none();
        let body = body.into();
        let encoded = EncodedRequest { number, standard, body, opens, renews, resend };
        let outlet = call.cx().outlet.clone();
        let slot = self.send_half.pending.insert(number, call).ok_or_else(closed_here)?;

        let mut exchange = pin!(self.exchange(&encoded, &state).fuse());
        let mut is_over = false;
        let outcome = loop {
            let next = if is_over {
                slot.next().await
            } else {
                // While the consumer is busy, `exchange` is not polled. Nothing more is read then, which makes the
                // server send more slowly.
                match select(pin!(slot.next()), exchange.as_mut()).await {
                    Either::Left((next, _)) => next,
                    Either::Right((outcome, _)) => {
                        is_over = true;
                        if let Err(error) = outcome {
                            self.send_half.pending.complete(&id, |_| Err(error));
                        }
                        continue;
                    }
                }
            };
            let forwarding = match forward_item(next, &outlet) {
                Ok(forwarding) => forwarding,
                Err(outcome) => break outcome,
            };
            forwarding.await;
        };
        drop(waiting);
        outcome.map(|reply| (reply, state.headers.get().cloned()))
    }

    /// Sends the request and reads its response until it is answered or fails.
    async fn exchange(
        self: &Arc<Self>,
        request: &EncodedRequest,
        state: &RequestState,
    ) -> Result<(), RpcError> {
        let (response, session_ref) = self.post_request(request, state).await?;
        let from = if request.is_legacy() {
            MessageSource::Request(request.number, session_ref)
        } else {
            MessageSource::Modern(request.number)
        };
        match self.classify_answer(request, response, state) {
            Answer::Json(body) => {
                if let Some(text) = self.sender.read(body).await? {
                    self.receive(text.clone(), from);
                    if self.is_answered(request.number) {
                        return Ok(());
                    }
                    return Err(Fault::unanswered(&self.sender.server_text(&text)).into());
                }
            }
            // This future is boxed, because most requests do not need it, and would otherwise reserve space for it.
            Answer::Events(body) => {
                return Box::pin(self.read_until_answered(body, from, request, session_ref)).await;
            }
            Answer::Other(response) => Box::pin(self.sender.read_other(*response)).await?,
        }
        Err(Fault::Malformed("the server accepted the request and sent no answer".into()).into())
    }

    /// Determines the kind of the response, and stores its headers if the request opens a session. Within a session,
    /// records what the response shows about the server's back channel.
    fn classify_answer(
        &self,
        request: &EncodedRequest,
        response: Response<Incoming>,
        state: &RequestState,
    ) -> Answer {
        if request.opens {
            let _ = state.headers.set(Box::new(response.headers().clone()));
        }
        let answer = Answer::new(response);
        if let (Some(session_ref), Some(kind)) = (state.session_ref(), answer.kind()) {
            self.counters.back_channel.record(session_ref.has_id, kind);
        }
        answer
    }

    /// POSTs the request, and once more in a new session if the first session is lost; returns the
    /// response and its session.
    async fn post_request(
        self: &Arc<Self>,
        request: &EncodedRequest,
        state: &RequestState,
    ) -> Result<(Response<Incoming>, Option<SessionRef>), RpcError> {
        let mut is_renewed = false;
        loop {
            let in_session = request.is_legacy() && !request.opens;
            let (session_ref, session) = in_session.then(|| self.session.current()).unzip();
            state.set_session(session_ref);
            let make_headers = || request.headers(session.as_deref());
            // The response is moved into the boxed check, so that this future need not hold it while it awaits the
            // check. Most requests need no check.
            let lost;
            let check = {
                let response = self
                    .sender
                    .send(&Method::POST, &make_headers, &request.body, request.resend)
                    .await?;
                let Some(suspect) = request.suspect(&response, session_ref) else {
                    return Ok((response, session_ref));
                };
                lost = suspect;
                Box::pin(self.check_lost(response, suspect))
            };
            let refusal = check.await?;
            state.set_session(None);
            if is_renewed {
                let why = format!("not even the new one: {}", refusal.message());
                return Err(Fault::Session(why).into());
            }
            is_renewed = true;
            self.renew(lost).await?;
        }
    }

    /// Reads the response to a request whose session might be lost. Returns the server's error as `Ok` if the session
    /// is lost, and as `Err` if it is not.
    async fn check_lost(
        &self,
        response: Response<Incoming>,
        suspect: SessionRef,
    ) -> Result<RpcError, RpcError> {
        let (head, body) = response.into_parts();
        let refusal = self.sender.read_refusal(head.status, &head.headers, body).await;
        if is_session_lost(head.status, &refusal, suspect) { Ok(refusal) } else { Err(refusal) }
    }

    fn is_answered(&self, number: i64) -> bool {
        self.send_half.pending.get(&Id::Number(number)).is_none()
    }

    // === Streams ===

    async fn read_until_answered(
        self: &Arc<Self>,
        mut body: Incoming,
        from: MessageSource,
        request: &EncodedRequest,
        session_ref: Option<SessionRef>,
    ) -> Result<(), RpcError> {
        let mut reader = SseReader::new(self.sender.config.event_bytes);
        let mut attempts = Attempts::default();
        loop {
            let progress = reader.progress();
            let end = self.read_stream(&mut body, &mut reader, from, Some(request.number)).await?;
            let why = match end {
                StreamEnd::Answered => {
                    self.drain_in_background(body);
                    return Ok(());
                }
                StreamEnd::Cut(why) => why,
            };
            if reader.progress() > progress {
                attempts = Attempts::default();
            }
            // Only streams in a session can be resumed; modern requests and handshakes have no session.
            let Some(session_ref) = session_ref else { return Err(Fault::Cut(why).into()) };
            body = self.resume(&mut reader, session_ref, &mut attempts, why).await?;
        }
    }

    /// Tries to resume a stream that was cut, until the server accepts or refuses it, or the attempts are used up.
    ///
    /// In MCP 2025-11-25, a server may end a stream early, so that its client polls for the answer. So an attempt that
    /// the server accepts does not count as failed, even if the new stream ends early too; only the time limit of the
    /// call ends the polling.
    async fn resume(
        &self,
        reader: &mut SseReader,
        session_ref: SessionRef,
        attempts: &mut Attempts,
        mut why: String,
    ) -> Result<Incoming, RpcError> {
        let Some(last) = reader.last_id().cloned() else {
            let why = format!("{why}; the server sent no event id to resume after");
            return Err(Fault::Cut(why).into());
        };
        loop {
            let failed = attempts.failed;
            if failed >= self.sender.config.max_reconnects {
                let tries = format!("{why}; gave up after {failed} attempts to resume");
                return Err(Fault::Cut(tries).into());
            }
            attempts.failed += 1;
            sleep(self.delay_before_resuming(reader, attempts)).await;
            reader.reconnect();
            match self.open_stream(session_ref, Some(&last)).await {
                Ok(StreamResponse::Open(body)) => {
                    *attempts = Attempts { failed: 0, empty: attempts.empty.saturating_add(1) };
                    return Ok(body);
                }
                Ok(StreamResponse::Refused(status, error))
                    if !status.is_server_error()
                        && status != StatusCode::CONFLICT
                        && status != StatusCode::TOO_MANY_REQUESTS =>
                {
                    // The usual message for status 405 is about a POST, but this request is a GET, so it gets another
                    // message.
                    let cause = match status {
                        StatusCode::METHOD_NOT_ALLOWED => "it accepts no GET (HTTP 405)",
                        _ => error.message(),
                    };
                    let why = format!("the server does not resume it: {cause}");
                    return Err(Fault::Cut(why).into());
                }
                Ok(StreamResponse::Replaced) => {
                    let reason = "its session is lost, and a new one does not know the call";
                    return Err(Fault::Cut(format!("{why}; {reason}")).into());
                }
                Ok(StreamResponse::Refused(_, error)) | Err(error) => {
                    error.message().clone_into(&mut why);
                }
            }
        }
    }

    /// Returns the wait before a stream is resumed: the server's value, within limits.
    pub(super) fn retry_delay(&self, reader: &SseReader) -> Duration {
        let requested = reader.retry().unwrap_or(self.sender.config.retry);
        requested.min(self.sender.config.max_retry).max(MIN_RETRY_DELAY)
    }

    /// Returns the wait before a stream is resumed. After many streams without an event, the wait is at least the usual
    /// wait, however short the server's value is.
    fn delay_before_resuming(&self, reader: &SseReader, attempts: &Attempts) -> Duration {
        let config = &self.sender.config;
        let requested = self.retry_delay(reader);
        if attempts.empty < config.max_reconnects { requested } else { requested.max(config.retry) }
    }

    /// Sends a GET for a stream of this session: a new GET stream, or the continuation of a stream after event `last`.
    ///
    /// Event ids are valid in one session only, so nothing is sent if the session was replaced.
    pub(super) async fn open_stream(
        &self,
        session_ref: SessionRef,
        last: Option<&HeaderValue>,
    ) -> Result<StreamResponse, RpcError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if !self.session.insert_headers_of(session_ref, &mut headers) {
            return Ok(StreamResponse::Replaced);
        }
        if let Some(last) = last {
            headers.insert(LAST_EVENT, last.clone());
        }
        let make_headers = || headers.clone();
        let response = self
            .sender
            .send(&Method::GET, &make_headers, &Bytes::new(), ResendPolicy::Once)
            .await?;
        let (head, body) = response.into_parts();
        if head.status.is_success() && content_kind(&head.headers) == Some(ContentKind::Events) {
            return Ok(StreamResponse::Open(body));
        }
        let error = self.sender.read_refusal(head.status, &head.headers, body).await;
        Ok(StreamResponse::Refused(head.status, error))
    }

    /// Reads a stream until it ends, or until a request is answered.
    async fn read_stream(
        self: &Arc<Self>,
        body: &mut Incoming,
        reader: &mut SseReader,
        from: MessageSource,
        until: Option<i64>,
    ) -> Result<StreamEnd, RpcError> {
        let is_answered = || until.is_some_and(|number| self.is_answered(number));
        loop {
            let frame = match body.frame().await {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Ok(StreamEnd::Cut(causes(&error))),
                None => return Ok(StreamEnd::Cut("the server closed it".to_owned())),
            };
            let Some(bytes) = frame.data_ref() else { continue };
            let mut input: &[u8] = bytes;
            let mut count = 0_usize;
            while let Some(event) = reader.next(&mut input) {
                count += 1;
                // Gives the consumer of this call a turn to take its partial results before more events are read.
                if count.is_multiple_of(MAX_EVENTS_PER_TURN) {
                    yield_now().await;
                }
                match event {
                    Ok(event) if matches!(&*event.name, "" | "message") => {
                        if !event.data.is_empty() {
                            self.receive(event.data, from);
                        }
                        if is_answered() {
                            return Ok(StreamEnd::Answered);
                        }
                    }
                    Ok(event) => {
                        tracing::debug!(name = event.name, "ignored an event of unknown kind");
                    }
                    Err(TooLong { .. }) => {
                        let bound = self.sender.config.event_bytes;
                        if until.is_some() {
                            return Err(Fault::TooLong { what: "an event", bound }.into());
                        }
                        tracing::warn!(bound, "skipped an event above the size limit");
                    }
                }
            }
        }
    }

    /// Reads the session's GET stream until it ends.
    pub(super) async fn read_session_stream(
        self: &Arc<Self>,
        mut body: Incoming,
        reader: &mut SseReader,
        session_ref: SessionRef,
    ) -> Result<(), RpcError> {
        self.read_stream(&mut body, reader, MessageSource::Session(session_ref), None)
            .await
            .map(|_| ())
    }

    /// Reads and discards the rest of an answered request's stream, so that its connection can be reused.
    fn drain_in_background(self: &Arc<Self>, mut body: Incoming) {
        match body.frame().now_or_never() {
            Some(None | Some(Err(_))) => {}
            Some(Some(Ok(_))) | None => {
                self.spawn_task(drain(body));
            }
        }
    }
}

/// Returns a future that passes a partial result to its consumer. If the call has ended meanwhile, returns its outcome
/// as the error.
fn forward_item(
    next: SlotEvent,
    outlet: &Outlet,
) -> Result<BoxFuture<'_, ()>, Result<Reply, RpcError>> {
    match next {
        SlotEvent::Item(item) => Ok(Box::pin(async move {
            // Ignore the error: the answer is needed even if the consumer of the partial results was dropped.
            let _ = outlet.send(item).await;
        })),
        SlotEvent::Done(outcome) => Err(outcome),
    }
}

/// The response to a GET.
pub(super) enum StreamResponse {
    Open(Incoming),
    Refused(StatusCode, RpcError),
    /// Nothing was sent: the session was replaced.
    Replaced,
}

/// A guard for a request that waits for its answer. Dropping the guard removes the request and, if it is still
/// unanswered, cancels it at a legacy server.
///
/// At a modern server, closing the response stream cancels the request.
struct PendingGuard<'a> {
    core: &'a Arc<Core>,
    number: i64,
    state: &'a RequestState,
}

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        let unanswered = self.core.send_half.pending.remove(self.number);
        // Modern servers, handshakes, and requests that were not sent have no session. None of these needs a
        // cancellation.
        let Some(session_ref) = self.state.session_ref() else { return };
        if !unanswered || self.core.is_closed() {
            return;
        }
        let mut body = Vec::new();
        write_cancelled(&mut body, self.number);
        let core = Arc::clone(self.core);
        self.core.spawn_task(async move {
            if let Err(error) =
                core.post(post_headers(), body.into(), SessionBinding::Only(session_ref)).await
            {
                tracing::debug!(%error, "sending a cancellation failed");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::method::{Request as _, ToolsCall};
    use mgp_types::service::{Params, Principal, Router, Stack};

    use super::*;
    use crate::connection::Limits;
    use crate::http::client::sender::HttpSender;
    use crate::http::{Endpoint, HttpClientConfig};

    #[tokio::test]
    async fn the_future_of_a_call_is_small_enough_to_be_moved_cheaply() {
        let endpoint = Endpoint::parse("http://127.0.0.1:1/mcp").unwrap();
        let sender = HttpSender::new(endpoint, HttpClientConfig::default()).unwrap();
        let stack = Stack::new(Router::new());
        let (core, _jobs) = Core::new(sender, stack, Principal::local(), Limits::default());
        let method = mgp_types::service::Method::from_static(ToolsCall::METHOD);
        let call = Call::request(method, Params::none(), core.context());
        let size = size_of_val(&core.request(call));
        assert!(size <= 900, "{size} bytes");
    }
}
