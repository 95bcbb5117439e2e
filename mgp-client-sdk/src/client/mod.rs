//! A client of one server.
//!
//! Applies to: outbound.

mod establish;
mod lists;
mod mcp;
mod mgp;
mod rounds;
mod tasks;

use std::fmt;
use std::sync::Arc;

use mgp_lifecycle::Session;
use mgp_transport::{Child, ChildCommand, ExitReport, Monitor};
use mgp_types::mcp::{CallToolResult, Implementation, ServerCapabilities};
use mgp_types::method::{Notification, Request, ToolsCall, lookup};
use mgp_types::service::{
    Call, CallKey, Context, Facts, Method, MgpService, Outlet, Params, Peer, Reply, Router, Scope,
    Stack,
};
use mgp_types::{ErrorCode, Payload, RpcError};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tower_layer::{Identity, Layer};

#[cfg(feature = "http")]
pub(crate) use establish::reach;
pub(crate) use establish::{establish, placed, spawn};
pub use mgp::Mgp;

use crate::builder::ClientBuilder;
use crate::cache::Lists;
use crate::call::ToolCall;
use crate::config::ClientConfig;
use crate::error::Error;
use crate::listening::Listening;
use crate::presence::Presence;
use crate::wire::{Allowance, Driver, Life};

/// A connected client; cheap to clone, the connection ends with the last clone.
///
/// A legacy server at a URL is told so then, as far as the runtime the client was made on still runs; whoever wants to
/// be sure calls [`close`](Self::close).
///
/// ```
/// use mgp_client_sdk::{Client, ToolResult};
/// use mgp_server_sdk::{Server, Tool};
/// use mgp_transport::duplex;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (here, there) = duplex();
/// let server = Server::new("clock", "1.0").tool(Tool::new("now", "The time", || async { "noon" }));
/// tokio::spawn(server.serve(there.reader, there.writer));
///
/// let client = Client::builder("me", "1.0").connect(here.reader, here.writer).await.unwrap();
/// assert_eq!(client.tools().await.unwrap()[0].name, "now");
/// assert_eq!(client.call("now").await.unwrap().to_text(), "noon");
/// # });
/// ```
#[derive(Clone)]
pub struct Client(Arc<Inner>);

struct Inner {
    /// In the modern era.
    listening: Option<Listening>,
    stack: Stack,
    /// Without the gates that outlive the connection.
    ungated: Stack,
    peer: Peer,
    cx: Context,
    facts: Arc<Facts>,
    capabilities: ServerCapabilities,
    session: Arc<Session>,
    monitor: Monitor,
    life: Life,
    lists: Arc<Lists>,
    answers: Router,
    /// The same, where a handler may panic.
    asked: Stack,
    allowance: Allowance,
    max_pages: usize,
    max_rounds: u32,
    child: Option<Kin>,
    /// Where the audit log is told of it; ahead of the driver, whose end it would take for the server's.
    presence: Option<Presence>,
    /// Tells the server what changes of its permissions.
    _following: Option<Driver>,
    _driver: Driver,
}

/// A client that is not kept alive by this handle.
#[derive(Clone)]
pub struct WeakClient(std::sync::Weak<Inner>);

impl WeakClient {
    /// Returns whether this is a handle on the given client.
    #[must_use]
    pub fn is(&self, client: &Client) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&client.0))
    }

    /// Returns the client, or `None` if its last handle was dropped.
    #[must_use]
    pub fn upgrade(&self) -> Option<Client> {
        self.0.upgrade().map(Client)
    }
}

mgp_types::opaque_debug!(WeakClient);

/// The child behind a client.
pub(crate) enum Kin {
    /// It ends with its client, whoever else looks at it.
    Own(Arc<Child>),
    /// Somebody else sees to its end, however the client is dropped.
    Lent(Arc<Child>),
}

impl Kin {
    fn child(&self) -> &Arc<Child> {
        match self {
            Self::Own(child) | Self::Lent(child) => child,
        }
    }
}

impl Drop for Kin {
    fn drop(&mut self) {
        if let Self::Own(child) = self {
            child.kill();
        }
    }
}

impl Client {
    /// Begins a client of this name.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(name, version)
    }

    /// Connects over a pair of byte streams with a configuration of one's own.
    ///
    /// # Errors
    /// Why the handshake failed.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection.
    pub async fn connect<R, W>(reader: R, writer: W, config: ClientConfig) -> Result<Self, Error>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        Self::connect_through(reader, writer, config, Identity::new()).await
    }

    /// The same, with gates of the user's on the way out: audit, access, confirmation and so on.
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
    ) -> Result<Self, Error>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
        L: Layer<Stack>,
        L::Service: MgpService,
    {
        let gates = |stack| Stack::new(gates.layer(stack));
        establish(reader, writer, config, |road| road.through(gates), None).await
    }

    /// Starts a server as a child process and connects to it; see [`ClientBuilder::spawn`].
    ///
    /// # Errors
    /// [`Error::Spawn`] when it did not start, else why the handshake failed.
    ///
    /// # Cancel safety
    /// Dropping the future kills the child and its group.
    pub async fn spawn(command: ChildCommand, config: ClientConfig) -> Result<Self, Error> {
        spawn(&command, config, |road| road.through(|stack| stack)).await
    }

    /// Ends the connection; a child gets its stdin closed, then SIGTERM, then SIGKILL, each after its grace time.
    ///
    /// A legacy server at a URL is told that the session ends.
    ///
    /// Gives how the child ended; none where the server is no child of ours.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the connection closed and the escalation where it was; call it again.
    pub async fn close(&self) -> Option<ExitReport> {
        if let Some(presence) = &self.0.presence {
            presence.close("the client closed it");
        }
        self.0.peer.close("the client closed it");
        self.0.life.over().await;
        match &self.0.child {
            Some(kin) => Some(kin.child().shutdown().await),
            None => None,
        }
    }

    /// Notes that the server was asked to leave: its end is no loss.
    pub(crate) fn leaves(&self) {
        if let Some(presence) = &self.0.presence {
            presence.leaves();
        }
    }

    /// Records that the server is lost: who sees to it knows before its connection does.
    pub(crate) fn is_lost(&self, how: &str) {
        if let Some(presence) = &self.0.presence {
            presence.is_lost(how);
        }
    }

    /// Whether the connection is gone; calls then fail at once with 2000 and say why.
    ///
    /// At a URL there is no connection to lose: it is gone once it was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.peer.is_closed() || self.0.life.is_over()
    }

    /// Waits until the connection is gone.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn closed(&self) {
        self.0.life.over().await;
    }

    /// The process number of the server, where it is a child of ours; also the number of its group.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.0.child.as_ref().map(|kin| kin.child().pid())
    }

    // === What is known of the server ===

    /// What the server negotiated.
    #[must_use]
    pub fn server(&self) -> &Facts {
        &self.0.facts
    }

    /// Who the server says it is.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        self.0.facts.info.as_ref()?.get().ok()
    }

    /// The advice the server gives the model.
    #[must_use]
    pub fn instructions(&self) -> Option<&str> {
        self.0.facts.instructions.as_deref()
    }

    /// What the server says it can do.
    #[must_use]
    pub fn capabilities(&self) -> &ServerCapabilities {
        &self.0.capabilities
    }

    // === The parts below ===

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
        cx.key = CallKey::next();
        cx
    }

    /// Returns a handle that does not keep the client alive.
    pub(crate) fn weak(&self) -> WeakClient {
        WeakClient(Arc::downgrade(&self.0))
    }

    /// Returns the stack without the gates that outlive the connection.
    pub(crate) fn ungated(&self) -> &Stack {
        &self.0.ungated
    }

    /// Whether the server is there.
    pub(crate) fn life(&self) -> &Life {
        &self.0.life
    }

    /// How long a call may take that says nothing about it.
    pub(crate) fn allowance(&self) -> Allowance {
        self.0.allowance
    }

    // === Calling ===

    /// Calls any method with typed params.
    ///
    /// # Errors
    /// What the server answers; −32601 without asking it when the revision or the negotiated extensions lack the
    /// method; 3003 when it does not answer in time, 2000 when it is gone.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call at the server.
    pub async fn request<R: Request>(&self, params: &R::Params) -> Result<R::Result, Error> {
        let info = lookup(R::METHOD);
        if info.is_some_and(|info| !info.is_in_era(self.0.facts.era)) {
            let message =
                format!("`{}` is no part of revision {}", R::METHOD, self.0.facts.revision);
            return Err(RpcError::new(ErrorCode::METHOD_NOT_FOUND, message).into());
        }
        let reply = self.in_rounds(Call::ask::<R>(params, self.context())?).await?;
        Ok(reply.get()?)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// 2000 when the connection is gone.
    ///
    /// # Cancel safety
    /// Dropping the future may or may not have sent it.
    pub async fn notify<N: Notification>(&self, params: &N::Params) -> Result<(), Error> {
        self.0.stack.send(Call::tell::<N>(params, self.context())?).await?;
        Ok(())
    }

    /// Begins a call of a tool; await it, or set more first.
    pub fn call(&self, tool: impl Into<String>) -> ToolCall {
        ToolCall::new(self.clone(), tool.into())
    }

    /// Calls a tool and waits for its result; questions of the server go to the handlers.
    ///
    /// A tool that ran and failed gives a result that says `isError`; see [`ToolResult`](crate::ToolResult).
    /// Arguments are anything that is an object in JSON; `()` is none.
    ///
    /// # Errors
    /// As [`Client::request`].
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call at the server.
    pub async fn call_tool(
        &self,
        name: &str,
        arguments: impl Serialize,
    ) -> Result<CallToolResult, Error> {
        self.call(name).args(arguments).await
    }

    /// Calls a tool with an outlet for its partial results, and gives the reply as it came.
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
    ) -> Result<Reply, Error> {
        let mut cx = self.context();
        cx.outlet = outlet;
        let params = Params::tool(name, arguments);
        let call = Call::request(Method::from_static(ToolsCall::METHOD), params, cx);
        Ok(self.0.stack.send(call).await?)
    }

    /// Makes several calls, so many at once; the results stand in the order of the calls.
    ///
    /// ```
    /// use mgp_client_sdk::{TestClient, ToolResult};
    /// use mgp_server_sdk::{Server, Tool};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let one = Tool::new("one", "Counts", || async { "1" });
    /// let client = TestClient::new(Server::new("s", "1").tool(one)).await;
    /// let results = client.call_many([client.call("one"), client.call("two")], 8).await;
    /// assert_eq!(results[0].as_ref().unwrap().to_text(), "1");
    /// assert_eq!(results[1].as_ref().unwrap_err().code().0, 4001);
    /// # });
    /// ```
    ///
    /// # Cancel safety
    /// Dropping the future cancels the calls that run; those that wait are not made.
    pub async fn call_many(
        &self,
        calls: impl IntoIterator<Item = ToolCall>,
        max_in_flight: usize,
    ) -> Vec<Result<CallToolResult, Error>> {
        crate::call::many(calls, max_in_flight).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.0.facts).finish_non_exhaustive()
    }
}
