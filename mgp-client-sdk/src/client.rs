//! A client of one server.
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgp_lifecycle::{ClientOffer, ConnectConfig, ConnectError, Session, StampLayer, connect};
use mgp_transport::{Connection, Limits, Monitor};
use mgp_types::mcp::{CallToolResult, Implementation};
use mgp_types::method::{Request, ToolsCall};
use mgp_types::service::{
    Call, Context, Facts, Method, MgpService, Outlet, Params, Peer, Principal, Reply, Router,
    Scope, Stack,
};
use mgp_types::{Payload, RpcError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tower_layer::{Identity, Layer};

use crate::inbound::inbound;
use crate::outbound::outbound;

/// How a client connects and calls.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// What the client offers.
    pub offer: ClientOffer,
    /// How it shakes hands.
    pub connect: ConnectConfig,
    /// How long a call may take. 60 s.
    pub timeout: Duration,
    /// Bounds of the connection.
    pub limits: Limits,
    /// Who the server is to us, when it sends requests of its own.
    pub principal: Principal,
    /// Methods the client answers itself.
    pub answers: Router,
}

impl ClientConfig {
    /// A client of this name, with the defaults.
    #[must_use]
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            offer: ClientOffer::new(Implementation::new(name, version)),
            connect: ConnectConfig::default(),
            timeout: Duration::from_secs(60),
            limits: Limits::default(),
            principal: Principal::local(),
            answers: Router::new(),
        }
    }
}

/// A connected client; cheap to clone, the connection ends with the last clone.
///
/// ```
/// use mgp_client_sdk::{Client, ClientConfig};
/// use mgp_lifecycle::{HandshakeLayer, ServerOffer};
/// use mgp_transport::{Connection, duplex};
/// use mgp_types::Payload;
/// use mgp_types::mcp::{CallToolResult, Implementation};
/// use mgp_types::service::{Reply, Stack};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (here, there) = duplex();
/// let tools = Stack::from_fn(|_| async { Reply::of(&CallToolResult::text("done")) });
/// let server = HandshakeLayer::new(ServerOffer::new(Implementation::new("s", "1"))).layer(tools);
/// tokio::spawn(Connection::new(there.reader, there.writer, Stack::new(server)).run());
///
/// let client = Client::connect(here.reader, here.writer, ClientConfig::new("c", "1")).await.unwrap();
/// let result = client.call_tool("work", &Payload::empty_object()).await.unwrap();
/// assert_eq!(result.content, CallToolResult::text("done").content);
/// # });
/// ```
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    stack: Stack,
    peer: Peer,
    cx: Context,
    facts: Arc<Facts>,
    session: Arc<Session>,
    monitor: Monitor,
    _driver: Driver,
}

impl Client {
    /// Connects over a pair of byte streams.
    ///
    /// # Errors
    /// Why the handshake failed.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection.
    pub async fn connect<R, W>(
        reader: R,
        writer: W,
        config: ClientConfig,
    ) -> Result<Self, ConnectError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Self::connect_through(reader, writer, config, Identity::new()).await
    }

    /// Connects, with gates of the user's on the way out: audit, access, confirmation and so on.
    ///
    /// # Errors
    /// Why the handshake failed.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection.
    pub async fn connect_through<R, W, L>(
        reader: R,
        writer: W,
        config: ClientConfig,
        gates: L,
    ) -> Result<Self, ConnectError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
        L: Layer<Stack>,
        L::Service: MgpService,
    {
        let ClientConfig { offer, connect: how, timeout, limits, principal, answers } = config;
        let connection =
            Connection::new(reader, writer, inbound(answers)).limits(limits).principal(principal);
        let (peer, cx, monitor) = (connection.peer(), connection.context(), connection.monitor());
        let session = cx.scope.state::<Session>();
        let stamp = StampLayer::new(Arc::clone(&session), &offer).map_err(ConnectError::Refused)?;
        let stack = outbound(peer.clone(), stamp, timeout, gates);
        let driver = Driver(tokio::spawn(async move {
            connection.run().await;
        }));
        let facts = connect(&stack, &cx, &offer, &how).await?;
        Ok(Self(Arc::new(Inner { stack, peer, cx, facts, session, monitor, _driver: driver })))
    }

    /// What the server negotiated.
    #[must_use]
    pub fn server(&self) -> &Facts {
        &self.0.facts
    }

    /// The outbound stack, to send calls of any kind through.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.0.stack
    }

    /// The other end of the connection.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.0.peer
    }

    /// The handshake as it is kept.
    #[must_use]
    pub fn session(&self) -> &Arc<Session> {
        &self.0.session
    }

    /// A look at the tables of the connection.
    #[must_use]
    pub fn monitor(&self) -> &Monitor {
        &self.0.monitor
    }

    /// The scope of the connection.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.0.cx.scope
    }

    /// The surroundings of a new call.
    #[must_use]
    pub fn context(&self) -> Context {
        let mut cx = self.0.cx.clone();
        cx.key = mgp_types::service::CallKey::next();
        cx
    }

    /// Calls a method with typed params.
    ///
    /// # Errors
    /// What the server answers, 3003 when it does not, 2000 when the connection is gone.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call at the server.
    pub async fn request<R: Request>(&self, params: &R::Params) -> Result<R::Result, RpcError> {
        self.0.stack.send(Call::ask::<R>(params, self.context())?).await?.get()
    }

    /// Calls a tool.
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call at the server.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: &Payload,
    ) -> Result<CallToolResult, RpcError> {
        self.call_tool_with(name, arguments, Outlet::none()).await?.get()
    }

    /// Calls a tool, with an outlet for its partial results.
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call at the server.
    pub async fn call_tool_with(
        &self,
        name: &str,
        arguments: &Payload,
        outlet: Outlet,
    ) -> Result<Reply, RpcError> {
        let mut cx = self.context();
        cx.outlet = outlet;
        let call = Call::request(
            Method::from_static(ToolsCall::METHOD),
            Params::tool(name, arguments),
            cx,
        );
        self.0.stack.send(call).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.0.facts).finish_non_exhaustive()
    }
}

/// Ends the driver with whoever holds it: the client, or a handshake that is given up half-way.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}
