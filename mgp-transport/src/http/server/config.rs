//! The settings and limits of an HTTP server.

use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use mgp_types::service::{Extensions, Principal};

/// Settings and limits of a server at a URL.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpConfig {
    /// The path of the endpoint, which is also served with a slash at its end; requests for other paths get 404. `None`
    /// accepts every path, for a service that is mounted in a router. Default: `/mcp`.
    pub endpoint: Option<String>,
    /// The principal of requests that no outer layer authenticated; if `None`, such requests get 401. Default: `None`.
    pub anonymous: Option<Principal>,
    /// The host names (without port) that are accepted in the header `Host`, in addition to loopback names and
    /// addresses; requests with other names get 403.
    ///
    /// This prevents DNS rebinding: a web page can make its own host name resolve to this machine, but the browser then
    /// sends that name as `Host`.
    pub hosts: Vec<String>,
    /// The origins whose web pages are allowed to call the server, as browsers write them (`https://app.example`), in
    /// addition to loopback origins; requests from other origins get 403. Requests without `Origin` are accepted,
    /// because they do not come from a web page.
    pub origins: Vec<String>,
    /// The maximum length of a request body; a longer body gets 413. Default: 16 MiB.
    pub body_bytes: usize,
    /// The maximum time for receiving a request body, plus one second for each 8 KiB received; a slower request
    /// gets 408. Default: 10 s.
    pub body_timeout: Duration,
    /// The maximum total size, in bytes, of all request bodies in memory, and of the answers of batches that are not
    /// complete; further requests get 503. Default: 256 MiB.
    ///
    /// The bodies of one caller can have at most eight times the number of bytes that are free at that moment; further
    /// requests of this caller get 429. So a few callers cannot use up the limit.
    pub held_bytes: usize,
    /// The maximum number of requests that run at the same time; further requests get 503, except for up to 64 pings,
    /// answers to the server's questions, and cancellations. Default: 8,192.
    ///
    /// One caller (tenant, subject and agent) can run at most eight times the number of requests that are free at that
    /// moment; further requests of this caller get 429. A single caller thus gets up to 8/9 of the maximum, two callers
    /// up to 8/17 each, and so on.
    pub in_flight: usize,
    /// If set, a request body can be `multipart/related`: a message, followed by binary parts. A string `cid:NAME` in
    /// the message is replaced by the data of the part `NAME`. Default: not set, unless the server offers
    /// `multimodal_signatures`.
    pub multipart: bool,
    /// If set, clients without MCP can use tools: `POST /tools/NAME` calls a tool with the body as its arguments, and
    /// `GET /tools` lists the tools. Default: not set.
    pub tool_paths: bool,
    /// The form of the answers to calls.
    pub answer_mode: AnswerMode,
    /// The time after which a call that is still running is answered with an event stream, so that proxies do not time
    /// out; a client that accepts JSON only waits for the answer. Default: 10 s.
    pub stream_delay: Duration,
    /// Interval of keep-alive comments on an idle stream. Default: 15 s.
    pub keep_alive_interval: Duration,
    /// The time that a client of MCP 2025-11-25 or earlier should wait before it resumes an interrupted stream.
    /// Default: 1 s.
    pub retry_delay: Duration,
    /// The maximum time for which a call waits for a client that does not read its stream; after it, the client counts
    /// as disconnected. Default: 30 s.
    pub stall_timeout: Duration,
    /// The maximum number of sessions, which clients of MCP 2025-11-25 or earlier open. At the limit, a new session
    /// replaces the sessions that have been idle longest. If no session has been idle for a minute, the request for a
    /// new session gets 503. A principal with more than an eighth of all sessions replaces only its own sessions.
    /// Default: 100,000.
    pub sessions: usize,
    /// The time after which an idle session ends. Default: 30 minutes.
    pub session_ttl: Duration,
    /// The maximum size, in bytes, of the events that one stream of a session keeps for a client that resumes it; above
    /// it, the oldest events are dropped. A single event may be larger. Default: 1 MiB.
    pub replay_bytes: usize,
    /// The maximum total size, in bytes, of the events that all streams keep. The sessions of one caller keep at most
    /// eight times the number of bytes that are free, or an eighth of the caller's equal share if that is more; above
    /// that, their streams drop the oldest events. Default: 256 MiB.
    pub store_bytes: usize,
    pub(super) on_request: Vec<OnRequest>,
}

/// A function that reads an HTTP request and adds values to the extensions of its calls.
#[derive(Clone)]
pub(super) struct OnRequest(Arc<ReadRequest>);

type ReadRequest = dyn Fn(&Parts, &mut Extensions) + Send + Sync;

mgp_types::opaque_debug!(OnRequest);

impl OnRequest {
    pub(super) fn read(&self, request: &Parts, extensions: &mut Extensions) {
        (self.0)(request, extensions);
    }
}

impl HttpConfig {
    /// Adds a function that reads each HTTP request and adds values to the extensions of its calls, e.g. a header, or a
    /// value that an outer layer stored in the extensions of the request. A header is not verified.
    ///
    /// ```
    /// use mgp_transport::http::HttpConfig;
    ///
    /// struct Region(String);
    ///
    /// let mut config = HttpConfig::default();
    /// config.on_request(|request, extensions| {
    ///     let region = request.headers.get("x-region").and_then(|value| value.to_str().ok());
    ///     extensions.insert(Region(region.unwrap_or("eu").to_owned()));
    /// });
    /// ```
    pub fn on_request(&mut self, read: impl Fn(&Parts, &mut Extensions) + Send + Sync + 'static) {
        self.on_request.push(OnRequest(Arc::new(read)));
    }
}

/// Form of the answers to calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerMode {
    /// JSON, or an event stream if there are messages before the answer or the call takes long.
    #[default]
    AsNeeded,
    /// An event stream, unless the client accepts JSON only.
    Streams,
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            endpoint: Some("/mcp".to_owned()),
            anonymous: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            body_bytes: 16 << 20,
            body_timeout: Duration::from_secs(10),
            held_bytes: 256 << 20,
            in_flight: 8_192,
            multipart: false,
            tool_paths: false,
            answer_mode: AnswerMode::AsNeeded,
            stream_delay: Duration::from_secs(10),
            keep_alive_interval: Duration::from_secs(15),
            retry_delay: Duration::from_secs(1),
            stall_timeout: Duration::from_secs(30),
            sessions: 100_000,
            session_ttl: Duration::from_mins(30),
            replay_bytes: 1 << 20,
            store_bytes: 256 << 20,
            on_request: Vec::new(),
        }
    }
}
