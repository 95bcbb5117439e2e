//! The client of HTTP+SSE (MCP transports, 2024-11-05), as a pair of byte streams.
//!
//! The server sends all its messages on one event stream. The first event contains the address for the client's POST
//! requests.

use std::collections::{HashMap, VecDeque};
use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::FuturesUnordered;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use mgp_types::mcp::CancelledParams;
use mgp_types::method::{Cancelled, Notification as _};
use mgp_types::service::{CutMessage, HttpFailure, write_answer};
use mgp_types::{Id, RpcError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::pin::pin;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::broken_connection::ResendPolicy;
use super::config::HttpClientConfig;
use super::endpoint::Endpoint;
use super::error::{Fault, HttpClientError, causes};
use super::headers::post_headers;
use super::response::Answer;
use super::sender::{HttpSender, drain};
use super::sse::{Event, SseReader, TooLong};
use crate::duplex::{DuplexEnd, duplex};
use crate::too_long::answer_too_long;

/// The total size, in bytes, of the held back messages at which the client stops reading further messages. A single
/// message can be larger.
const MAX_HELD_BYTES: usize = 1 << 20;

/// The minimum time between the start of a request's POST and its cancellation while the POST is running. Each POST has
/// its own connection, so without this delay the cancellation could overtake its request, and have no effect.
const CANCEL_DELAY: Duration = Duration::from_millis(250);

/// The message for a URL that accepts no GET.
const NO_GET: &str = "the URL accepts no GET (HTTP 405), so it is not an endpoint of the older HTTP+SSE transport; use streamable HTTP, i.e. `transport = \"http\"`";

/// The reason why a server cannot be used over HTTP+SSE.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpSseError {
    /// The configuration does not allow the connection.
    #[error(transparent)]
    Config(#[from] HttpClientError),
    /// The server refused the event stream, or the stream does not begin with the address for messages.
    #[error("{}", .0.message())]
    Stream(#[from] RpcError),
}

impl From<Fault> for HttpSseError {
    fn from(fault: Fault) -> Self {
        Self::Stream(fault.into())
    }
}

/// Connects to a server that uses HTTP+SSE, i.e. a separate event stream.
///
/// Returns the connection as a pair of byte streams. They end when the server ends its event stream, because this
/// transport cannot resume a stream. The server is of the legacy era.
///
/// ```no_run
/// use mgp_transport::http::{Endpoint, HttpClientConfig, connect_http_sse};
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let endpoint = Endpoint::parse("http://127.0.0.1:8000/sse")?;
/// let end = connect_http_sse(endpoint, HttpClientConfig::default()).await?;
/// # drop((end.reader, end.writer));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Returns [`HttpSseError`] with the reason.
///
/// # Cancel safety
/// Dropping the future closes the connection.
///
/// # Panics
/// Panics outside a tokio runtime.
pub async fn connect_http_sse(
    endpoint: Endpoint,
    config: HttpClientConfig,
) -> Result<DuplexEnd, HttpSseError> {
    let sender = HttpSender::new(endpoint.clone(), config.clone())?;
    let bound = config.message_timeout;
    let opened = timeout(bound, EventStream::open(&sender)).await;
    let late = |_| Fault::Timeout { what: "the event stream", bound };
    let (stream, address) = opened.map_err(late)??;
    let posts = HttpSender::new(address, config)?;
    let (here, there) = duplex();
    tokio::spawn(run(stream, posts, there));
    Ok(here)
}

struct EventStream {
    body: Incoming,
    reader: SseReader,
    /// Bytes that were received but not parsed yet.
    rest: Bytes,
}

impl EventStream {
    /// Opens the stream and reads the address for messages.
    async fn open(sender: &HttpSender) -> Result<(Self, Endpoint), HttpSseError> {
        let headers = || -> HeaderMap {
            [(ACCEPT, HeaderValue::from_static("text/event-stream"))].into_iter().collect()
        };
        let response =
            sender.send(&Method::GET, &headers, &Bytes::new(), ResendPolicy::Once).await?;
        let body = match Answer::new(response) {
            Answer::Events(body) => body,
            Answer::Other(response) => {
                // The usual message for status 405 is about a POST, but this request is a GET, so replace the message.
                let accepts_get = response.status() != StatusCode::METHOD_NOT_ALLOWED;
                return Err(match sender.read_other(*response).await {
                    Ok(()) => no_stream(),
                    Err(refusal) if accepts_get => refusal.into(),
                    Err(refusal) => refusal.with_message(NO_GET).into(),
                });
            }
            Answer::Json(_) => return Err(no_stream()),
        };
        let reader = SseReader::new(sender.config.event_bytes);
        let mut stream = Self { body, reader, rest: Bytes::new() };
        let event = stream.next().await?;
        let address = event
            .and_then(Result::ok)
            .filter(|event| event.name == "endpoint")
            .ok_or_else(no_stream)?;
        let address = sender.endpoint.resolve(&address.data).ok_or_else(|| {
            Fault::Malformed("the address for messages is on another origin".to_owned())
        })?;
        Ok((stream, address))
    }

    async fn next(&mut self) -> Result<Option<Result<Event, TooLong>>, RpcError> {
        loop {
            let mut input: &[u8] = &self.rest;
            let event = self.reader.next(&mut input);
            let left = input.len();
            self.rest = self.rest.slice(self.rest.len() - left..);
            match event {
                Some(event) => return Ok(Some(event)),
                None => match self.body.frame().await {
                    Some(Ok(frame)) => self.rest = frame.into_data().unwrap_or_default(),
                    Some(Err(error)) => return Err(Fault::Cut(causes(&error)).into()),
                    None => return Ok(None),
                },
            }
        }
    }
}

fn no_stream() -> HttpSseError {
    Fault::Malformed("there is no event stream with an address for messages".to_owned()).into()
}

/// Passes messages in both directions until either direction ends.
async fn run(stream: EventStream, posts: HttpSender, there: DuplexEnd) {
    let DuplexEnd { reader, writer } = there;
    let writer = tokio::sync::Mutex::new(writer);
    let receiving = pin!(receive(stream, &writer, posts.config.message_timeout));
    let sending = pin!(send(reader, &posts, &writer));
    match select(receiving, sending).await {
        Either::Left(_) => tracing::debug!(server = %posts.endpoint, "event stream ended"),
        Either::Right(_) => tracing::debug!(server = %posts.endpoint, "connection closed"),
    }
}

type Writer = tokio::sync::Mutex<tokio::io::WriteHalf<tokio::io::DuplexStream>>;

/// Writes each message of the server as a line, until the event stream ends. After the connection was closed on this
/// side, waits for `grace`, so that the last messages can still be sent.
async fn receive(mut stream: EventStream, writer: &Writer, grace: Duration) {
    loop {
        let line = match stream.next().await {
            Ok(Some(Ok(event))) => line_of(&event),
            Ok(Some(Err(cut))) => answer_to_cut(&cut, stream.reader.bound()),
            Ok(None) => return,
            Err(error) => return tracing::debug!(%error, "event stream broke"),
        };
        let Some(mut line) = line else { continue };
        line.push(b'\n');
        if writer.lock().await.write_all(&line).await.is_err() {
            return sleep(grace).await;
        }
    }
}

/// Returns the message in an event, as one line; `None` if the event contains no message.
fn line_of(event: &Event) -> Option<Vec<u8>> {
    // In JSON, line breaks occur only between tokens, so they can be replaced by spaces.
    let line = || event.data.replace(['\n', '\r'], " ").into_bytes();
    matches!(event.name.as_str(), "" | "message").then(line)
}

/// Returns an error answer in place of an answer that is too long, so that its call does not wait for it; `None` for
/// any other event that is too long, which is skipped.
fn answer_to_cut(cut: &TooLong, bound: usize) -> Option<Vec<u8>> {
    let Some(CutMessage::Answer(id)) = CutMessage::read(&cut.head, &cut.tail) else {
        tracing::warn!(bound, "skipped an event that is too long");
        return None;
    };
    tracing::warn!(?id, bound, "dropped an answer that is too long");
    let mut answer = Vec::new();
    write_answer(&mut answer, Some(&id), &Err(answer_too_long(bound)));
    Some(answer)
}

/// Posts each line; returns when there are no more lines and the last notifications and answers were posted, or when
/// the server no longer knows the connection.
async fn send(
    reader: tokio::io::ReadHalf<tokio::io::DuplexStream>,
    posts: &HttpSender,
    writer: &Writer,
) {
    let mut posting = Posting::new(posts, writer);
    if posting.post_lines(reader).await == Sent::Done {
        let _ = timeout(posts.config.message_timeout, posting.finish()).await;
    }
}

/// The messages that are being posted, and those that are held back.
///
/// Several POSTs run at the same time, because some servers answer the POST of a request only after they have handled
/// the request. Requests and notifications that follow a notification are held back until that notification was posted:
/// a server refuses requests that overtake the notification that the client is initialized. A cancellation is also held
/// back while it could overtake its request. Answers are not held back, because the server can need them to handle a
/// message that is being posted.
struct Posting<'a> {
    posts: &'a HttpSender,
    writer: &'a Writer,
    running: FuturesUnordered<BoxFuture<'a, (Sent, Kind, Option<Id>)>>,
    /// The times at which the POSTs of the running requests began.
    started: HashMap<Id, Instant>,
    /// The numbers of running POSTs, by the kind of their message.
    requests: usize,
    notifications: usize,
    answers: usize,
    /// The requests and notifications that are held back, in the order in which they were sent.
    held: VecDeque<(Head, Bytes)>,
    held_bytes: usize,
}

impl<'a> Posting<'a> {
    fn new(posts: &'a HttpSender, writer: &'a Writer) -> Self {
        Self {
            posts,
            writer,
            running: FuturesUnordered::new(),
            started: HashMap::new(),
            requests: 0,
            notifications: 0,
            answers: 0,
            held: VecDeque::new(),
            held_bytes: 0,
        }
    }

    /// Posts each line, until there are no more lines, or the server no longer knows the connection.
    async fn post_lines(&mut self, reader: tokio::io::ReadHalf<tokio::io::DuplexStream>) -> Sent {
        let mut lines = BufReader::new(reader);
        let mut line = Vec::new();
        loop {
            self.start_held();
            let is_full = self.held.len() > 1 && self.held_bytes >= MAX_HELD_BYTES;
            let must_wait = is_full || self.answers >= self.most();
            let step = {
                let next = pin!(async {
                    if must_wait {
                        pending::<()>().await;
                    }
                    // Cancel safe: bytes that were already read stay in the buffer.
                    lines.read_until(b'\n', &mut line).await
                });
                let ended = pin!(self.ended());
                match select(next, ended).await {
                    Either::Left((read, _)) => Either::Left(read),
                    Either::Right((sent, _)) => Either::Right(sent),
                }
            };
            match step {
                Either::Left(Ok(1..)) => self.accept(Bytes::from(std::mem::take(&mut line))),
                Either::Left(_) => return Sent::Done,
                Either::Right(Sent::Lost) => return Sent::Lost,
                Either::Right(Sent::Done) => {}
            }
        }
    }

    /// Waits until the last notifications and answers were posted. Requests are no longer posted, because their callers
    /// no longer wait for an answer.
    async fn finish(&mut self) {
        self.held.retain(|(head, _)| head.kind() == Kind::Notification);
        loop {
            self.start_held();
            let is_done = self.notifications + self.answers == 0 && self.due().is_none();
            if is_done || self.ended().await == Sent::Lost {
                return;
            }
        }
    }

    /// Starts to post an answer; holds back another message until [`start_held`](Self::start_held) can start it. A
    /// request that is cancelled while it is held back is not posted.
    fn accept(&mut self, body: Bytes) {
        let mut head: Head = serde_json::from_slice(&body).unwrap_or_default();
        match head.kind() {
            Kind::Answer => return self.start(head, body),
            Kind::Request => {}
            Kind::Notification => head.cancels = cancelled(&body),
        }
        if let Some(id) = &head.cancels
            && let Some(at) = self.held.iter().position(|(held, _)| held.is_request(id))
        {
            let removed = self.held.remove(at);
            self.held_bytes -= removed.map_or(0, |(_, body)| body.len());
            return;
        }
        self.held_bytes += body.len();
        self.held.push_back((head, body));
    }

    /// Returns the time at which the next message may be posted, if it is a cancellation that must wait.
    fn due(&self) -> Option<Instant> {
        let (head, _) = self.held.front()?;
        let due = *self.started.get(head.cancels.as_ref()?)? + CANCEL_DELAY;
        (due > Instant::now()).then_some(due)
    }

    /// Starts to post messages that are held back, in their order, unless a notification is being posted. A request
    /// also waits while the maximum number of requests is being posted.
    fn start_held(&mut self) {
        while self.notifications == 0
            && self.due().is_none()
            && let Some(kind) = self.held.front().map(|(head, _)| head.kind())
            && (kind == Kind::Notification || self.requests < self.most())
            && let Some((head, body)) = self.held.pop_front()
        {
            self.held_bytes -= body.len();
            self.start(head, body);
        }
    }

    fn start(&mut self, head: Head, body: Bytes) {
        let (posts, writer, kind) = (self.posts, self.writer, head.kind());
        *self.count(kind) += 1;
        let id = head.id.clone().filter(|_| kind == Kind::Request);
        if let Some(id) = &id {
            self.started.insert(id.clone(), Instant::now());
        }
        self.running
            .push(Box::pin(async move { (post(posts, head, body, writer).await, kind, id) }));
    }

    /// Waits until a POST ends, or the next message may be posted; waits forever if no POST is running.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    async fn ended(&mut self) -> Sent {
        let due = self.due();
        let waiting = pin!(async {
            match due {
                Some(due) => sleep_until(due).await,
                None => pending().await,
            }
        });
        let ended = match select(self.running.next(), waiting).await {
            Either::Left((ended, _)) => ended,
            Either::Right(_) => return Sent::Done,
        };
        let Some((sent, kind, id)) = ended else { return pending().await };
        *self.count(kind) -= 1;
        if let Some(id) = id {
            self.started.remove(&id);
        }
        sent
    }

    fn count(&mut self, kind: Kind) -> &mut usize {
        match kind {
            Kind::Request => &mut self.requests,
            Kind::Notification => &mut self.notifications,
            Kind::Answer => &mut self.answers,
        }
    }

    /// Returns how many requests can be posted at the same time; the same number applies to answers.
    fn most(&self) -> usize {
        self.posts.config.requests.max(1)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Done,
    /// The server no longer knows the connection of the client.
    Lost,
}

/// The members of a message that distinguish requests, notifications and answers.
#[derive(Default, Deserialize)]
struct Head {
    #[serde(default)]
    id: Option<Id>,
    #[serde(default)]
    method: Option<IgnoredAny>,
    /// The request that this notification cancels.
    #[serde(skip)]
    cancels: Option<Id>,
}

impl Head {
    fn is_request(&self, id: &Id) -> bool {
        self.kind() == Kind::Request && self.id.as_ref() == Some(id)
    }

    fn kind(&self) -> Kind {
        match (&self.method, &self.id) {
            (None, _) => Kind::Answer,
            (Some(_), None) => Kind::Notification,
            (Some(_), Some(_)) => Kind::Request,
        }
    }
}

/// Returns the id of the request that a notification cancels.
fn cancelled(notification: &[u8]) -> Option<Id> {
    #[derive(Deserialize)]
    struct Cancellation {
        method: String,
        params: CancelledParams,
    }
    let read: Cancellation = serde_json::from_slice(notification).ok()?;
    read.params.request_id.filter(|_| read.method == Cancelled::METHOD)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request,
    Notification,
    /// An answer to a request of the server, or several in a batch.
    Answer,
}

/// Posts a message. If the server refuses a request, writes an error answer with the reason, as if the server had sent
/// it.
async fn post(posts: &HttpSender, head: Head, body: Bytes, writer: &Writer) -> Sent {
    let sending = try_post(posts, &body);
    let outcome = if head.kind() == Kind::Request {
        sending.await
    } else {
        let bound = posts.config.message_timeout;
        let late = |_| Err(RpcError::from(Fault::Timeout { what: "a message", bound }));
        timeout(bound, sending).await.unwrap_or_else(late)
    };
    let Err(error) = outcome else { return Sent::Done };
    let lost = HttpFailure::Status(StatusCode::NOT_FOUND.as_u16());
    let sent = if HttpFailure::from_error(&error) == Some(lost) { Sent::Lost } else { Sent::Done };
    let Some(id) = head.id.filter(|_| head.method.is_some()) else {
        tracing::debug!(%error, "the server refused a message");
        return sent;
    };
    let mut answer = Vec::new();
    write_answer(&mut answer, Some(&id), &Err(error));
    answer.push(b'\n');
    let _ = writer.lock().await.write_all(&answer).await;
    sent
}

async fn try_post(posts: &HttpSender, body: &Bytes) -> Result<(), RpcError> {
    let sent = posts.send(&Method::POST, &post_headers, body, ResendPolicy::Never).await;
    let response = sent?;
    if response.status().is_success() {
        drain(response.into_body()).await;
        return Ok(());
    }
    let (head, body) = response.into_parts();
    Err(posts.read_refusal(head.status, &head.headers, body).await)
}
