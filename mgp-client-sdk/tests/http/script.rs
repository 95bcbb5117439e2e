//! A server at a URL whose responses are scripted byte for byte.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mgp_client_sdk::{Client, ClientBuilder, EraCache};
use mgp_types::service::BoxFuture;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) verb: String,
    pub(crate) path: String,
    /// The headers of the request, by lower-case name.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Value,
    /// The number of the connection over which the request was received.
    pub(crate) connection: usize,
    pub(crate) at: Instant,
}

impl Received {
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or_default()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(String::as_str)
    }

    pub(crate) fn result(&self, result: &Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.body["id"], "result": result })
    }

    /// Creates the result of this tool call, which consists of a text.
    pub(crate) fn text(&self, text: &str) -> Value {
        self.result(&json!({ "content": [{ "type": "text", "text": text }] }))
    }
}

pub(crate) enum Response {
    /// A status, headers, and a body with its type.
    Whole(u16, Vec<(&'static str, String)>, &'static str, String),
    /// The headers and the steps of a stream of events.
    Events(Vec<(&'static str, String)>, Vec<Step>),
    /// The server closes the connection without a response.
    Nothing,
    /// The server responds and closes the connection immediately, without announcing it.
    Last(Box<Self>),
}

#[derive(Clone)]
pub(crate) enum Step {
    Say(String),
    /// The server waits for a signal of the test.
    Until(Arc<Notify>),
    /// The server waits until the client closes the stream.
    Hold,
    /// The server closes the connection without an end of the stream.
    Break,
}

pub(crate) trait Pipe: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<P: AsyncRead + AsyncWrite + Send + Unpin + 'static> Pipe for P {}

/// A function that opens a connection over a socket; it returns `None` if the handshake fails.
type Open = dyn Fn(TcpStream) -> BoxFuture<'static, Option<Box<dyn Pipe>>> + Send + Sync;

pub(crate) fn json_of(value: &Value) -> Response {
    Response::Whole(200, Vec::new(), "application/json", value.to_string())
}

pub(crate) fn status(code: u16) -> Response {
    Response::Whole(code, Vec::new(), "", String::new())
}

pub(crate) fn refused(code: u16, seen: &Received, error: i32) -> Response {
    let body = json!({
        "jsonrpc": "2.0", "id": seen.body["id"],
        "error": { "code": error, "message": "scripted refusal" },
    });
    Response::Whole(code, Vec::new(), "application/json", body.to_string())
}

pub(crate) fn events(steps: impl IntoIterator<Item = Step>) -> Response {
    Response::Events(Vec::new(), steps.into_iter().collect())
}

pub(crate) fn say(message: &Value) -> Step {
    Step::Say(format!("event: message\ndata: {message}\n\n"))
}

type Answer = dyn Fn(&Received) -> Response + Send + Sync;

/// A server that runs until it is dropped.
pub(crate) struct Server {
    pub(crate) url: String,
    log: Arc<Log>,
    running: tokio::task::JoinHandle<()>,
}

#[derive(Default)]
struct Log {
    seen: Mutex<Vec<Received>>,
    /// The methods of requests whose streams the client has closed.
    left: Mutex<Vec<String>>,
    news: Notify,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Server {
    pub(crate) async fn start(
        answer: impl Fn(&Received) -> Response + Send + Sync + 'static,
    ) -> Self {
        let bare: Arc<Open> =
            Arc::new(|stream| Box::pin(async move { Some(Box::new(stream) as Box<dyn Pipe>) }));
        Self::start_over("http", bare, answer).await
    }

    /// Starts a server that uses `open` to open each of its sockets.
    pub(crate) async fn start_over(
        scheme: &str,
        open: Arc<Open>,
        answer: impl Fn(&Received) -> Response + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("{scheme}://{}/mcp", listener.local_addr().unwrap());
        let (log, answer) = (Arc::new(Log::default()), Arc::new(answer) as Arc<Answer>);
        let own = Arc::clone(&log);
        let running = tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                let (open, own, answer) = (open(stream), Arc::clone(&own), Arc::clone(&answer));
                tokio::spawn(async move {
                    if let Some(pipe) = open.await {
                        serve(pipe, connection, own, answer).await;
                    }
                });
            }
        });
        Self { url, log, running }
    }

    /// Starts a legacy server with sessions. Where `more` returns `None`, the server gives its usual answer.
    pub(crate) async fn legacy(
        more: impl Fn(&Received) -> Option<Response> + Send + Sync + 'static,
    ) -> Self {
        let sessions = AtomicUsize::new(0);
        Self::start(move |seen| {
            if let Some(response) = more(seen) {
                return response;
            }
            match (&*seen.verb, seen.method()) {
                ("GET", _) => status(405),
                ("DELETE", _) => status(200),
                (_, "server/discover") => refused(400, seen, -32600),
                (_, "initialize") => {
                    let number = sessions.fetch_add(1, Ordering::Relaxed) + 1;
                    initialized(seen, &format!("s-{number}"))
                }
                _ if seen.body.get("id").is_none() || seen.body.get("method").is_none() => {
                    status(202)
                }
                _ => json_of(&seen.text("done")),
            }
        })
        .await
    }

    /// Starts a modern server. Where `more` returns `None`, the server gives its [usual](usual) answer.
    pub(crate) async fn modern(
        more: impl Fn(&Received) -> Option<Response> + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |seen| more(seen).unwrap_or_else(|| usual(seen))).await
    }

    pub(crate) fn seen(&self) -> Vec<Received> {
        self.log.seen.lock().unwrap().clone()
    }

    /// Returns the MCP methods of POST requests (`answer` if there is none), and the HTTP verbs of other requests.
    pub(crate) fn methods(&self) -> Vec<String> {
        let word = |seen: Received| match seen.method() {
            "" if seen.verb == "POST" => "answer".to_owned(),
            "" => seen.verb,
            method => method.to_owned(),
        };
        self.seen().into_iter().map(word).collect()
    }

    pub(crate) fn count(&self, word: &str) -> usize {
        self.methods().iter().filter(|known| *known == word).count()
    }

    /// Waits until a request that fulfils `what` has been received, and returns it.
    pub(crate) async fn wait_for(&self, what: impl Fn(&Received) -> bool) -> Received {
        self.wait(|| self.seen().into_iter().find(&what)).await
    }

    /// Waits until the client has closed the stream of a method.
    pub(crate) async fn wait_left(&self, method: &str) {
        self.wait(|| self.log.left.lock().unwrap().iter().any(|left| left == method).then_some(()))
            .await;
    }

    async fn wait<T>(&self, look: impl Fn() -> Option<T>) -> T {
        let waiting = async {
            loop {
                let news = self.log.news.notified();
                if let Some(found) = look() {
                    return found;
                }
                news.await;
            }
        };
        let found = timeout(Duration::from_secs(10), waiting).await;
        found.unwrap_or_else(|_| panic!("request missing; received: {:?}", self.methods()))
    }
}

/// Returns the usual answer of a modern server to a request.
pub(crate) fn usual(seen: &Received) -> Response {
    match seen.method() {
        "server/discover" => discovered(seen, &json!({ "tools": {} })),
        // A client requests this list before its first call, because tools may need arguments in headers.
        "tools/list" => json_of(&seen.result(&json!({
            "resultType": "complete", "tools": [], "ttlMs": 60_000, "cacheScope": "private",
        }))),
        _ => json_of(&seen.text("done")),
    }
}

pub(crate) fn discovered(seen: &Received, capabilities: &Value) -> Response {
    json_of(&seen.result(&json!({
        "resultType": "complete", "supportedVersions": ["2026-07-28"],
        "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private",
    })))
}

pub(crate) fn initialized(seen: &Received, session: &str) -> Response {
    let result = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
        "serverInfo": { "name": "script", "version": "1" },
    });
    let headers = vec![("Mcp-Session-Id", session.to_owned())];
    Response::Whole(200, headers, "application/json", seen.result(&result).to_string())
}

/// Returns the builder of a client that does not know the era of any server yet.
pub(crate) fn client() -> ClientBuilder {
    Client::builder("tester", "1").without_mgp().http(|http| {
        http.eras = EraCache::new();
        http.retry = Duration::from_millis(20);
    })
}

async fn serve(stream: Box<dyn Pipe>, connection: usize, log: Arc<Log>, answer: Arc<Answer>) {
    let mut stream = BufReader::new(stream);
    while let Some(seen) = read(&mut stream, connection).await {
        log.seen.lock().unwrap().push(seen.clone());
        log.news.notify_waiters();
        let (response, is_last) = match answer(&seen) {
            Response::Last(response) => (*response, true),
            response => (response, false),
        };
        let stays = match response {
            Response::Whole(code, headers, kind, body) => {
                let mut head = head(code, headers);
                if !kind.is_empty() {
                    write!(head, "Content-Type: {kind}\r\n").unwrap();
                }
                let text = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
                stream.get_mut().write_all(text.as_bytes()).await.is_ok()
            }
            Response::Events(headers, steps) => {
                let stays = tell(&mut stream, head(200, headers), steps).await;
                if !stays {
                    log.left.lock().unwrap().push(seen.method().to_owned());
                    log.news.notify_waiters();
                }
                stays
            }
            Response::Nothing | Response::Last(_) => false,
        };
        if !stays || is_last {
            return;
        }
    }
}

fn head(code: u16, headers: Vec<(&'static str, String)>) -> String {
    let mut head = format!("HTTP/1.1 {code} scripted\r\n");
    for (name, value) in headers {
        write!(head, "{name}: {value}\r\n").unwrap();
    }
    head
}

/// Writes events; returns `false` when the connection is closed.
async fn tell(stream: &mut BufReader<Box<dyn Pipe>>, head: String, steps: Vec<Step>) -> bool {
    let head =
        format!("{head}Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    if stream.get_mut().write_all(head.as_bytes()).await.is_err() {
        return false;
    }
    for step in steps {
        match step {
            Step::Say(text) => {
                let chunk = format!("{:x}\r\n{text}\r\n", text.len());
                if stream.get_mut().write_all(chunk.as_bytes()).await.is_err() {
                    return false;
                }
            }
            Step::Until(word) => word.notified().await,
            Step::Hold => {
                let mut byte = [0];
                let _ = stream.read(&mut byte).await;
                return false;
            }
            Step::Break => return false,
        }
    }
    stream.get_mut().write_all(b"0\r\n\r\n").await.is_ok()
}

async fn read(stream: &mut BufReader<Box<dyn Pipe>>, connection: usize) -> Option<Received> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok().filter(|count| *count > 0)?;
    let mut methods = line.split_whitespace();
    let (verb, path) = (methods.next()?.to_owned(), methods.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Some(Received { verb, path, headers, body, connection, at: Instant::now() })
}
