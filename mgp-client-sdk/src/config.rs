//! The configuration of a client.

use std::time::Duration;

use mgp_lifecycle::{ClientOffer, ConnectConfig, MonitorConfig, RetryLayer};
use mgp_stream::ResumeLayer;
use mgp_transport::Limits;
use mgp_types::mcp::Implementation;
use mgp_types::service::{Principal, Router, ServerId};

use crate::handler::Hooks;

/// The configuration of a client; [`Client::builder`](crate::Client::builder) fills it in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// The configured id of the server. This id, and not the name that the server reports, identifies the server in all
    /// records and decisions.
    pub server_id: Option<ServerId>,
    /// The capabilities and extensions that the client offers.
    pub offer: ClientOffer,
    /// The configuration of the handshake.
    pub connect: ConnectConfig,
    /// The maximum time of a request without a progress notification. Default: 60 s.
    pub timeout: Duration,
    /// The maximum duration of a request that reports progress. Default: 10 minutes.
    pub max_timeout: Duration,
    /// `true` if calls to servers without MGP carry `_meta.traceparent`. Default: `false`.
    pub plain_traceparent: bool,
    /// The maximum time that a call waits while a supervised server starts or restarts. Default: no wait.
    pub ready_timeout: Duration,
    /// If set, a supervised server is monitored and restarted when it is unhealthy.
    pub monitor: Option<MonitorConfig>,
    /// The maximum number of pages of a list; a longer list is refused as endless. Default: 1000.
    pub max_pages: usize,
    /// The maximum number of rounds of questions that a server of 2026-07-28 may ask during one call. Default: 16.
    pub max_rounds: u32,
    /// The retry layer, which is outside the layers of the user; `None` disables retries.
    pub retry: Option<RetryLayer>,
    /// The layer that resumes streams whose connection was lost; `None` disables resuming.
    pub resume: Option<ResumeLayer>,
    /// The limits of the connection to the server.
    pub limits: Limits,
    /// The retry settings for the stream of changes of a server of 2026-07-28.
    pub listen: ListenConfig,
    /// Settings for servers at a URL.
    #[cfg(feature = "http")]
    pub http: mgp_transport::http::HttpClientConfig,
    /// The principal of all calls on the connection: the calls that the client makes, and the requests of the server.
    pub principal: Principal,
    /// Handlers of the server's requests and notifications.
    pub handlers: Router,
    pub(crate) hooks: Hooks,
    /// The stacks that a gateway uses on a supervised connection; the supervisor sets them when it starts the
    /// connection.
    pub(crate) gateway: std::sync::Arc<std::sync::OnceLock<crate::wire::GatewayStacks>>,
    /// The function that finds the caller to ask if a question of the server belongs to no call; `None` if such
    /// questions are refused.
    pub(crate) unattributed: Option<crate::wire::FindCaller>,
    /// The party that answers the callbacks of the server, if the client supports callbacks.
    pub(crate) callbacks: Option<crate::wire::CallbackHandler>,
    /// A flag that is set if a supervised program fails at the request that detects its era (the probe).
    pub(crate) fails_at_probe: crate::gateway::FailsAtProbe,
    /// The function that prepares each new connection of a supervised server before calls are made on it, e.g.
    /// subscribes to its events.
    pub(crate) on_connection: Option<crate::gateway::OnConnection>,
}

impl ClientConfig {
    /// Creates the default configuration of a client with this name and version. It offers no capabilities.
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
            resume: None,
            limits: Limits::default(),
            listen: ListenConfig::default(),
            #[cfg(feature = "http")]
            http: mgp_transport::http::HttpClientConfig::default(),
            principal: Principal::local(),
            handlers: Router::new(),
            hooks: Hooks::default(),
            gateway: std::sync::Arc::default(),
            unattributed: None,
            callbacks: None,
            fails_at_probe: crate::gateway::FailsAtProbe::default(),
            on_connection: None,
        }
    }
}

/// The retry settings for the stream of changes of a server of 2026-07-28 (`subscriptions/listen`).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListenConfig {
    /// The delay before the first retry; each further delay is twice as long. Default: 1 s.
    pub retry: Duration,
    /// The maximum delay between two attempts, to which up to a quarter is added at random. Default: 60 s.
    pub max_retry: Duration,
    /// The number of consecutive failed attempts after which all delays are `max_retry`, and a warning is written. A
    /// new subscription resets the count. Default: 10.
    pub attempts: u32,
}

impl Default for ListenConfig {
    fn default() -> Self {
        Self { retry: Duration::from_secs(1), max_retry: Duration::from_mins(1), attempts: 10 }
    }
}
