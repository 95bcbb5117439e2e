//! Messages as POST requests to a URL; responses are JSON or event streams.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use mgp_types::clip;
use serde_json::Value;
use tokio::sync::mpsc;

use super::{Link, MAX_MESSAGE, Received, Sent};
use crate::json::MAX_SHOWN;

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// The endpoint of a server at a URL; each message to the server is one HTTP request.
#[derive(Clone)]
struct Endpoint {
    client: HttpClient,
    uri: Uri,
    headers: HeaderMap,
    /// The headers with the session id and the negotiated revision; each request repeats those that the server has set.
    session: Arc<Mutex<HeaderMap>>,
    timeout: Duration,
}

/// Connects to a URL.
pub(super) fn open(
    url: &str,
    headers: &[(String, String)],
    timeout: Duration,
) -> Result<Link, String> {
    let uri: Uri = url.parse().map_err(|error| format!("`{url}` is not a URL: {error}"))?;
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
    let session = Arc::default();
    let endpoint = Endpoint { client, uri, headers: map, session, timeout };
    let (mut link, mut sent, received) = Link::new(true);
    link.tasks.spawn(async move {
        let mut requests = tokio::task::JoinSet::new();
        while let Some(message) = sent.recv().await {
            let (endpoint, received) = (endpoint.clone(), received.clone());
            requests.spawn(async move {
                let timeout = endpoint.timeout;
                let _ = tokio::time::timeout(timeout, endpoint.exchange(message, received)).await;
            });
        }
        requests.join_all().await;
    });
    Ok(link)
}

impl Endpoint {
    async fn exchange(&self, message: Sent, received: mpsc::Sender<Received>) {
        if let Err(reason) = self.post(message, &received).await {
            let _ = received.send(Received::End(reason)).await;
        }
    }

    async fn post(&self, message: Sent, received: &mpsc::Sender<Received>) -> Result<(), String> {
        let request = self.request(&message)?;
        let response = self.client.request(request).await.map_err(|error| error.to_string())?;
        let (parts, body) = response.into_parts();
        if let Some(id) = parts.headers.get("mcp-session-id") {
            self.remember("mcp-session-id", id.clone());
        }
        let kind = parts.headers.get("content-type").and_then(|kind| kind.to_str().ok());
        let is_stream = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        let status = parts.status.as_u16();
        if is_stream {
            return self.read_events(body, received).await;
        }
        let body = collect(body).await?;
        let id = message.id();
        let item = match (serde_json::from_slice::<Value>(&body), id) {
            (Ok(value), id) => {
                self.note_revision(&value);
                let is_refused = status >= 400 && value.get("id") != id;
                let refused = id.filter(|_| is_refused).map(|id| unanswered(id, status));
                for item in std::iter::once(Received::Message(value)).chain(refused) {
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
            headers.extend(self.session().clone());
            if let Some(value) = value {
                add_mirrored(headers, value);
            }
        }
        request.body(Full::new(Bytes::from(body))).map_err(|error| error.to_string())
    }

    async fn read_events(
        &self,
        mut body: Incoming,
        received: &mpsc::Sender<Received>,
    ) -> Result<(), String> {
        let mut events = EventBuffer::default();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| error.to_string())?;
            let Some(data) = frame.data_ref() else { continue };
            events.push(data);
            if events.bytes.len() > MAX_MESSAGE {
                return Err("an event is longer than 16 MiB".to_owned());
            }
            while let Some(event) = events.next() {
                let data = data_of(&event);
                if data.is_empty() {
                    continue;
                }
                let item = match serde_json::from_str::<Value>(&data) {
                    Ok(value) => {
                        self.note_revision(&value);
                        Received::Message(value)
                    }
                    Err(_) => Received::Garbage(data),
                };
                if received.send(item).await.is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Adds the negotiated revision as a header to each later request of a legacy session.
    fn note_revision(&self, message: &Value) {
        let revision = message.pointer("/result/protocolVersion").and_then(Value::as_str);
        if let Some(Ok(revision)) = revision.map(HeaderValue::try_from) {
            self.remember("mcp-protocol-version", revision);
        }
    }

    fn remember(&self, name: &'static str, value: HeaderValue) {
        self.session().insert(name, value);
    }

    fn session(&self) -> std::sync::MutexGuard<'_, HeaderMap> {
        self.session.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The bytes of an event stream that were received, but not read yet. A part can end inside a character or a line end.
#[derive(Debug, Default)]
struct EventBuffer {
    bytes: Vec<u8>,
    /// The number of bytes in which no event ends.
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
            // The last two bytes can be the beginning of the end of an event.
            self.searched = self.bytes.len().saturating_sub(2);
            return None;
        };
        let event = String::from_utf8_lossy(&self.bytes[..end]).into_owned();
        self.bytes.drain(..end + length);
        self.searched = 0;
        Some(event)
    }
}

/// Returns the data of an event.
fn data_of(event: &str) -> String {
    let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
    let data: Vec<_> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    data.join("\n")
}

fn unanswered(id: &Value, status: u16) -> Received {
    Received::Unanswered(id.clone(), format!("HTTP status {status} without a message"))
}

/// Adds the headers that repeat parts of a modern message.
fn add_mirrored(headers: &mut HeaderMap, message: &Value) {
    let pointer = "/params/_meta/io.modelcontextprotocol~1protocolVersion";
    let Some(revision) = message.pointer(pointer).and_then(Value::as_str) else { return };
    let method = message.get("method").and_then(Value::as_str);
    let named = ["/params/name", "/params/uri"].iter().find_map(|at| message.pointer(at));
    let mirrored = [
        ("mcp-protocol-version", Some(revision)),
        ("mcp-method", method),
        ("mcp-name", named.and_then(Value::as_str)),
    ];
    for (name, value) in mirrored {
        if let Some(Ok(value)) = value.map(HeaderValue::try_from) {
            headers.insert(name, value);
        }
    }
}

async fn collect(mut body: Incoming) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| error.to_string())?;
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
mod tests {
    use super::*;

    /// Returns the data of all events in a stream that arrives in these parts.
    fn read(parts: &[&[u8]]) -> Vec<String> {
        let mut events = EventBuffer::default();
        let mut all = Vec::new();
        for part in parts {
            events.push(part);
            while let Some(event) = events.next() {
                all.push(data_of(&event));
            }
        }
        all
    }

    #[test]
    fn events_do_not_depend_on_the_parts_in_which_they_arrive() {
        let text = "event: message\r\ndata: {\"a\":\"ü 文\"}\r\n\r\n: ping\n\ndata:1\ndata: 2\n\r\ndata: 3";
        let stream = text.as_bytes();
        let expected = ["{\"a\":\"ü 文\"}", "", "1\n2"];
        assert_eq!(read(&stream.chunks(1).collect::<Vec<_>>()), expected);
        for at in 0..=stream.len() {
            let (first, second) = stream.split_at(at);
            assert_eq!(read(&[first, second]), expected, "{at}");
        }
    }
}
