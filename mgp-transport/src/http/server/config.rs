//! The bounds of an HTTP server and what happens at each.
//!
//! Applies to: inbound.

use std::time::Duration;

use mgp_types::service::Principal;

/// How a server at a URL behaves.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpConfig {
    /// The path that is served; others are 404. `None` serves any, for a service mounted by a router. `/mcp`.
    pub endpoint: Option<String>,
    /// Who calls where no layer around the service said so; without it such a request is refused. None.
    pub anonymous: Option<Principal>,
    /// Host names (without port) that requests may name besides loopback ones; others are 403.
    ///
    /// A page in a browser can point a name of its own at this machine: the name it used gives it away.
    pub hosts: Vec<String>,
    /// Origins of web pages that may call, as browsers write them (`https://app.example`), besides loopback ones;
    /// others are 403. Requests without an origin come from no browser.
    pub origins: Vec<String>,
    /// The longest body; a longer one is 413. 16 MiB.
    pub body_bytes: usize,
    /// How long a body may take; a longer one has a second more for each 8 KiB that came, later it is 408. 10 s.
    pub body_time: Duration,
    /// Bytes of bodies that are held at once, of all callers; more are 503. 256 MiB.
    pub held_bytes: usize,
    /// Requests that run at once, of all callers; more are 503, but for pings, of which 64 more may run. 8,192.
    pub in_flight: usize,
    /// How a call is answered.
    pub answers: Answers,
    /// How long a call may run before its answer becomes a stream, which keeps proxies from giving up. 10 s.
    pub quiet: Duration,
    /// How often a stream that has nothing to say says so. 15 s.
    pub keep_alive: Duration,
    /// How long a legacy client waits before it comes back to a stream that was cut. 1 s.
    pub retry: Duration,
    /// How long a stream may make its call wait because nobody reads; then the call is told that its caller left. 30 s.
    pub stall: Duration,
    /// Legacy sessions; at this many those that are idle longest make room, a minute at least: then a new one is 503.
    /// A principal with more than an eighth of them makes room among its own only. 100,000.
    pub sessions: usize,
    /// How long a legacy session may be idle. 30 minutes.
    pub idle: Duration,
    /// Bytes of events a legacy stream keeps for a client that comes back; the oldest go first. 1 MiB.
    pub replay_bytes: usize,
    /// The same for all streams together; at it the oldest of each stream go first. 256 MiB.
    pub store_bytes: usize,
}

/// How a call is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// As JSON, or as a stream where there is something to tell before the answer.
    #[default]
    AsNeeded,
    /// Always as a stream.
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
            body_time: Duration::from_secs(10),
            held_bytes: 256 << 20,
            in_flight: 8_192,
            answers: Answers::AsNeeded,
            quiet: Duration::from_secs(10),
            keep_alive: Duration::from_secs(15),
            retry: Duration::from_secs(1),
            stall: Duration::from_secs(30),
            sessions: 100_000,
            idle: Duration::from_mins(30),
            replay_bytes: 1 << 20,
            store_bytes: 256 << 20,
        }
    }
}
