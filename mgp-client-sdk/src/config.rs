//! How a client connects and calls.
//!
//! Applies to: outbound.

use std::time::Duration;

use mgp_lifecycle::{ClientOffer, ConnectConfig, MonitorConfig, RetryLayer};
use mgp_transport::Limits;
use mgp_types::mcp::Implementation;
use mgp_types::service::{Principal, Router, ServerId};

use crate::handler::Hooks;

/// How a client connects and calls; [`Client::builder`](crate::Client::builder) writes it for you.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// The configured id of the server: its identity everywhere, whatever it says of itself.
    pub server_id: Option<ServerId>,
    /// What the client offers.
    pub offer: ClientOffer,
    /// How it shakes hands.
    pub connect: ConnectConfig,
    /// How long any request may take without a sign of life. 60 s.
    pub timeout: Duration,
    /// How long a tool call may take that reports progress. 10 minutes.
    pub max_timeout: Duration,
    /// How long a call waits for a supervised server that is started or restarted. Not at all.
    pub ready_wait: Duration,
    /// How a supervised server is watched, so that one that is unhealthy is replaced. Not at all.
    pub monitor: Option<MonitorConfig>,
    /// How many pages of a list are asked for before it counts as endless. 1000.
    pub max_pages: usize,
    /// How often a modern server may ask back in one call. 16.
    pub max_rounds: u32,
    /// Makes calls again that failed and may go better, outside all gates; off without it.
    pub retry: Option<RetryLayer>,
    /// Bounds of the connection.
    pub limits: Limits,
    /// How a modern server is listened to.
    pub listen: ListenConfig,
    /// How a server at a URL is reached.
    #[cfg(feature = "http")]
    pub http: mgp_transport::http::HttpClientConfig,
    /// Who the server is to us, when it sends requests of its own.
    pub principal: Principal,
    /// Methods the client answers itself, and notifications it takes.
    pub answers: Router,
    /// Who is told of changes and progress.
    pub(crate) hooks: Hooks,
    /// The stack of one connection without the gates that outlive it.
    pub(crate) ungated: std::sync::Arc<std::sync::OnceLock<mgp_types::service::Stack>>,
    /// Finds the caller to ask when a server asks outside of any call.
    pub(crate) unattributed: Option<crate::wire::FindCaller>,
}

impl ClientConfig {
    /// A client of this name, with the defaults; it offers nothing.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            server_id: None,
            offer: ClientOffer::new(Implementation::new(name, version)),
            connect: ConnectConfig::default(),
            timeout: Duration::from_mins(1),
            max_timeout: Duration::from_mins(10),
            ready_wait: Duration::ZERO,
            monitor: None,
            max_pages: 1000,
            max_rounds: 16,
            retry: None,
            limits: Limits::default(),
            listen: ListenConfig::default(),
            #[cfg(feature = "http")]
            http: mgp_transport::http::HttpClientConfig::default(),
            principal: Principal::local(),
            answers: Router::new(),
            hooks: Hooks::default(),
            ungated: std::sync::Arc::default(),
            unattributed: None,
        }
    }
}

/// How the stream of changes of a modern server is opened again when it ends.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenConfig {
    /// How long to wait at first; each further pause is twice as long. 1 s.
    pub retry: Duration,
    /// The longest pause. 60 s.
    pub max_retry: Duration,
    /// How often in a row it is opened again that does not last; the next resource that is watched begins anew. 10.
    pub attempts: u32,
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self { retry: Duration::from_secs(1), max_retry: Duration::from_mins(1), attempts: 10 }
    }
}
