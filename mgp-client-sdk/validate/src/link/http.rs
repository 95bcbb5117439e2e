//! Messages as POST requests to a URL; responses are JSON or event streams.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use mgp_types::service::{HeaderPlan, encode_header, is_loopback_host, shown_url};
use mgp_types::sync::Mutex;
use mgp_types::{RawObject, clip};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{Link, LinkedServer, MAX_MESSAGE, Received, Sent};
use crate::json::{MAX_SHOWN, REVISION};

/// The maximum time that later messages wait until the server accepts a notification.
const ORDER_TIMEOUT: Duration = Duration::from_secs(2);

/// The delay before a stream that ended is opened again, if the server names no delay.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The minimum delay before a stream that ended is opened again.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The maximum time for the answer to the request that ends a session.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum number of times that the stream of an answer is opened again without receiving an event.
const MAX_EMPTY_STREAMS: u32 = 60;

/// The maximum number of tools whose arguments are repeated in headers.
const MAX_PLANS: usize = 10_000;

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The endpoint of a server at a URL; each message to the server is one HTTP request.
#[derive(Clone)]
pub(super) struct Endpoint {
    client: HttpClient,
    uri: Uri,
    headers: HeaderMap,
    /// The headers with the session id and the negotiated revision, if the server has set them; each request repeats
    /// them.
    session: Arc<Mutex<HeaderMap>>,
    /// The plans for repeating arguments of calls in headers, by the name of the listed tool.
    plans: Arc<Mutex<HashMap<String, HeaderPlan>>>,
    /// The maximum time for each message and its answer; `None` for a relay, whose client has limits of its own.
    timeout: Option<Duration>,
}

/// Parses a URL.
///
/// # Errors
/// Returns the fault of the URL and, for a text without a scheme, the URL that the user probably meant.
fn parse(url: &str) -> Result<Uri, String> {
    let uri = url.parse::<Uri>();
    if let Ok(uri) = &uri
        && uri.scheme().is_some()
    {
        return Ok(uri.clone());
    }
    let why = uri.map_or_else(|error| error.to_string(), |_| "it has no scheme".to_owned());
    let shown = shown_url(url);
    let host = shown.split(['/', ':']).next().unwrap_or_default();
    let scheme = if is_loopback_host(host) { "http" } else { "https" };
    let is_bare = !url.contains("://");
    let remedy = if is_bare { format!("; write `{scheme}://{shown}`") } else { String::new() };
    Err(format!("`{shown}` is not a URL: {why}{remedy}"))
}

/// Connects to a URL.
pub(super) fn open(
    url: &str,
    headers: &[(String, String)],
    timeout: Option<Duration>,
) -> Result<Link, String> {
    let uri = parse(url)?;
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::try_from(name.as_str());
        let value = HeaderValue::try_from(value.as_str());
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err("a header has a name or value that HTTP does not allow".to_owned());
        };
        map.insert(name, value);
    }
    let tls = rustls::ClientConfig::builder()
        .with_native_roots()
        .map_err(|error| format!("the certificates of this system cannot be read: {error}"))?
        .with_no_client_auth();
    let connector =
        HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build();
    let client = Client::builder(TokioExecutor::new()).build(connector);
    let (session, plans) = (Arc::default(), Arc::default());
    let endpoint = Endpoint { client, uri, headers: map, session, plans, timeout };
    let (mut link, sent, received) = Link::new(true);
    link.server = Some(LinkedServer::Url(Box::new(endpoint.clone())));
    link.tasks.spawn(endpoint.run(sent, received));
    Ok(link)
}

impl Endpoint {
    /// Sends each message as a request of its own, and waits for the answers of all.
    async fn run(self, mut sent: mpsc::Receiver<Sent>, received: mpsc::Sender<Received>) {
        let (mut requests, mut streams) = (JoinSet::new(), JoinSet::new());
        while let Some(message) = sent.recv().await {
            let is_request = message.id().is_some();
            let opens_stream = self.is_relay() && message.is_initialized();
            while requests.try_join_next().is_some() {}
            let (endpoint, to) = (self.clone(), received.clone());
            let (accepts, accepted) = oneshot::channel();
            requests.spawn(async move { endpoint.exchange(message, accepts, to).await });
            if !is_request {
                // A request must not overtake the notification before it, e.g. the end of the handshake.
                let limit =
                    self.timeout.map_or(ORDER_TIMEOUT, |limit| ORDER_TIMEOUT.min(limit / 2));
                let _ = timeout(limit, accepted).await;
            }
            if opens_stream {
                let (endpoint, to) = (self.clone(), received.clone());
                streams.spawn(async move { endpoint.listen(&to).await });
            }
        }
        // The stream of a session has no end, so dropping it must end its task.
        drop(streams);
        requests.join_all().await;
    }

    /// Asks the server to end the session, if the server has assigned one. The server may refuse the request.
    pub(super) async fn end_session(&self) {
        let session = self.session.lock().clone();
        let mut request = Request::delete(self.uri.clone());
        if let Some(headers) = request.headers_mut()
            && session.contains_key("mcp-session-id")
        {
            headers.extend(self.headers.clone());
            headers.extend(session);
            if let Ok(request) = request.body(Full::default()) {
                let _ = timeout(END_TIMEOUT, self.client.request(request)).await;
            }
        }
    }

    fn is_relay(&self) -> bool {
        self.timeout.is_none()
    }

    async fn exchange(
        &self,
        message: Sent,
        accepts: oneshot::Sender<()>,
        received: mpsc::Sender<Received>,
    ) {
        let id = message.id().cloned();
        let posted = self.post(message, accepts, &received);
        let outcome = match self.timeout {
            // Report no error here: the judge has the same time limit, and reports that the answer is missing.
            Some(limit) => timeout(limit, posted).await.unwrap_or(Ok(())),
            None => posted.await,
        };
        let Err(reason) = outcome else { return };
        let item = match id {
            Some(id) if self.is_relay() => Received::Unanswered(id, reason),
            // Report nothing in a relay, in which one failed notification does not end the client's connection.
            None if self.is_relay() => return,
            _ => Received::End(reason),
        };
        let _ = received.send(item).await;
    }

    async fn post(
        &self,
        message: Sent,
        accepts: oneshot::Sender<()>,
        received: &mpsc::Sender<Received>,
    ) -> Result<(), String> {
        let request = self.request(&message)?;
        let response = self.client.request(request).await.map_err(|error| causes(&error))?;
        let (parts, body) = response.into_parts();
        let _ = accepts.send(());
        if let Some(id) = parts.headers.get("mcp-session-id") {
            self.remember("mcp-session-id", id.clone());
        }
        let (status, id) = (parts.status.as_u16(), message.id());
        if is_event_stream(&parts.headers) {
            return self.read_stream(body, id, received).await;
        }
        let body = collect(body).await?;
        let item = match (serde_json::from_slice::<Value>(&body), id) {
            (Ok(value), id) => {
                self.note_result(&value);
                let is_missing = (status >= 400 || self.is_relay()) && value.get("id") != id;
                let missing = id.filter(|_| is_missing).map(|id| unanswered(id, status));
                for item in std::iter::once(Received::Message(value)).chain(missing) {
                    received.send(item).await.map_err(|_| "closed".to_owned())?;
                }
                return Ok(());
            }
            (Err(_), Some(id)) if body.is_empty() || status >= 400 => unanswered(id, status),
            (Err(_), None) if body.is_empty() || status >= 400 => Received::Status(status),
            (Err(_), Some(id)) => {
                let text = String::from_utf8_lossy(&body);
                Received::Unanswered(id.clone(), clip(text.trim(), MAX_SHOWN))
            }
            (Err(_), None) => Received::Garbage(String::from_utf8_lossy(&body).into_owned()),
        };
        received.send(item).await.map_err(|_| "closed".to_owned())
    }

    fn request(&self, message: &Sent) -> Result<Request<Full<Bytes>>, String> {
        let (body, value) = match message {
            Sent::Message(value) => (value.to_string(), Some(value)),
            Sent::Raw(text) => (text.clone(), None),
        };
        let mut request = Request::post(self.uri.clone())
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
            headers.extend(self.session.lock().clone());
            if let Some(value) = value {
                add_mirrored(headers, value);
                self.add_arguments(headers, value);
            }
        }
        request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())
    }

    /// Reads the messages that the server sends outside of its answers, if it has a stream for them.
    async fn listen(&self, received: &mpsc::Sender<Received>) {
        let mut position = Position::default();
        while let Ok(Some(body)) = self.get(position.last_id.as_ref()).await {
            // Ignore the error of a broken stream, because the stream is opened again, as after a normal end.
            let _ = self.read_events(body, &mut position, received).await;
            sleep(position.retry_delay()).await;
        }
    }

    /// Opens an event stream, which continues after the event `last_id` if there is one. Returns `None` if the server
    /// has no such stream.
    async fn get(&self, last_id: Option<&HeaderValue>) -> Result<Option<Incoming>, String> {
        let mut request = Request::get(self.uri.clone()).header("accept", "text/event-stream");
        if let Some(headers) = request.headers_mut() {
            headers.extend(self.headers.clone());
            headers.extend(self.session.lock().clone());
            if let Some(last_id) = last_id {
                headers.insert("last-event-id", last_id.clone());
            }
        }
        let request = request.body(Full::default()).map_err(|error| error.to_string())?;
        let response = self.client.request(request).await.map_err(|error| causes(&error))?;
        let (parts, body) = response.into_parts();
        let is_stream = parts.status.is_success() && is_event_stream(&parts.headers);
        Ok(is_stream.then_some(body))
    }

    /// Reads the event stream with the answer to a request. If the stream ends before the answer, opens it again after
    /// the last event: revision 2025-11-25 permits a server to close a stream early.
    async fn read_stream(
        &self,
        mut body: Incoming,
        id: Option<&Value>,
        received: &mpsc::Sender<Received>,
    ) -> Result<(), String> {
        let mut position = Position { wanted: id, ..Position::default() };
        loop {
            let read = self.read_events(body, &mut position, received).await;
            // Ignore an error of the stream if it has delivered the answer, because a stream may break afterwards.
            if position.is_answered {
                return Ok(());
            }
            read?;
            if id.is_none() {
                return Ok(());
            }
            position.empty_streams += 1;
            let next = match &position.last_id {
                Some(last_id) if position.empty_streams <= MAX_EMPTY_STREAMS => {
                    sleep(position.retry_delay()).await;
                    self.get(Some(last_id)).await?
                }
                _ => None,
            };
            match next {
                Some(next) => body = next,
                // Report no error for the judge, which reports the missing answer at its own time limit.
                None if !self.is_relay() => return Ok(()),
                None => return Err("the event stream ended without the answer".to_owned()),
            }
        }
    }

    async fn read_events(
        &self,
        mut body: Incoming,
        position: &mut Position<'_>,
        received: &mpsc::Sender<Received>,
    ) -> Result<(), String> {
        let mut events = EventBuffer::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| causes(&error))?;
            let Some(data) = frame.data_ref() else { continue };
            events.push(data);
            if events.bytes.len() > MAX_MESSAGE {
                return Err("an event is longer than 16 MiB".to_owned());
            }
            while let Some(event) = events.next() {
                position.note_event(&event);
                let data = data_of(&event);
                if data.is_empty() {
                    continue;
                }
                let item = match serde_json::from_str::<Value>(&data) {
                    Ok(value) => {
                        self.note_result(&value);
                        position.note_message(&value);
                        Received::Message(value)
                    }
                    Err(_) => Received::Garbage(data),
                };
                received.send(item).await.map_err(|_| "closed".to_owned())?;
            }
        }
        Ok(())
    }

    /// Records what later requests repeat in headers: the negotiated revision of a legacy session, and arguments of the
    /// listed tools.
    fn note_result(&self, message: &Value) {
        for tool in message.pointer("/result/tools").and_then(Value::as_array).into_iter().flatten()
        {
            let schema = RawObject::of(&tool["inputSchema"]).ok();
            let plan = schema.and_then(|schema| HeaderPlan::of(&schema).ok());
            let (Some(name), Some(plan)) = (tool["name"].as_str(), plan) else { continue };
            let mut plans = self.plans.lock();
            plans.remove(name);
            if !plan.is_empty() && plans.len() < MAX_PLANS {
                plans.insert(name.to_owned(), plan);
            }
        }
        let revision = message.pointer("/result/protocolVersion").and_then(Value::as_str);
        if let Some(Ok(revision)) = revision.map(HeaderValue::try_from) {
            self.remember("mcp-protocol-version", revision);
        }
    }

    fn remember(&self, name: &'static str, value: HeaderValue) {
        self.session.lock().insert(name, value);
    }

    /// Adds the headers that repeat arguments of a modern tool call.
    fn add_arguments(&self, headers: &mut HeaderMap, message: &Value) {
        let is_modern = message.pointer(REVISION).is_some();
        if !is_modern || message["method"] != "tools/call" {
            return;
        }
        let name = message.pointer("/params/name").and_then(Value::as_str).unwrap_or_default();
        let arguments = message.pointer("/params/arguments").map(Value::to_string);
        let arguments = arguments.unwrap_or_else(|| "{}".to_owned());
        let repeated = self.plans.lock().get(name).and_then(|plan| plan.headers(&arguments).ok());
        let Some(repeated) = repeated else { return };
        for (name, value) in repeated.iter() {
            let name = HeaderName::try_from(format!("mcp-param-{name}"));
            if let (Ok(name), Ok(value)) = (name, HeaderValue::try_from(value)) {
                headers.insert(name, value);
            }
        }
    }
}

#[derive(Debug, Default)]
struct Position<'a> {
    /// The id of the request that the stream answers; `None` for a stream that answers no request.
    wanted: Option<&'a Value>,
    is_answered: bool,
    /// The id of the last event; the stream is continued after it.
    last_id: Option<HeaderValue>,
    /// The delay that the server named.
    retry: Option<Duration>,
    /// The number of streams that ended since the last event was received.
    empty_streams: u32,
}

impl Position<'_> {
    fn note_event(&mut self, event: &str) {
        self.empty_streams = 0;
        if let Some(id) = values(event, "id").last() {
            self.last_id = HeaderValue::try_from(id).ok().filter(|id| !id.is_empty());
        }
        if let Some(Ok(delay)) = values(event, "retry").last().map(str::parse::<u64>) {
            self.retry = Some(Duration::from_millis(delay));
        }
    }

    fn note_message(&mut self, message: &Value) {
        let is_answer = message.get("method").is_none();
        self.is_answered |= is_answer && self.wanted.is_some() && message.get("id") == self.wanted;
    }

    fn retry_delay(&self) -> Duration {
        self.retry.unwrap_or(RETRY_DELAY).max(MIN_RETRY_DELAY)
    }
}

/// The bytes of an event stream that were received, but not read yet. A part can end inside a character or a line end.
#[derive(Debug, Default)]
struct EventBuffer {
    bytes: Vec<u8>,
    /// The number of bytes at the beginning of `bytes` that were searched already without finding the end of an event.
    searched: usize,
}

impl EventBuffer {
    fn push(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(part);
    }

    /// Removes and returns the next complete event, with the end of its last line; an empty line ends an event.
    fn next(&mut self) -> Option<String> {
        let rest = &self.bytes[self.searched..];
        let ends = rest.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let found = ends.map(|(at, _)| at + 1).find_map(|at| {
            let length = match &rest[at..] {
                [b'\n', ..] => 1,
                [b'\r', b'\n', ..] => 2,
                _ => return None,
            };
            Some((self.searched + at, length))
        });
        let Some((end, length)) = found else {
            // Search the last two bytes again, because an end of an event can begin in them.
            self.searched = self.bytes.len().saturating_sub(2);
            return None;
        };
        let event = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
        self.bytes.drain(..end + length);
        self.searched = 0;
        Some(event)
    }
}

fn data_of(event: &str) -> String {
    values(event, "data").collect::<Vec<_>>().join("\n")
}

fn values<'a>(event: &'a str, field: &'a str) -> impl Iterator<Item = &'a str> {
    let values = event.lines().filter_map(move |line| line.strip_prefix(field)?.strip_prefix(':'));
    values.map(|value| value.strip_prefix(' ').unwrap_or(value))
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get("content-type").and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

fn unanswered(id: &Value, status: u16) -> Received {
    Received::Unanswered(id.clone(), format!("HTTP status {status} without an answer"))
}

/// Adds the headers that repeat parts of a modern message.
fn add_mirrored(headers: &mut HeaderMap, message: &Value) {
    let Some(revision) = message.pointer(REVISION).and_then(Value::as_str) else { return };
    let method = message.get("method").and_then(Value::as_str);
    let named = ["/params/name", "/params/uri"].iter().find_map(|at| message.pointer(at));
    let mirrored = [
        ("mcp-protocol-version", Some(revision)),
        ("mcp-method", method),
        ("mcp-name", named.and_then(Value::as_str)),
    ];
    for (name, value) in mirrored {
        // A value that a header cannot have, e.g. a name outside of ASCII, is sent in Base64.
        let value = value.map(|value| HeaderValue::try_from(&*encode_header(value)));
        if let Some(Ok(value)) = value {
            headers.insert(name, value);
        }
    }
}

/// Returns the texts of an error and of its sources, which contain the reason why a server was not reached.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let all = std::iter::successors(Some(error), |error| error.source());
    all.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

async fn collect(mut body: Incoming) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| causes(&error))?;
        if let Some(data) = frame.data_ref() {
            all.extend_from_slice(data);
        }
        if all.len() > MAX_MESSAGE {
            return Err("a response is longer than 16 MiB".to_owned());
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
