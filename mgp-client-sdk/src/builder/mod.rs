//! The builder of a client. The offered capabilities follow from the handlers that are set.

mod handlers;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgp_lifecycle::{ConnectGate, EraChoice, MgpOffer, RetryConfig, RetryLayer};
use mgp_security::{Assessment, ServerPolicy};
use mgp_transport::{ChildCommand, Limits};
use mgp_types::Timestamp;
use mgp_types::mcp::Tool;
use mgp_types::method::HealthPing;
use mgp_types::mgp::{Extension, ExtensionSet, HealthStatus, PingResult};
use mgp_types::service::{
    AuditSink, MgpService, PermissionAuthority, Principal, Router, ServerId, Stack,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tower_layer::Layer;

use self::handlers::ElicitationHandlers;
use crate::client::{self, Client};
use crate::config::ClientConfig;
use crate::error::Error;
use crate::extension::ClientExtension;

/// The extensions that are offered by default.
///
/// Permissions and callbacks are offered once they have a handler; a client has no use for code safety.
const DEFAULT_EXTENSIONS: ExtensionSet = ExtensionSet::STANDARD
    .without(Extension::Permissions)
    .without(Extension::Callbacks)
    .without(Extension::CodeSafety);

/// A builder of a client, which is not connected yet.
///
/// ```
/// use mgp_client_sdk::{Client, Error, EraChoice};
/// use mgp_client_sdk::types::mcp::{ElicitAction, ElicitResult, Root};
/// use std::time::Duration;
///
/// let builder = Client::builder("me", "1.0")
///     .era(EraChoice::Auto)
///     .timeout(Duration::from_secs(20))
///     .roots([Root::new("file:///work")])
///     .on_elicitation(|question| async move {
///         println!("{}", question.message);
///         Ok(ElicitResult::new(ElicitAction::Decline))
///     })
///     .on_log(|message| println!("{}", message.data.as_str()));
/// # drop(builder);
/// ```
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    pub(crate) config: ClientConfig,
    mgp: Option<ExtensionSet>,
    gates: Vec<ApplyLayer>,
    elicitation: ElicitationHandlers,
}

type ApplyLayer = Box<dyn Fn(Stack) -> Stack + Send + Sync>;

impl ClientBuilder {
    pub(crate) fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let mut config = ClientConfig::new(name, version);
        let created = Instant::now();
        config.handlers = Router::new().on::<HealthPing, _, _>(move |_, _| async move {
            let mut alive = PingResult::new(HealthStatus::Healthy);
            alive.timestamp = Some(Timestamp::now());
            alive.uptime_secs = Some(created.elapsed().as_secs().into());
            Ok(alive)
        });
        Self {
            config,
            mgp: Some(DEFAULT_EXTENSIONS),
            gates: Vec::new(),
            elicitation: ElicitationHandlers::default(),
        }
    }

    // === Capabilities ===

    /// Sets the MGP extensions to offer. Default: the standard ones except permissions, callbacks and code safety.
    ///
    /// Call this before the methods that add an extension, e.g. [`on_callback`](Self::on_callback) and
    /// [`grantor`](Self::grantor), because it replaces what they have added.
    pub fn mgp(mut self, extensions: ExtensionSet) -> Self {
        self.mgp = Some(extensions);
        self
    }

    /// Installs an extension, and offers it in addition to the extensions that are offered already; a client without
    /// MGP offers no extension.
    ///
    /// ```
    /// use mgp_client_sdk::{Client, ToolResult};
    /// use mgp_client_sdk::types::mgp::Extension;
    /// use mgp_client_sdk::types::proposal::{Intent, Suggestion};
    ///
    /// # async fn run() -> Result<(), mgp_client_sdk::Error> {
    /// let client = Client::builder("me", "1.0").extension(Extension::IntentHints);
    /// # let client = client.connect(tokio::io::empty(), tokio::io::sink()).await?;
    /// let result = client.call("list").with(&Intent("find the last incident".to_owned())).await?;
    /// if let Some(better) = result.member::<Suggestion>()? {
    ///     println!("{} is better", better.recommended_tool);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn extension(mut self, extension: impl ClientExtension) -> Self {
        self.mgp = self.mgp.map(|set| set.with(extension.extension()));
        extension.install(self)
    }

    /// Offers these extensions in addition to the extensions that are offered already; a client without MGP offers no
    /// extension.
    pub fn offer_also(mut self, extensions: ExtensionSet) -> Self {
        self.mgp = self.mgp.map(|set| set | extensions);
        self
    }

    /// Restricts the offered extensions to the given set.
    pub fn limit_extensions(mut self, extensions: ExtensionSet) -> Self {
        self.mgp = self.mgp.map(|set| set & extensions);
        self
    }

    /// Sends the trace of each call as `_meta.traceparent` even to servers without MGP (OpenTelemetry).
    pub fn traceparent(mut self) -> Self {
        self.config.plain_traceparent = true;
        self
    }

    /// Declares that the client shows the pages of tools (MCP Apps), so that servers offer tools with pages.
    pub fn apps(mut self) -> Self {
        self.config.offer.capabilities.declare_apps();
        self
    }

    /// Makes the client use plain MCP, and offer no MGP extension.
    pub fn without_mgp(mut self) -> Self {
        self.mgp = None;
        self
    }

    /// Restricts the client to one era of MCP. Default: the modern era (2026-07-28) if the server supports it, else the
    /// legacy era (2025-11-25 and before).
    pub fn era(mut self, era: EraChoice) -> Self {
        self.config.connect.era = era;
        self
    }

    /// Changes the configuration directly.
    pub fn config(mut self, change: impl FnOnce(&mut ClientConfig)) -> Self {
        change(&mut self.config);
        self
    }

    // === Limits ===

    /// Sets the time-out of requests. Each progress notification restarts it, and it is paused while the client answers
    /// a question of the server. Default: 60 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.config.timeout = timeout;
        self
    }

    /// Sets the maximum duration of a request that reports progress. Default: 10 minutes.
    pub fn max_timeout(mut self, timeout: Duration) -> Self {
        self.config.max_timeout = timeout;
        self
    }

    /// Sets the time-out of the handshake. Default: 30 s.
    pub fn init_timeout(mut self, timeout: Duration) -> Self {
        self.config.connect.handshake_timeout = timeout;
        self
    }

    /// Retries failed calls that may succeed later: after the delay that the server requests, within the limits of
    /// `config`, and with a retry budget and a circuit breaker for the server (MGP §14.6).
    ///
    /// By default no call is retried.
    /// A call that might have run is retried only if the definition of its tool, or [`RetryConfig::repeat`], declares
    /// that a second run is safe, or if the call has an idempotency key and both sides negotiated
    /// [`Extension::Idempotency`](mgp_types::mgp::Extension::Idempotency); [`RetryConfig::keys`] can add keys to all
    /// calls. Each attempt passes through all [layers](Self::layer), and has its own
    /// [time-out](Self::timeout).
    ///
    /// ```
    /// use mgp_client_sdk::types::{ErrorCode, RpcError};
    /// use mgp_client_sdk::{Client, RetryConfig, TestClient};
    /// use mgp_server_sdk::{Server, Tool};
    /// use std::sync::atomic::{AtomicU32, Ordering};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
    /// static CALLS: AtomicU32 = AtomicU32::new(0);
    /// let busy = Tool::new("busy", "Is busy at first", || async {
    ///     match CALLS.fetch_add(1, Ordering::Relaxed) {
    ///         0 => Err(RpcError::new(ErrorCode::RATE_LIMITED, "once a minute")),
    ///         _ => Ok("done"),
    ///     }
    /// });
    /// let builder = Client::builder("me", "1.0").retry(RetryConfig::default());
    /// let client = TestClient::with_builder(Server::new("s", "1").tool(busy), builder).await;
    /// assert_eq!(client.text("busy", ()).await, "done");
    /// assert_eq!(CALLS.load(Ordering::Relaxed), 2);
    /// # });
    /// ```
    pub fn retry(mut self, config: RetryConfig) -> Self {
        // Without governance, the server's own claims about the risk of its tools are used.
        let risk = |tool: &Tool| Assessment::of(tool, &ServerPolicy::default()).effective_risk;
        self.config.retry = Some(RetryLayer::new(config).risk(risk));
        self
    }

    /// Sets the limits of the connection, e.g. the maximum length of a message.
    pub fn wire_limits(mut self, limits: Limits) -> Self {
        self.config.limits = limits;
        self
    }

    /// Adds a layer around all calls, e.g. for audit, access or limits. The layer that is added last is the outermost.
    /// [`gate`](mgp_types::service::gate) and [`around`](mgp_types::service::around) create a layer from a closure.
    ///
    /// Layers can read the properties that were negotiated with the server, and the trace of each call. Time spent in
    /// layers does not count towards the time-out.
    ///
    /// ```
    /// use mgp_client_sdk::{Client, Quota, QuotaLayer, RateKey, RateLayer, RateLimit, TestClient};
    /// use mgp_server_sdk::{Server, Tool};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let builder = Client::builder("me", "1.0")
    ///     .server_id("clock")
    ///     .layer(QuotaLayer::new(Quota::per_day(500)))
    ///     .layer(RateLayer::new(RateLimit::per_minute(60).burst(1).by(RateKey::Server)));
    /// let clock = Server::new("c", "1").tool(Tool::new("now", "The time", || async { "noon" }));
    /// let client = TestClient::with_builder(clock, builder).await;
    /// assert_eq!(client.text("now", ()).await, "noon");
    /// assert_eq!(client.refusal("now", ()).await.code().0, 3000);
    /// # });
    /// ```
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Stack> + Send + Sync + 'static,
        L::Service: MgpService,
    {
        self.gates.push(Box::new(move |stack| Stack::new(layer.layer(stack))));
        self
    }

    /// Sets the principal on whose behalf calls are made.
    pub fn principal(mut self, principal: Principal) -> Self {
        self.config.principal = principal;
        self
    }

    /// Sets the id of the server. This id, and not the name that the server reports, identifies the server in all
    /// records and decisions.
    ///
    /// Each call contains the id as [`Context::server`](mgp_types::service::Context::server), unless its context
    /// already names a server.
    pub fn server_id(mut self, id: impl Into<ServerId>) -> Self {
        self.config.server_id = Some(id.into());
        self
    }

    /// Sets the authority that decides about the server's permissions. The client notifies the server of the decisions
    /// before the connection is ready, after each change, and when the server asks (MGP §3.4–§3.6).
    ///
    /// Decisions are stored under the server's [id](Self::server_id), which is required. If a permission that the
    /// server needs is not granted, the connection succeeds by default, and calls of the tools that need it are
    /// refused; see [`ConnectConfig`](mgp_lifecycle::ConnectConfig).
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use async_trait::async_trait;
    /// use mgp_client_sdk::{Client, TestClient};
    /// use mgp_server_sdk::{Server, Tool};
    /// use mgp_client_sdk::types::mgp::{GrantDecision, Permission, PermissionDecision};
    /// use mgp_client_sdk::types::service::{Context, PermissionAuthority, ServerId};
    /// use tokio::sync::watch;
    ///
    /// /// Lets a server use the camera, and nothing else.
    /// struct Camera(watch::Sender<u64>);
    ///
    /// #[async_trait]
    /// impl PermissionAuthority for Camera {
    ///     async fn decide(&self, cx: &Context, server: &ServerId, _: Vec<Permission>) -> PermissionDecision {
    ///         self.standing(cx, server, &[])
    ///     }
    ///
    ///     fn standing(&self, _: &Context, _: &ServerId, _: &[Permission]) -> PermissionDecision {
    ///         let granted = [(Permission::Camera, GrantDecision::Approved.into())];
    ///         PermissionDecision::new("", granted.into_iter().collect::<std::collections::BTreeMap<_, _>>())
    ///     }
    ///
    ///     fn changes(&self) -> watch::Receiver<u64> {
    ///         self.0.subscribe()
    ///     }
    /// }
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let look = Tool::new("look", "Takes a picture", || async { "a cat" }).permissions(["camera"]);
    /// let run = Tool::new("run", "Runs a command", || async { "done" }).permissions(["shell"]);
    /// let builder = Client::builder("me", "1.0")
    ///     .server_id("studio")
    ///     .grantor(Arc::new(Camera(watch::Sender::new(0))));
    /// let client = TestClient::with_builder(Server::new("s", "1").tool(look).tool(run), builder).await;
    /// assert_eq!(client.text("look", ()).await, "a cat");
    /// assert_eq!(client.refusal("run", ()).await.code().0, 1000);
    /// # });
    /// ```
    pub fn grantor(mut self, grantor: Arc<dyn PermissionAuthority>) -> Self {
        self.config.connect.grantor = Some(grantor);
        self.mgp = self.mgp.map(|set| set.with(Extension::Permissions));
        self
    }

    /// Sets the audit sink that records when the server connects and disconnects (MGP §6.4). The records name the
    /// server by its [id](Self::server_id), which is required.
    ///
    /// Calls are recorded by an audit [layer](Self::layer).
    pub fn audit(mut self, sink: Arc<dyn AuditSink>) -> Self {
        self.config.hooks.audit = Some(sink);
        self
    }

    /// Sets a gate that accepts or rejects the connection, given the permissions that the server needs (MGP §3.4).
    pub fn gate(mut self, gate: impl ConnectGate + 'static) -> Self {
        self.config.connect.permission_gate = Some(Arc::new(gate));
        self.mgp = self.mgp.map(|set| set.with(Extension::Permissions));
        self
    }

    // === Settings for servers at a URL ===

    /// Changes the HTTP settings for servers at a URL.
    #[cfg(feature = "http")]
    pub fn http(mut self, change: impl FnOnce(&mut mgp_transport::http::HttpClientConfig)) -> Self {
        change(&mut self.config.http);
        self
    }

    /// Sets the credentials for a server at a URL.
    #[cfg(feature = "http")]
    pub fn credentials(mut self, credentials: impl mgp_transport::http::Credentials) -> Self {
        self.config.http.credentials = Some(Arc::new(credentials));
        self
    }

    /// Sets a bearer token for a server at a URL.
    #[cfg(feature = "http")]
    pub fn bearer(self, token: impl Into<String>) -> Self {
        self.credentials(mgp_transport::http::Bearer::new(token))
    }

    // === Connecting ===

    /// Connects over a pair of byte streams.
    ///
    /// # Errors
    /// The reason why no connection was established, e.g. why the handshake failed.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection.
    pub async fn connect<R, W>(self, reader: R, writer: W) -> Result<Client, Error>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (config, gates) = self.finish();
        client::establish(reader, writer, config, |outbound| outbound.with_gates(&gates), None)
            .await
    }

    /// Starts a server as a child process and connects to it. The client owns the child process.
    ///
    /// The lines that the server writes to stderr, e.g. why it could not start, are logged with `tracing`. A program
    /// without a subscriber does not see them unless it prints them itself:
    ///
    /// ```
    /// use mgp_client_sdk::prelude::*;
    ///
    /// let server = ChildCommand::new("uvx").args(["mcp-server-time"]).on_stderr(|line| eprintln!("{line}"));
    /// # drop(server);
    /// ```
    ///
    /// Some legacy servers exit when they receive the request that detects their era. If the child exits before it is
    /// connected, it is started once more, in the legacy era; [`era`](Self::era) with a fixed era prevents that.
    ///
    /// # Errors
    /// [`Error::Spawn`] if the child did not start, else the reason why no connection was established; in that case the
    /// child was stopped.
    ///
    /// # Cancel safety
    /// Dropping the future kills the child and its group.
    pub async fn spawn(self, command: ChildCommand) -> Result<Client, Error> {
        let (config, gates) = self.finish();
        client::spawn(&command, config, |outbound| outbound.with_gates(&gates)).await
    }

    /// Connects to a server at a URL, over streamable HTTP. If the server seems to support only the older HTTP+SSE
    /// transport, tries that transport too.
    ///
    /// In the modern era only streams of notifications stay open, e.g. the stream of changes if there is an
    /// [`on_change`](Self::on_change) or [`on_lifecycle`](Self::on_lifecycle) hook. In the legacy era there is a
    /// session. If the server loses the session, the client opens a new one and retries once;
    /// [`HttpConnection`](mgp_transport::http::HttpConnection) describes which calls may be sent twice.
    ///
    /// ```no_run
    /// # async fn run() -> Result<(), mgp_client_sdk::Error> {
    /// use mgp_client_sdk::Client;
    ///
    /// let builder = Client::builder("me", "1.0").bearer("s3cret");
    /// let client = builder.connect_url("https://mcp.example.com/mcp").await?;
    /// # drop(client);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Url`] if the URL is invalid, else the reason why no connection was established, e.g. code 2000 (server
    /// not ready) if the server was not reached, and code 1002 (authentication required) if it requires credentials.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection.
    #[cfg(feature = "http")]
    pub async fn connect_url(self, url: impl AsRef<str>) -> Result<Client, Error> {
        let url = url.as_ref();
        let (config, gates) = self.finish();
        let own = config.clone();
        let connected = client::establish_url(url, own, |outbound| outbound.with_gates(&gates));
        match connected.await {
            Err(error) if client::may_be_http_sse(&error) => {
                // The server may support only the older HTTP+SSE transport, so try it too. If that fails as well,
                // return the error of the first attempt, which is more useful.
                let other =
                    client::establish_http_sse(url, config, |outbound| outbound.with_gates(&gates));
                other.await.map_err(|_| error)
            }
            connected => connected,
        }
    }

    /// Connects to a server at the URL of its event stream, over the older HTTP+SSE transport of 2024-11-05.
    ///
    /// [`connect_url`](Self::connect_url) also tries this transport, if the server does not accept the newer one at
    /// that URL.
    ///
    /// # Errors
    /// The same errors as [`connect_url`](Self::connect_url).
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection.
    #[cfg(feature = "http")]
    pub async fn connect_http_sse(self, url: impl AsRef<str>) -> Result<Client, Error> {
        let (config, gates) = self.finish();
        client::establish_http_sse(url.as_ref(), config, |outbound| outbound.with_gates(&gates))
            .await
    }

    pub(crate) fn finish(mut self) -> (ClientConfig, impl Fn(Stack) -> Stack) {
        let elicitation = std::mem::take(&mut self.elicitation);
        self = self.add_handlers(|router| elicitation.add_handlers(router));
        if let Some(extensions) = self.mgp {
            self.config.offer.mgp.get_or_insert_with(|| MgpOffer::new(extensions));
        }
        let gates = self.gates;
        (self.config, move |stack| gates.iter().fold(stack, |stack, gate| gate(stack)))
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("config", &self.config)
            .field("mgp", &self.mgp)
            .field("layers", &self.gates.len())
            .finish_non_exhaustive()
    }
}
