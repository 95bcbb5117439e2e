//! The client of HTTP+SSE (MCP transports, 2024-11-05), as a pair of byte streams.
//!
//! The server sends all its messages on one event stream. Its first event is the address to which the client posts
//! messages.

use std::future::pending;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, Either, select};
use futures_util::stream::FuturesUnordered;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use mgp_types::service::{CutMessage, HttpFailure, write_answer};
use mgp_types::{Id, RpcError};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::pin::pin;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::time::timeout;

use super::config::HttpClientConfig;
use super::endpoint::Endpoint;
use super::error::{Fault, HttpClientError, causes};
use super::headers::post_headers;
use super::resend::ResendPolicy;
use super::response::Answer;
use super::sender::{HttpSender, drain};
use super::sse::{Event, SseReader, TooLong};
use crate::duplex::{DuplexEnd, duplex};
use crate::frame::answer_too_long;

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
/// [`HttpSseError`] with the reason.
///
/// # Cancel safety
/// Dropping the future closes the connection.
///
/// # Panics
/// If called outside a tokio runtime.
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

/// The event stream of a server.
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
                sender.read_other(*response).await?;
                return Err(no_stream());
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

    /// Returns the next event; `None` at the end.
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

/// Passes messages in both directions until one of the two directions ends.
async fn run(stream: EventStream, posts: HttpSender, there: DuplexEnd) {
    let DuplexEnd { reader, writer } = there;
    let writer = tokio::sync::Mutex::new(writer);
    let receiving = pin!(receive(stream, &writer));
    let sending = pin!(send(reader, &posts, &writer));
    match select(receiving, sending).await {
        Either::Left(_) => tracing::debug!(server = %posts.endpoint, "event stream ended"),
        Either::Right(_) => tracing::debug!(server = %posts.endpoint, "connection closed"),
    }
}

type Writer = tokio::sync::Mutex<tokio::io::WriteHalf<tokio::io::DuplexStream>>;

/// Writes each message of the server as a line.
async fn receive(mut stream: EventStream, writer: &Writer) {
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
            return;
        }
    }
}

/// Returns the message of an event; `None` for an event of another kind.
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

/// Posts each line; returns when there are no more lines, or when the server no longer knows the connection.
async fn send(
    reader: tokio::io::ReadHalf<tokio::io::DuplexStream>,
    posts: &HttpSender,
    writer: &Writer,
) {
    let mut lines = BufReader::new(reader);
    // Several POSTs run at once, because some servers answer the POST of a request only after they
    // have handled the request.
    let mut running: FuturesUnordered<BoxFuture<'_, Sent>> = FuturesUnordered::new();
    let mut line = Vec::new();
    loop {
        let is_full = running.len() >= posts.config.requests.max(1);
        let ended = async {
            match running.next().await {
                Some(sent) => sent,
                None => pending().await,
            }
        };
        let next = async {
            if is_full {
                pending::<()>().await;
            }
            // Cancel safe: bytes that were already read stay in the buffer.
            lines.read_until(b'\n', &mut line).await
        };
        match select(pin!(next), pin!(ended)).await {
            Either::Left((Ok(1..), _)) => {
                let body = Bytes::from(std::mem::take(&mut line));
                running.push(Box::pin(post(posts, body, writer)));
            }
            Either::Left(_) | Either::Right((Sent::Lost, _)) => return,
            Either::Right((Sent::Done, _)) => {}
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Done,
    /// The server no longer knows the connection of the client.
    Lost,
}

/// The members of a message that distinguish requests from other messages.
#[derive(Deserialize)]
struct Head {
    #[serde(default)]
    id: Option<Id>,
    #[serde(default)]
    method: Option<IgnoredAny>,
}

/// Posts a message. If the server refuses a request, writes an error answer with the reason, as if the server had sent
/// it.
async fn post(posts: &HttpSender, body: Bytes, writer: &Writer) -> Sent {
    let error = match try_post(posts, &body).await {
        Ok(()) => return Sent::Done,
        Err(error) => error,
    };
    let lost = HttpFailure::Status(StatusCode::NOT_FOUND.as_u16());
    let sent = if HttpFailure::from_error(&error) == Some(lost) { Sent::Lost } else { Sent::Done };
    let head = serde_json::from_slice::<Head>(&body).ok();
    let id = head.filter(|head| head.method.is_some()).and_then(|head| head.id);
    let Some(id) = id else {
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
