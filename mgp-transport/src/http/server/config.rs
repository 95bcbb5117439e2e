//! The settings and limits of an HTTP server.

use std::time::Duration;

use mgp_types::service::Principal;

/// Settings and limits of a server at a URL.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpConfig {
    /// Path of the endpoint; other paths get 404. `None` serves any path, for a service mounted in a router. Default:
    /// `/mcp`.
    pub endpoint: Option<String>,
    /// Principal of requests that no layer around the service authenticated; if `None`, they get 401. Default: `None`.
    pub anonymous: Option<Principal>,
    /// Host names (without port) allowed in `Host`, besides those of this machine (loopback); others get 403.
    ///
    /// This stops DNS rebinding: a web page can make its own host name resolve to this machine, but `Host` then has
    /// that name.
    pub hosts: Vec<String>,
    /// Origins whose web pages may call, as browsers write them (`https://app.example`), besides loopback ones; others
    /// get 403. Requests without `Origin` are allowed, because they do not come from a web page.
    pub origins: Vec<String>,
    /// Maximum length of a request body; a longer one gets 413. Default: 16 MiB.
    pub body_bytes: usize,
    /// Maximum time for a request body, plus one second for each 8 KiB received; a slower one gets 408. Default: 10 s.
    pub body_timeout: Duration,
    /// Maximum size, in bytes, of all request bodies held at once; requests beyond it get 503. Default: 256 MiB.
    ///
    /// One caller may hold at most eight times as many bytes as are free at that moment, so that other callers always
    /// find room; further requests of this caller get 429.
    pub held_bytes: usize,
    /// Maximum number of requests that run at once; requests beyond it get 503, except for up to 64 pings. Default:
    /// 8,192.
    ///
    /// One caller (tenant, subject and agent) may run at most eight times as many requests as there are free places;
    /// further requests of this caller get 429. So a single caller gets up to 8/9 of all places, two callers get up to
    /// 8/17 each, and a new caller always finds room.
    pub in_flight: usize,
    /// If set, a body may be `multipart/related`: a message, then binary parts. A string `cid:NAME` in the message
    /// refers to the data of the part `NAME`. Default: no, unless the server offers `multimodal_signatures`.
    pub multipart: bool,
    /// If set, `POST /tools/NAME` calls a tool with the body as its arguments, and `GET /tools` lists the tools, for
    /// clients that speak no MCP. Default: no.
    pub tool_paths: bool,
    /// Form of the answers.
    pub answer_mode: AnswerMode,
    /// Time after which a call that still runs is answered with an event stream, so that proxies do not time out.
    /// Default: 10 s.
    pub stream_delay: Duration,
    /// Interval of keep-alive comments on an idle stream. Default: 15 s.
    pub keep_alive_interval: Duration,
    /// Time that a legacy client is asked to wait before it resumes a stream that was cut. Default: 1 s.
    pub retry_delay: Duration,
    /// Maximum time for which a call waits for a client that does not read its stream; then the call is treated as if
    /// its client had left. Default: 30 s.
    pub stall_timeout: Duration,
    /// Maximum number of legacy sessions. At the limit, a new session replaces the sessions that have been idle longest
    /// (at least one minute); if no session has been idle so long, the request for a new one gets 503. A principal that
    /// has more than an eighth of all sessions replaces only its own sessions. Default: 100,000.
    pub sessions: usize,
    /// Time after which an idle legacy session ends. Default: 30 minutes.
    pub session_ttl: Duration,
    /// Maximum size, in bytes, of the events that one legacy stream keeps for a client that resumes it; beyond it, the
    /// oldest events are dropped. Default: 1 MiB.
    pub replay_bytes: usize,
    /// Maximum size, in bytes, of the kept events of all streams together; beyond it, each stream drops its oldest
    /// events. Default: 256 MiB.
    pub store_bytes: usize,
}

/// Form of the answers to calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerMode {
    /// JSON, or a stream if there are messages before the answer.
    #[default]
    AsNeeded,
    /// Always a stream.
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
        }
    }
}
