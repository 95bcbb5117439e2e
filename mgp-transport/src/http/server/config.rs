//! The settings and limits of an HTTP server.

use std::time::Duration;

use mgp_types::service::Principal;

/// Settings and limits of a server at a URL.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpConfig {
    /// Path of the endpoint; other paths get 404. `None` serves any path, for a service mounted in a router. Default: `/mcp`.
    pub endpoint: Option<String>,
    /// Principal of requests that no layer around the service authenticated; if `None`, they get 401. Default: `None`.
    pub anonymous: Option<Principal>,
    /// Host names (without port) that requests may name besides loopback ones; others get 403.
    ///
    /// A web page can point a host name of its own at this machine; the `Host` header reveals that name.
    pub hosts: Vec<String>,
    /// Origins of web pages that may call, as browsers write them (`https://app.example`), besides loopback ones;
    /// others get 403. Requests without an origin do not come from a browser.
    pub origins: Vec<String>,
    /// Maximum length of a request body; a longer one gets 413. Default: 16 MiB.
    pub body_bytes: usize,
    /// Time for a request body, plus one second for each 8 KiB received; then it gets 408. Default: 10 s.
    pub body_timeout: Duration,
    /// Bytes of request bodies held at once, of all callers; above it requests get 503. Default: 256 MiB.
    ///
    /// A caller may hold up to eight times the bytes that are still free, so that others always find room; above that its
    /// requests get 429.
    pub held_bytes: usize,
    /// Requests that run at once, of all callers; above it requests get 503, except for 64 more pings. Default: 8,192.
    ///
    /// A caller (tenant and subject) may run up to eight times as many as are still free; above that its requests get 429.
    /// A single caller thus gets up to eight ninths of them, two up to eight seventeenths each, and a new one always finds
    /// room.
    pub in_flight: usize,
    /// Form of the answers.
    pub answer_mode: AnswerMode,
    /// Time after which the answer of a running call becomes a stream, which keeps proxies from timing out. Default: 10 s.
    pub stream_delay: Duration,
    /// Interval of keep-alive comments on an idle stream. Default: 15 s.
    pub keep_alive_interval: Duration,
    /// Time a legacy client should wait before it resumes a stream that was cut. Default: 1 s.
    pub retry_delay: Duration,
    /// Time for which a stream may block its call because the client does not read; then the call sees its
    /// caller as gone. Default: 30 s.
    pub stall_timeout: Duration,
    /// Number of legacy sessions. At the limit the longest idle ones, of at least one minute, are ended for new ones;
    /// if there is none, a new session gets 503. For a principal with more than an eighth of all sessions only its own are
    /// ended. Default: 100,000.
    pub sessions: usize,
    /// Time after which an idle legacy session ends. Default: 30 minutes.
    pub session_ttl: Duration,
    /// Bytes of events that a legacy stream keeps for a client that resumes it; the oldest are dropped. Default: 1 MiB.
    pub replay_bytes: usize,
    /// The same for all streams together; above it the oldest of each stream are dropped. Default: 256 MiB.
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
