//! The configuration of a client.

use std::time::Duration;

use mgp_lifecycle::{ClientOffer, ConnectConfig, MonitorConfig, RetryLayer};
use mgp_transport::Limits;
use mgp_types::mcp::Implementation;
use mgp_types::service::{Principal, Router, ServerId};

use crate::handler::Hooks;

/// The configuration of a client; [`Client::builder`](crate::Client::builder) fills it in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// The configured id of the server: its identity everywhere, whatever name it reports.
    pub server_id: Option<ServerId>,
    /// The capabilities and extensions that the client offers.
    pub offer: ClientOffer,
    /// The handshake.
    pub connect: ConnectConfig,
    /// The longest time of a request without a sign of progress. Default: 60 s.
    pub timeout: Duration,
    /// The longest time of a tool call that reports progress. Default: 10 minutes.
    pub max_timeout: Duration,
    /// If set, calls of a server without MGP carry `_meta.traceparent`. Default: no.
    pub plain_traceparent: bool,
    /// The time a call waits for a supervised server that starts or restarts. Default: no wait.
    pub ready_timeout: Duration,
    /// If set, a supervised server is monitored and restarted when it is unhealthy.
    pub monitor: Option<MonitorConfig>,
    /// The number of pages after which a list counts as endless. Default: 1000.
    pub max_pages: usize,
    /// The number of times a modern server may ask back during one call. Default: 16.
    pub max_rounds: u32,
    /// If set, calls that failed and may succeed are retried, outside all gates.
    pub retry: Option<RetryLayer>,
    /// Limits of the connection.
    pub limits: Limits,
    /// The stream of changes of a modern server.
    pub listen: ListenConfig,
    /// Settings for servers at a URL.
    #[cfg(feature = "http")]
    pub http: mgp_transport::http::HttpClientConfig,
    /// The principal of the server when it sends requests.
    pub principal: Principal,
    /// Handlers of the server's requests and notifications.
    pub handlers: Router,
    pub(crate) hooks: Hooks,
    /// The stacks of one supervised connection for a gateway; set when the connection is attached.
    pub(crate) gateway: std::sync::Arc<std::sync::OnceLock<crate::wire::GatewayStacks>>,
    /// Finds the caller to ask when a server asks outside of any call.
    pub(crate) unattributed: Option<crate::wire::FindCaller>,
}

impl ClientConfig {
    /// Creates the default configuration of a client with this name; it offers nothing.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            server_id: None,
            offer: ClientOffer::new(Implementation::new(name, version)),
            connect: ConnectConfig::default(),
            timeout: Duration::from_mins(1),
            max_timeout: Duration::from_mins(10),
            plain_traceparent: false,
            ready_timeout: Duration::ZERO,
            monitor: None,
            max_pages: 1000,
            max_rounds: 16,
            retry: None,
            limits: Limits::default(),
            listen: ListenConfig::default(),
            #[cfg(feature = "http")]
            http: mgp_transport::http::HttpClientConfig::default(),
            principal: Principal::local(),
            handlers: Router::new(),
            hooks: Hooks::default(),
            gateway: std::sync::Arc::default(),
            unattributed: None,
        }
    }
}

/// Retries of the stream of changes of a modern server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenConfig {
    /// The first delay; each further one is twice as long. Default: 1 s.
    pub retry: Duration,
    /// The longest delay. Default: 60 s.
    pub max_retry: Duration,
    /// The number of failed attempts in a row; a new subscription starts the count again. Default: 10.
    pub attempts: u32,
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self { retry: Duration::from_secs(1), max_retry: Duration::from_mins(1), attempts: 10 }
    }
}
