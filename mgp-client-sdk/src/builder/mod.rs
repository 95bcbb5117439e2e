//! Puts a client together: what it offers follows from what it is given to answer with.
//!
//! Applies to: outbound.

mod answers;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgp_lifecycle::{EraChoice, MgpOffer, PermissionGate, RetryConfig, RetryLayer};
use mgp_security::{Assessment, ServerPolicy};
use mgp_transport::{ChildCommand, Limits};
use mgp_types::mcp::Tool;
use mgp_types::method::HealthPing;
use mgp_types::mgp::{Extension, ExtensionSet, HealthStatus, PingResult};
use mgp_types::service::{AuditSink, Grantor, MgpService, Principal, Router, ServerId, Stack};
use tokio::io::{AsyncRead, AsyncWrite};
use tower_layer::Layer;

use self::answers::Asked;
use crate::client::{self, Client};
use crate::config::ClientConfig;
use crate::error::Error;

/// What of MGP a client serves without further ado: everything that asks no answer of its user.
///
/// Permissions need somebody who decides and callbacks somebody to answer them: they are offered once those are given.
const SERVED: ExtensionSet =
    ExtensionSet::STANDARD.without(Extension::Permissions).without(Extension::Callbacks);

/// A client that is not connected yet.
///
/// ```
/// use mgp_client_sdk::{Client, Error, EraChoice};
/// use mgp_types::mcp::{ElicitAction, ElicitResult, Root};
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
    gates: Vec<Wrap>,
    asked: Asked,
}

type Wrap = Box<dyn FnOnce(Stack) -> Stack + Send>;

impl ClientBuilder {
    pub(crate) fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let mut config = ClientConfig::new(name, version);
        config.answers = Router::new().on::<HealthPing, _, _>(|_, ping| async move {
            let mut alive = PingResult::new(HealthStatus::Healthy);
            alive.timestamp = ping.timestamp;
            Ok(alive)
        });
        Self { config, mgp: Some(SERVED), gates: Vec::new(), asked: Asked::default() }
    }

    // === What is offered ===

    /// Offers these extensions of MGP; all that this crate serves without it.
    pub fn mgp(mut self, extensions: ExtensionSet) -> Self {
        self.mgp = Some(extensions);
        self
    }

    /// Offers only those of its extensions that are in the given set.
    pub fn limit_extensions(mut self, extensions: ExtensionSet) -> Self {
        self.mgp = self.mgp.map(|set| set & extensions);
        self
    }

    /// Speaks plain MCP only.
    pub fn plain(mut self) -> Self {
        self.mgp = None;
        self
    }

    /// Speaks one era only; without it the modern one where the server does, else the legacy one.
    pub fn era(mut self, era: EraChoice) -> Self {
        self.config.connect.era = era;
        self
    }

    /// Changes what is offered and how the client connects, down to the last setting.
    pub fn config(mut self, change: impl FnOnce(&mut ClientConfig)) -> Self {
        change(&mut self.config);
        self
    }

    // === Bounds ===

    /// Bounds every request. 60 s; each sign of progress starts the time anew.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.config.timeout = timeout;
        self
    }

    /// Bounds a request however much progress it reports. 10 minutes.
    pub fn max_timeout(mut self, timeout: Duration) -> Self {
        self.config.max_timeout = timeout;
        self
    }

    /// Bounds the handshake. 30 s.
    pub fn init_timeout(mut self, timeout: Duration) -> Self {
        self.config.connect.handshake_timeout = timeout;
        self
    }

    /// Makes calls again that failed and may go better: after the waits the server asks for, within these bounds,
    /// and with a budget and a circuit breaker for the server (MGP §14.6).
    ///
    /// Without it no call is made again: who calls a tool should know how often it runs.
    /// A call that may have run is repeated only where the definition of its tool says that this does no harm, or
    /// [`RetryConfig::repeat`] does.
    /// It stands outside all [layers](Self::layer); each attempt has the [time](Self::timeout) of a call.
    ///
    /// ```
    /// use mgp_client_sdk::{Client, RetryConfig, TestClient};
    /// use mgp_server_sdk::{Server, Tool};
    /// use mgp_types::{ErrorCode, RpcError};
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
    /// let client = TestClient::through(Server::new("s", "1").tool(busy), builder).await;
    /// assert_eq!(client.text("busy", ()).await, "done");
    /// assert_eq!(CALLS.load(Ordering::Relaxed), 2);
    /// # });
    /// ```
    pub fn retry(mut self, config: RetryConfig) -> Self {
        // A server's word on the risk of its tools counts as far as without any governance.
        let risk = |tool: &Tool| Assessment::of(tool, &ServerPolicy::default()).effective_risk;
        self.config.retry = Some(RetryLayer::new(config).risk(risk));
        self
    }

    /// Bounds what the connection may hold.
    pub fn wire_limits(mut self, limits: Limits) -> Self {
        self.config.limits = limits;
        self
    }

    /// Puts a layer around all calls: audit, access, limits; the last one put is the outermost.
    ///
    /// Layers see the callee's facts and the trace of each call; time they take does not count as the server's.
    ///
    /// ```
    /// use mgp_client_sdk::{Client, TestClient};
    /// use mgp_lifecycle::{Quota, QuotaLayer, RateKey, RateLayer, RateLimit};
    /// use mgp_server_sdk::{Server, Tool};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let builder = Client::builder("me", "1.0")
    ///     .server_id("clock")
    ///     .layer(QuotaLayer::new(Quota::per_day(500)))
    ///     .layer(RateLayer::new(RateLimit::per_minute(60).burst(1).by(RateKey::Server)));
    /// let clock = Server::new("c", "1").tool(Tool::new("now", "The time", || async { "noon" }));
    /// let client = TestClient::through(clock, builder).await;
    /// assert_eq!(client.text("now", ()).await, "noon");
    /// assert_eq!(client.refusal("now", ()).await.code().0, 3000);
    /// # });
    /// ```
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Stack> + Send + 'static,
        L::Service: MgpService,
    {
        self.gates.push(Box::new(move |stack| Stack::new(layer.layer(stack))));
        self
    }

    /// Sets for whom the calls are made.
    pub fn principal(mut self, principal: Principal) -> Self {
        self.config.principal = principal;
        self
    }

    /// Names the server: the configured id is its identity everywhere, whatever it says of itself.
    ///
    /// Each call has it as [`Context::server`](mgp_types::service::Context::server), unless one is there already.
    pub fn server_id(mut self, id: impl Into<ServerId>) -> Self {
        self.config.server_id = Some(id.into());
        self
    }

    /// Has the permissions a server needs decided, and tells it what stands: before the connection is ready,
    /// whenever something changes, and when the server asks (MGP §3.4–§3.6).
    ///
    /// Decisions are kept under the [id](Self::server_id) of the server, so there must be one.
    /// What becomes of the connection without them is in
    /// [`ConnectConfig`](mgp_lifecycle::ConnectConfig); it proceeds, and calls are refused by the layer that guards them.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mgp_client_sdk::{Client, TestClient};
    /// use mgp_server_sdk::{Server, Tool};
    /// use mgp_types::mgp::{GrantDecision, Permission, PermissionDecision};
    /// use mgp_types::service::{BoxFuture, Context, Grantor, ServerId};
    /// use tokio::sync::watch;
    ///
    /// /// Lets a server take pictures, and nothing else.
    /// struct Camera(watch::Sender<u64>);
    ///
    /// impl Grantor for Camera {
    ///     fn decide(&self, cx: &Context, server: &ServerId, _: Vec<Permission>)
    ///         -> BoxFuture<'static, PermissionDecision> {
    ///         Box::pin(std::future::ready(self.standing(cx, server)))
    ///     }
    ///
    ///     fn standing(&self, _: &Context, _: &ServerId) -> PermissionDecision {
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
    /// let client = TestClient::through(Server::new("s", "1").tool(look).tool(run), builder).await;
    /// assert_eq!(client.text("look", ()).await, "a cat");
    /// assert_eq!(client.refusal("run", ()).await.code().0, 1000);
    /// # });
    /// ```
    pub fn grantor(mut self, grantor: Arc<dyn Grantor>) -> Self {
        self.config.connect.grantor = Some(grantor);
        self.mgp = self.mgp.map(|set| set.with(Extension::Permissions));
        self
    }

    /// Records that the server is there, and that it is gone (MGP §6.4), each once and under the
    /// [id](Self::server_id) of the server, so there must be one.
    ///
    /// Calls are recorded by an audit [layer](Self::layer).
    pub fn audit(mut self, sink: Arc<dyn AuditSink>) -> Self {
        self.config.hooks.audit = Some(sink);
        self
    }

    /// Decides about the permissions a server needs, before the connection is ready (MGP §3.4).
    pub fn gate(mut self, gate: impl PermissionGate + 'static) -> Self {
        self.config.connect.gate = Some(Arc::new(gate));
        self.mgp = self.mgp.map(|set| set.with(Extension::Permissions));
        self
    }

    // === Servers at a URL ===

    /// Changes how servers at a URL are reached, and the bounds of what they may send.
    #[cfg(feature = "http")]
    pub fn http(mut self, change: impl FnOnce(&mut mgp_transport::http::HttpClientConfig)) -> Self {
        change(&mut self.config.http);
        self
    }

    /// Shows credentials to a server at a URL.
    #[cfg(feature = "http")]
    pub fn credentials(mut self, credentials: impl mgp_transport::http::Credentials) -> Self {
        self.config.http.credentials = Some(Arc::new(credentials));
        self
    }

    /// Shows a token to a server at a URL.
    #[cfg(feature = "http")]
    pub fn bearer(self, token: impl Into<String>) -> Self {
        self.credentials(mgp_transport::http::Bearer::new(token))
    }

    // === Connecting ===

    /// Connects over a pair of byte streams.
    ///
    /// # Errors
    /// Why the handshake failed.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection.
    pub async fn connect<R, W>(self, reader: R, writer: W) -> Result<Client, Error>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (config, gates) = self.finish();
        client::establish(reader, writer, config, |road| road.through(gates), None).await
    }

    /// Starts a server as a child process and connects to it; the client owns the child from then on.
    ///
    /// # Errors
    /// [`Error::Spawn`] when it did not start, else why the handshake failed; the child is gone then.
    ///
    /// # Cancel safety
    /// Dropping the future kills the child and its group.
    pub async fn spawn(self, command: ChildCommand) -> Result<Client, Error> {
        let (config, gates) = self.finish();
        client::spawn(&command, config, |road| road.through(gates)).await
    }

    /// Connects to a server at a URL, over streamable HTTP.
    ///
    /// Nothing is kept open in the modern era, but for the stream of changes where somebody
    /// [hears](Self::on_change) of them. In the legacy era there is a session, which is opened anew once when the
    /// server has lost it; see [`HttpConnection`](mgp_transport::http::HttpConnection) for which calls may be sent twice.
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
    /// [`Error::Url`] when the URL cannot be used, else why the handshake failed: 2000 when the server was not reached,
    /// 1002 when it wants credentials.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection.
    #[cfg(feature = "http")]
    pub async fn connect_url(self, url: impl AsRef<str>) -> Result<Client, Error> {
        let (config, gates) = self.finish();
        client::reach(url.as_ref(), config, |road| road.through(gates)).await
    }

    pub(crate) fn finish(mut self) -> (ClientConfig, impl FnOnce(Stack) -> Stack) {
        let asked = std::mem::take(&mut self.asked);
        self = self.answer(|router| asked.answer(router));
        if let Some(extensions) = self.mgp {
            self.config.offer.mgp.get_or_insert_with(|| MgpOffer::new(extensions));
        }
        let gates = self.gates;
        (self.config, move |stack| gates.into_iter().fold(stack, |stack, gate| gate(stack)))
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
