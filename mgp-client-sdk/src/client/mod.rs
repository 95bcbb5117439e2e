//! A client of one server.

mod establish;
mod legacy_task;
mod lists;
mod mcp;
mod mgp;
mod rounds;
mod skills;
mod tasks;

use std::fmt;
use std::sync::Arc;

use mgp_lifecycle::HandshakeState;
use mgp_transport::{Child, ChildCommand, ConnectionMonitor, ExitReport};
use mgp_types::mcp::{CallToolResult, Implementation, ServerCapabilities};
use mgp_types::method::{Notification, Request, lookup};
use mgp_types::service::{
    Call, CallKey, Context, MgpService, Peer, PeerInfo, Reply, Router, Scope, Stack,
};
use mgp_types::{ErrorCode, RpcError};
use serde::Serialize;
use tokio::io::{AsyncRead, AsyncWrite};
use tower_layer::{Identity, Layer};

pub(crate) use establish::{configure_retry, ended_early, establish, spawn};
#[cfg(feature = "http")]
pub(crate) use establish::{establish_http_sse, establish_url, may_be_http_sse};
pub(crate) use legacy_task::LegacyTask;
pub use mgp::Mgp;

use crate::builder::ClientBuilder;
use crate::cache::ListCache;
use crate::call::ToolCall;
use crate::config::ClientConfig;
use crate::error::Error;
use crate::listening::ChangeStream;
use crate::presence::Presence;
use crate::wire::{CallbackHandler, GatewayStacks, Liveness, TaskGuard, TimeLimits};

/// A connected client. Clones are cheap. The connection ends when the last clone is dropped.
///
/// Dropping the last clone also ends the session with a server at a URL (2025-11-25 and before), if the runtime that
/// the client was created on is still running; call [`close`](Self::close) to make sure that the session ends.
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
pub struct Client(Arc<ClientState>);

struct ClientState {
    /// The stream of changes; `None` if the server speaks MCP 2025-11-25 or earlier (the legacy era), which has no such
    /// stream.
    change_stream: Option<ChangeStream>,
    stack: Stack,
    gateway_stacks: GatewayStacks,
    peer: Peer,
    cx: Context,
    facts: Arc<PeerInfo>,
    capabilities: ServerCapabilities,
    session: Arc<HandshakeState>,
    monitor: ConnectionMonitor,
    liveness: Liveness,
    lists: Arc<ListCache>,
    /// `false` for Streamable HTTP: such a server may have no stream for notifications outside of calls.
    has_permanent_connection: bool,
    answers: Router,
    /// The client's handlers, in a layer that catches panics.
    guarded_answers: Stack,
    callbacks: Option<CallbackHandler>,
    time_limits: TimeLimits,
    max_pages: usize,
    max_rounds: u32,
    child: Option<ChildGuard>,
    /// The guard that records the connection in the audit log. It is declared before the driver, so that it is dropped
    /// first: otherwise the end of the driver would look like a loss of the server.
    presence: Option<Presence>,
    /// The task that notifies the server of changes of its permissions.
    _permission_updates: Option<TaskGuard>,
    _driver: TaskGuard,
}

/// A handle that does not keep the client alive.
#[derive(Clone)]
pub struct WeakClient(std::sync::Weak<ClientState>);

impl WeakClient {
    /// Returns whether this is a handle of the given client.
    #[must_use]
    pub fn is(&self, client: &Client) -> bool {
        std::ptr::eq(self.0.as_ptr(), Arc::as_ptr(&client.0))
    }

    /// Returns the client, or `None` if all clones of the client have been dropped.
    #[must_use]
    pub fn upgrade(&self) -> Option<Client> {
        self.0.upgrade().map(Client)
    }
}

mgp_types::opaque_debug!(WeakClient);

pub(crate) enum ChildGuard {
    /// A child process that is killed when the client is dropped.
    Own(Arc<Child>),
    /// A child process that a supervisor owns and stops.
    Lent(Arc<Child>),
}

impl ChildGuard {
    fn child(&self) -> &Arc<Child> {
        match self {
            Self::Own(child) | Self::Lent(child) => child,
        }
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if let Self::Own(child) = self {
            child.kill();
        }
    }
}

/// A guard that closes a connection when it is dropped, e.g. with an unfinished future of [`Client::close`].
struct ClosingGuard<'a>(&'a Peer);

impl Drop for ClosingGuard<'_> {
    fn drop(&mut self) {
        self.0.close("the client closed it");
    }
}

impl Client {
    /// Creates the builder of a client with this name.
    pub fn builder(name: impl Into<String>, version: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(name, version)
    }

    /// Connects over a pair of byte streams with a given configuration.
    ///
    /// # Errors
    /// See [`ClientBuilder::connect`].
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

    /// Connects over a pair of byte streams, with gates around all calls: audit, access, confirmation and so on.
    ///
    /// # Errors
    /// See [`ClientBuilder::connect`].
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
        establish(reader, writer, config, |outbound| outbound.with_gates(gates), None).await
    }

    /// Starts a server as a child process and connects to it; see [`ClientBuilder::spawn`].
    ///
    /// # Errors
    /// See [`ClientBuilder::spawn`].
    ///
    /// # Cancel safety
    /// Dropping the future kills the child and its group.
    pub async fn spawn(command: ChildCommand, config: ClientConfig) -> Result<Self, Error> {
        spawn(&command, config, |outbound| outbound.with_gates(|stack| stack)).await
    }

    /// Closes the connection. For a child process, stdin is closed first; SIGTERM and SIGKILL follow, each after a
    /// grace time.
    ///
    /// Also ends the session with a server at a URL; only revisions up to 2025-11-25 have such sessions.
    ///
    /// Returns how the child exited, or `None` if the server is not a child process.
    ///
    /// # Cancel safety
    /// If the future is dropped, the connection is closed, but a child may still run; call the method again to end it.
    pub async fn close(&self) -> Option<ExitReport> {
        if let Some(presence) = &self.0.presence {
            presence.close("the client closed it");
        }
        let closing = ClosingGuard(&self.0.peer);
        if let Some(change_stream) = &self.0.change_stream {
            change_stream.close().await;
        }
        drop(closing);
        self.0.liveness.ended().await;
        match &self.0.child {
            Some(guard) => Some(guard.child().shutdown().await),
            None => None,
        }
    }

    /// Marks the server as asked to stop, so that the audit log shows its end as a disconnection, not as a loss.
    pub(crate) fn set_stopping(&self) {
        if let Some(presence) = &self.0.presence {
            presence.set_stopping();
        }
    }

    /// Records that the server was lost, possibly before the connection detects it.
    pub(crate) fn set_lost(&self, how: &str) {
        if let Some(presence) = &self.0.presence {
            presence.set_lost(how);
        }
    }

    /// Returns whether the connection is closed. Calls then fail with code 2000 and the reason; calls to a
    /// [supervised](crate::SupervisedClient) server are sent to its next run instead.
    ///
    /// A client of a server over Streamable HTTP has no permanent connection: only [`close`](Self::close) closes it.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.peer.is_closed() || self.0.liveness.is_over()
    }

    /// Waits until the connection is closed.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method may be called again at any time.
    pub async fn closed(&self) {
        self.0.liveness.ended().await;
    }

    /// Returns the process id of the server if the client started it as a child process. It is also the id of the
    /// server's process group.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.0.child.as_ref().map(|guard| guard.child().pid())
    }

    // === The server ===

    /// Returns the properties of the server that the handshake determined, e.g. its revision and extensions.
    #[must_use]
    pub fn server(&self) -> &PeerInfo {
        &self.0.facts
    }

    /// Returns the name and version that the server reports.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        self.0.facts.info.as_ref()?.get().ok()
    }

    /// Returns the server's instructions for the model.
    #[must_use]
    pub fn instructions(&self) -> Option<&str> {
        self.0.facts.instructions.as_deref()
    }

    /// Returns the server's capabilities.
    #[must_use]
    pub fn capabilities(&self) -> &ServerCapabilities {
        &self.0.capabilities
    }

    // === Parts ===

    /// Returns the outbound stack, to send calls of any kind.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.0.stack
    }

    /// Returns the peer of the connection, i.e. the innermost service, which sends calls to the server.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.0.peer
    }

    /// Returns the state of the handshake, which contains the negotiated properties of the server.
    #[must_use]
    pub fn session(&self) -> &Arc<HandshakeState> {
        &self.0.session
    }

    /// Returns a view of the connection's internal tables, for monitoring.
    #[must_use]
    pub fn monitor(&self) -> &ConnectionMonitor {
        &self.0.monitor
    }

    /// Returns the scope of the connection, where layers keep their state.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.0.cx.scope
    }

    /// Returns the context of a new call.
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

    /// Returns the stack for a gateway's own requests. For a supervised server this stack has no gates (no checks, no
    /// audit); for any other server it is the ordinary stack.
    pub(crate) fn ungated(&self) -> &Stack {
        &self.0.gateway_stacks.ungated
    }

    /// Returns the stack for calls that a gateway forwards. This stack opens no trace span, because the gateway's own
    /// stack has already opened a span.
    pub(crate) fn forwarding(&self) -> &Stack {
        &self.0.gateway_stacks.forwarding
    }

    pub(crate) fn liveness(&self) -> &Liveness {
        &self.0.liveness
    }

    pub(crate) fn callbacks(&self) -> Option<&CallbackHandler> {
        self.0.callbacks.as_ref()
    }

    /// Returns the time limits of calls that set no limits of their own.
    pub(crate) fn time_limits(&self) -> TimeLimits {
        self.0.time_limits
    }

    // === Calling ===

    /// Calls any method with typed params.
    ///
    /// # Errors
    /// The server's error; code −32601 (method not found), without sending the request, if the revision or the
    /// negotiated extensions lack the method; code 3003 (timeout) if the server does not answer in time; code 2000
    /// (server not ready) if the connection has ended.
    ///
    /// # Cancel safety
    /// Dropping the future cancels the call at the server.
    pub async fn request<R: Request>(&self, params: &R::Params) -> Result<R::Result, Error> {
        Ok(self.request_reply::<R>(params).await?.get()?)
    }

    async fn request_reply<R: Request>(&self, params: &R::Params) -> Result<Reply, Error> {
        let info = lookup(R::METHOD);
        if info.is_some_and(|info| !info.is_in_era(self.0.facts.era)) {
            let message =
                format!("`{}` is not part of revision {}", R::METHOD, self.0.facts.revision);
            return Err(RpcError::new(ErrorCode::METHOD_NOT_FOUND, message).into());
        }
        Ok(self.request_in_rounds(Call::ask::<R>(params, self.context())?).await?)
    }

    /// Sends a notification.
    ///
    /// # Errors
    /// Code 2000 (server not ready) if the connection is closed.
    ///
    /// # Cancel safety
    /// If the future is dropped, the notification may or may not have been sent.
    pub async fn notify<N: Notification>(&self, params: &N::Params) -> Result<(), Error> {
        self.0.stack.send(Call::tell::<N>(params, self.context())?).await?;
        Ok(())
    }

    /// Creates a call of a tool: await it, or change its settings first.
    pub fn call(&self, tool: impl Into<String>) -> ToolCall {
        ToolCall::new(self.clone(), tool.into())
    }

    /// Calls a tool and waits for its result; the server's questions are answered by the client's handlers.
    ///
    /// A tool that ran and failed returns a result with `isError`; see [`ToolResult`](crate::ToolResult).
    /// `arguments` is any value that serializes to a JSON object; `()` means no arguments.
    ///
    /// # Errors
    /// See [`Client::request`].
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

    /// Sends several calls, with at most `max_in_flight` in flight at the same time; returns the results in the
    /// order of the calls.
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
    /// Dropping the future cancels the running calls; calls that still wait are not sent.
    pub async fn call_many(
        &self,
        calls: impl IntoIterator<Item = ToolCall>,
        max_in_flight: usize,
    ) -> Vec<Result<CallToolResult, Error>> {
        crate::call::call_many(calls, max_in_flight).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("server", &self.0.facts).finish_non_exhaustive()
    }
}
