//! One request: its POST, the stream its answer may be, and what happens when that is cut.
//!
//! Applies to: outbound.

use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
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
use mgp_types::{Id, RpcError};
use tokio::task::yield_now;
use tokio::time::sleep;

use super::again::Again;
use super::answer::{Answer, Kind, kind};
use super::core::{Core, Place, gone, is_gone, opened};
use super::dispatch::Origin;
use super::error::{Fault, causes};
use super::fresh::Fresh;
use super::headers::{Echo, LAST_EVENT, modern_revision, posting};
use super::session::{Lease, Opened};
use super::sse::{SseReader, TooLong};
use super::wire::drain;
use super::wishes::{Repeated, Wish};
use crate::connection::{SlotEvent, write_cancelled};

/// The room that is made for a request at once; longer ones are rare.
const USUAL: usize = 1000;

/// How many events are read before their consumer has its turn: less than an inbox holds.
const BURST: usize = 64;

/// A server that wants no wait at all could keep us busy for ever.
const LEAST_PAUSE: Duration = Duration::from_millis(10);

/// A request, written.
struct Written {
    number: i64,
    /// What its headers repeat; nothing in the legacy era.
    echo: Option<Box<Echo>>,
    body: Bytes,
    opens: bool,
    /// Whether a session that is gone is opened anew for it.
    renews: bool,
    again: Again,
}

impl Written {
    fn is_legacy(&self) -> bool {
        self.echo.is_none()
    }

    fn headers(&self, session: Option<&Opened>) -> HeaderMap {
        let mut headers = posting();
        if let Some(echo) = &self.echo {
            echo.stamp(&mut headers);
        }
        if let Some(session) = session {
            session.stamp(&mut headers);
        }
        headers
    }

    /// What came, by its head, of which is kept what opens a session.
    fn answer(&self, response: Response<Incoming>, known: &Known) -> Answer {
        if self.opens {
            let _ = known.headers.set(Box::new(response.headers().clone()));
        }
        Answer::of(response)
    }

    /// The response, unless it says that the session is gone and a new one is to be opened for the request.
    fn in_session(
        &self,
        response: Response<Incoming>,
        lease: Option<Lease>,
    ) -> Result<Response<Incoming>, (Lease, Incoming)> {
        match lease.filter(|lease| self.renews && is_gone(response.status(), *lease)) {
            Some(lost) => Err((lost, response.into_body())),
            None => Ok(response),
        }
    }
}

/// What becomes known of a request on its way.
#[derive(Default)]
struct Known {
    /// The headers of the response, where it opens a session.
    headers: OnceLock<Box<HeaderMap>>,
    /// The session it was sent in last.
    lease: Mutex<Option<Lease>>,
}

impl Known {
    fn is_sent_in(&self, lease: Option<Lease>) {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = lease;
    }

    fn lease(&self) -> Option<Lease> {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the reading of a stream ended.
enum End {
    /// The answer came; the rest of the body is left.
    Answered,
    /// The stream ended before.
    Cut(String),
}

impl Core {
    pub(super) async fn request(self: Arc<Self>, call: Call) -> Result<Reply, RpcError> {
        if self.is_closed() {
            return Err(gone());
        }
        let permits = Arc::clone(&self.permits);
        // What only listens would keep its place for good, and the calls would wait for it.
        let _permit = if call.is::<SubscriptionsListen>() {
            None
        } else {
            Some(permits.acquire_owned().await.map_err(|_| gone())?)
        };
        if !call.is::<Initialize>() {
            let wish = Wish::of(&call).filter(|_| modern_revision(&call).is_none());
            let (reply, _) = Arc::clone(&self).ask(call).await?;
            if let Some(wish) = wish {
                self.session.note(wish);
            }
            return Ok(reply);
        }
        let (reply, headers) = Box::pin(Arc::clone(&self).ask(call.clone())).await?;
        Fresh::new(&self, opened(&reply, headers.as_deref())).begin(call)?;
        Ok(reply)
    }

    /// Asks, and gives the headers of the response with the answer, where it opens a session.
    pub(super) async fn ask(
        self: Arc<Self>,
        mut call: Call,
    ) -> Result<(Reply, Option<Box<HeaderMap>>), RpcError> {
        let number = self.send_half.pending.assign_number(&mut call).ok_or_else(gone)?;
        let opens = call.is::<Initialize>();
        let known = Known::default();
        let waiting = Waiting { core: &self, number, known: &known };
        let revision = modern_revision(&call);
        let echo = revision.map(|revision| Echo::of(&call, &revision)).transpose()?.map(Box::new);
        let mut body = Vec::with_capacity(USUAL);
        let id = Id::Number(number);
        write_call(&mut body, Some(&id), call.method().as_str(), call.params(), call.hop());
        let again = Again::of(call.method().as_str());
        let renews = call.cx().extensions.get::<Repeated>().is_none();
        let body = body.into();
        let written = Written { number, echo, body, opens, renews, again };
        let outlet = call.cx().outlet.clone();
        let slot = self.send_half.pending.insert(number, call).ok_or_else(gone)?;

        let mut exchange = pin!(self.exchange(&written, &known).fuse());
        let mut is_over = false;
        let outcome = loop {
            let next = if is_over {
                slot.next().await
            } else {
                // While the consumer of an item is waited for nothing more is read: the server feels it.
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
            let passing_on = match passed_on(next, &outlet) {
                Ok(passing_on) => passing_on,
                Err(outcome) => break outcome,
            };
            passing_on.await;
        };
        drop(waiting);
        outcome.map(|reply| (reply, known.headers.get().cloned()))
    }

    /// Sends the request until it is answered, or cannot be any more.
    async fn exchange(self: &Arc<Self>, request: &Written, known: &Known) -> Result<(), RpcError> {
        let (response, lease) = self.post_request(request, known).await?;
        let from = if request.is_legacy() {
            Origin::Request(request.number, lease)
        } else {
            Origin::Modern(request.number)
        };
        match request.answer(response, known) {
            Answer::Json(body) => {
                if let Some(text) = self.wire.read(body).await? {
                    self.take(text, from);
                    if self.is_answered(request.number) {
                        return Ok(());
                    }
                    let why = "the server's JSON does not answer the request";
                    return Err(Fault::Form(why.into()).into());
                }
            }
            // Boxed, as most requests need no room for what follows.
            Answer::Events(body) => {
                return Box::pin(self.until_answered(body, from, request, lease)).await;
            }
            Answer::Other(response) => Box::pin(self.wire.read_other(*response)).await?,
        }
        Err(Fault::Form("the server took the request and answered nothing".into()).into())
    }

    /// POSTs the request; in a new session, once, where the old one is gone. Says in which one it is.
    async fn post_request(
        self: &Arc<Self>,
        request: &Written,
        known: &Known,
    ) -> Result<(Response<Incoming>, Option<Lease>), RpcError> {
        let mut is_renewed = false;
        loop {
            let in_session = request.is_legacy() && !request.opens;
            let (lease, session) = in_session.then(|| self.session.now()).unzip();
            known.is_sent_in(lease);
            let made = || request.headers(session.as_deref());
            let response =
                self.wire.send(&Method::POST, &made, &request.body, request.again).await?;
            let (lost, rest) = match request.in_session(response, lease) {
                Ok(response) => return Ok((response, lease)),
                Err(lost) => lost,
            };
            known.is_sent_in(None);
            Box::pin(drain(rest)).await;
            if is_renewed {
                return Err(Fault::Session("not even the one it just gave".into()).into());
            }
            is_renewed = true;
            self.renew(lost).await?;
        }
    }

    fn is_answered(&self, number: i64) -> bool {
        self.send_half.pending.get(&Id::Number(number)).is_none()
    }

    // === Streams ===

    /// Reads the stream of a request, and what continues it, until the answer is there.
    async fn until_answered(
        self: &Arc<Self>,
        mut body: Incoming,
        from: Origin,
        request: &Written,
        lease: Option<Lease>,
    ) -> Result<(), RpcError> {
        let mut reader = SseReader::new(self.wire.config.event_bytes);
        let mut attempts = 0;
        loop {
            let news = reader.news();
            let end = self.follow(&mut body, &mut reader, from, Some(request.number)).await?;
            let mut why = match end {
                End::Answered => {
                    self.finish(body);
                    return Ok(());
                }
                End::Cut(why) => why,
            };
            if reader.news() > news {
                attempts = 0;
            }
            body = loop {
                // Without a session there is nowhere to take it up again: the modern era, and a handshake.
                let Some(lease) = lease else { return Err(Fault::Cut(why).into()) };
                let Some(last) = reader.last_id().cloned() else {
                    return Err(Fault::Cut(format!(
                        "{why}; the server gave no event id to go on after, so the call may have run"
                    ))
                    .into());
                };
                if attempts >= self.wire.config.reconnects {
                    let tries = format!("{why}; given up after {attempts} attempts to go on");
                    return Err(Fault::Cut(tries).into());
                }
                attempts += 1;
                sleep(self.pause(&reader)).await;
                reader.reconnect();
                match self.open_stream(lease, Some(&last)).await {
                    Ok(Stream::Open(body)) => break body,
                    Ok(Stream::Refused(status, error))
                        if !status.is_server_error()
                            && status != StatusCode::CONFLICT
                            && status != StatusCode::TOO_MANY_REQUESTS =>
                    {
                        let gone =
                            "the server does not take it up again, and the call may have run";
                        return Err(Fault::Cut(format!("{gone}: {}", error.message())).into());
                    }
                    Ok(Stream::Over) => {
                        let gone =
                            "the session it ran in is gone, and in another one it is not known";
                        return Err(Fault::Cut(format!("{why}; {gone}: it may have run")).into());
                    }
                    Ok(Stream::Refused(_, error)) | Err(error) => {
                        error.message().clone_into(&mut why);
                    }
                }
            };
        }
    }

    /// How long to wait before a stream is taken up again: exactly what the server said, within bounds.
    pub(super) fn pause(&self, reader: &SseReader) -> Duration {
        let said = reader.retry().unwrap_or(self.wire.config.retry);
        said.min(self.wire.config.max_retry).max(LEAST_PAUSE)
    }

    /// GETs a stream of this session: the one of no request, or what follows an event.
    ///
    /// Servers number events by session, so the number of one means another event, or none, in the next.
    pub(super) async fn open_stream(
        &self,
        lease: Lease,
        last: Option<&HeaderValue>,
    ) -> Result<Stream, RpcError> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if !self.session.stamp_in(lease, &mut headers) {
            return Ok(Stream::Over);
        }
        if let Some(last) = last {
            headers.insert(LAST_EVENT, last.clone());
        }
        let made = || headers.clone();
        let response = self.wire.send(&Method::GET, &made, &Bytes::new(), Again::Once).await?;
        let (head, body) = response.into_parts();
        if head.status.is_success() && kind(&head.headers) == Some(Kind::Events) {
            return Ok(Stream::Open(body));
        }
        let error = self.wire.read_refusal(head.status, &head.headers, body).await;
        Ok(Stream::Refused(head.status, error))
    }

    /// Reads a stream until it ends, or until a request is answered.
    async fn follow(
        self: &Arc<Self>,
        body: &mut Incoming,
        reader: &mut SseReader,
        from: Origin,
        until: Option<i64>,
    ) -> Result<End, RpcError> {
        let is_answered = || until.is_some_and(|number| self.is_answered(number));
        loop {
            let frame = match body.frame().await {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Ok(End::Cut(causes(&error))),
                None => return Ok(End::Cut("the server closed it".to_owned())),
            };
            let Some(bytes) = frame.data_ref() else { continue };
            let mut input: &[u8] = bytes;
            let mut count = 0_usize;
            while let Some(event) = reader.next(&mut input) {
                count += 1;
                // Items of this call go to their consumer before more of them are read.
                if count.is_multiple_of(BURST) {
                    yield_now().await;
                }
                match event {
                    Ok(event) if matches!(&*event.name, "" | "message") => {
                        if !event.data.is_empty() {
                            self.take(event.data, from);
                        }
                        if is_answered() {
                            return Ok(End::Answered);
                        }
                    }
                    Ok(event) => tracing::debug!(name = event.name, "an event of no known kind"),
                    Err(TooLong) => {
                        let bound = self.wire.config.event_bytes;
                        if until.is_some() {
                            return Err(Fault::TooLong { what: "an event", bound }.into());
                        }
                        tracing::warn!(bound, "an event of the server was too long and left out");
                    }
                }
            }
        }
    }

    /// Reads the stream of no request until it ends.
    pub(super) async fn listen_to(
        self: &Arc<Self>,
        mut body: Incoming,
        reader: &mut SseReader,
        lease: Lease,
    ) -> Result<(), RpcError> {
        self.follow(&mut body, reader, Origin::Session(lease), None).await.map(|_| ())
    }

    /// Lets a connection serve again whose answer is there: what the server still says is read and left.
    fn finish(self: &Arc<Self>, mut body: Incoming) {
        match body.frame().now_or_never() {
            Some(None | Some(Err(_))) => {}
            Some(Some(Ok(_))) | None => {
                self.give(drain(body));
            }
        }
    }
}

/// Gives an item to its consumer, or gives back what is none: the outcome.
fn passed_on(
    next: SlotEvent,
    outlet: &Outlet,
) -> Result<BoxFuture<'_, ()>, Result<Reply, RpcError>> {
    match next {
        SlotEvent::Item(item) => Ok(Box::pin(async move {
            // A consumer that left is no reason to lose the answer.
            let _ = outlet.send(item).await;
        })),
        SlotEvent::Done(outcome) => Err(outcome),
    }
}

/// What a GET gave.
pub(super) enum Stream {
    Open(Incoming),
    Refused(StatusCode, RpcError),
    /// Nothing was asked: the session is another one now.
    Over,
}

/// Leaves the table when the caller stops waiting, and tells a legacy server if it had not answered.
///
/// A modern one sees its stream closed.
struct Waiting<'a> {
    core: &'a Arc<Core>,
    number: i64,
    known: &'a Known,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let unanswered = self.core.send_half.pending.remove(self.number);
        // A modern server, a handshake, and whoever did not get the request are told nothing.
        let Some(lease) = self.known.lease() else { return };
        if !unanswered || self.core.is_closed() {
            return;
        }
        let mut body = Vec::new();
        write_cancelled(&mut body, self.number);
        let core = Arc::clone(self.core);
        self.core.give(async move {
            if let Err(error) = core.post(posting(), body.into(), Place::ThisSession(lease)).await {
                tracing::debug!(%error, "a cancellation was not told");
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
    use crate::http::client::wire::Wire;
    use crate::http::{Endpoint, HttpClientConfig};

    #[tokio::test]
    async fn the_future_of_a_call_was_so_large_that_moving_it_cost_more_than_the_call() {
        let endpoint = Endpoint::parse("http://127.0.0.1:1/mcp").unwrap();
        let wire = Wire::new(endpoint, HttpClientConfig::default()).unwrap();
        let stack = Stack::new(Router::new());
        let (core, _jobs) = Core::new(wire, stack, Principal::local(), Limits::default());
        let method = mgp_types::service::Method::from_static(ToolsCall::METHOD);
        let call = Call::request(method, Params::none(), core.context());
        let size = size_of_val(&core.request(call));
        assert!(size <= 900, "{size} bytes");
    }
}
