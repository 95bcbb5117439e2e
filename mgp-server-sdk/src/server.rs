//! The [`Server`] builder: configuration, its stack, and serving over byte streams.

use std::sync::Arc;
use std::time::Duration;

use mgp_lifecycle::{
    ConcurrencyLimitLayer, HandshakeLayer, Health, HealthLayer, LimitConfig, MgpOffer,
    ProcessOwner, ProposalLayer, RoundsConfig, RoundsLayer, ServerOffer, TasksConfig, TasksLayer,
    TimeoutLayer, Timeouts,
};
use mgp_security::Grants;
use mgp_stream::{CallbackLayer, CancelLayer};
use mgp_transport::{CloseReason, Connection, Limits, take_stdio};
use mgp_types::mcp::{Implementation, TaskSupport};
use mgp_types::method::{AuditNotification, Notification as _, Request as _, ToolsCall};
use mgp_types::mgp::{Extension, ExtensionSet, Permission};
use mgp_types::service::{Extensions, MgpService, Router, Stack};
use mgp_types::{RpcError, Sealer};
use tokio::io::{AsyncRead, AsyncWrite};
use tower_layer::Layer;

use crate::drain::{CloseWhenDrained, Shutdown};
use crate::error::{BuildError, BuildErrors, ServeError};
use crate::events;
use crate::features::{Features, ShutdownNotice, merge_endpoints};
use crate::health;
use crate::limit::CallLimits;
use crate::manifest::Manifest;
use crate::request::HandlerConfig;
use crate::signals::SignalGuard;
use crate::stack::{Gate, OuterLayers, StackParts, inbound};
use crate::tool::{IntoTools, RunningLimit, SchemaStyle, Tools};
use crate::transactions::StepLayers;

/// A server and its configuration; its methods add tools and layers, and serve it.
///
/// ```
/// use mgp_server_sdk::prelude::*;
///
/// let server = Server::new("clock", "1.0")
///     .instructions("Returns the current time.")
///     .tool(Tool::new("now", "The time", || async { "noon" }));
/// assert_eq!(server.tools().len(), 1);
/// ```
#[derive(Debug)]
#[must_use = "a server does nothing until it is served"]
pub struct Server {
    offer: ServerOffer,
    tools: Tools,
    state: Extensions,
    errors: Vec<BuildError>,
    pub(crate) features: Features,
    endpoints: Router,
    limit: LimitConfig,
    rounds: RoundsConfig,
    pub(crate) bounds: CallLimits,
    pub(crate) timeouts: Timeouts,
    wire: Limits,
    gates: Vec<Gate>,
    around: Vec<Gate>,
    pub(crate) steps: StepLayers,
    tasks: TasksConfig,
    task_support: Option<TaskSupportFn>,
    typed_tools: Option<TypedToolsFn>,
    cancel: CancelLayer,
    callbacks: CallbackLayer,
    pub(crate) shutdown: Shutdown,
    pub(crate) health: Health,
    /// The extension that answers requests for the manifest, if the author added it.
    manifest: Option<Manifest>,
    /// `true` if the author set the MGP extensions in the offer. The server then does not add the ones that its
    /// features need.
    chose_extensions: bool,
}

/// A handle that reports the requests that a running server processes; cheap to clone.
///
/// ```
/// use mgp_server_sdk::prelude::*;
///
/// let server = Server::new("clock", "1.0");
/// let monitor = server.monitor();
/// let stack = server.into_stack().unwrap();
/// assert_eq!(monitor.running(), 0);
/// # drop(stack);
/// ```
#[derive(Clone, Debug)]
pub struct ServerMonitor(CancelLayer);

impl ServerMonitor {
    /// Returns the number of running requests on all connections.
    #[must_use]
    pub fn running(&self) -> usize {
        self.0.running()
    }

    /// Returns the total size, in bytes, of the chunks that running calls keep after they were sent. They are kept
    /// because a client might cancel the call or request lost chunks.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.0.kept_bytes()
    }
}

/// A function that decides whether a call of a tool that another server runs may become a task.
struct TaskSupportFn(Box<dyn Fn(&str) -> TaskSupport + Send + Sync>);

mgp_types::opaque_debug!(TaskSupportFn);

/// A function that returns whether a tool that another server runs has an output schema.
struct TypedToolsFn(Box<dyn Fn(&str) -> bool + Send + Sync>);

mgp_types::opaque_debug!(TypedToolsFn);

/// The MGP extensions that every server offers. `permissions` is added if a tool needs a permission; builder methods
/// add other extensions.
const SERVED: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::Streaming)
    .with(Extension::ToolSecurity)
    .with(Extension::Lifecycle)
    .with(Extension::Callbacks);

/// Returns the layer that runs calls as tasks. `support` decides which calls may become tasks; without it, the
/// definitions of this server's tools decide.
fn tasks_layer(config: TasksConfig, support: Option<TaskSupportFn>, tools: Tools) -> TasksLayer {
    match support {
        None => TasksLayer::new(config, move |tool| tools.task_support(tool)),
        Some(TaskSupportFn(support)) => {
            TasksLayer::new(config, move |tool| support(tool)).only_if_requested()
        }
    }
}

/// Returns the layer that negotiates revision and extensions with each client. It must know which tools have an output
/// schema; `typed` knows this about tools that other servers run.
fn handshake_layer(
    offer: ServerOffer,
    typed: Option<TypedToolsFn>,
    tools: Tools,
) -> HandshakeLayer {
    HandshakeLayer::new(offer).typed(move |tool| {
        tools.is_typed(tool) || typed.as_ref().is_some_and(|TypedToolsFn(is_typed)| is_typed(tool))
    })
}

impl Server {
    /// Creates a server without tools. It offers the MGP extensions that every server of this crate offers.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let mut offer = ServerOffer::new(Implementation::new(name, version));
        let mut mgp = MgpOffer::new(SERVED);
        // The functions of this SDK ask modern callers the same questions as legacy callers.
        mgp.asks_in_rounds = true;
        offer.mgp = Some(mgp);
        Self {
            offer,
            tools: Tools::default(),
            state: Extensions::default(),
            errors: Vec::new(),
            features: Features::default(),
            endpoints: Router::new(),
            limit: LimitConfig::default(),
            rounds: RoundsConfig::default(),
            bounds: CallLimits::default(),
            timeouts: Timeouts::default(),
            wire: Limits::default(),
            gates: Vec::new(),
            around: Vec::new(),
            steps: StepLayers::default(),
            tasks: TasksConfig::default(),
            task_support: None,
            typed_tools: None,
            cancel: CancelLayer::default(),
            callbacks: CallbackLayer::default(),
            shutdown: Shutdown::default(),
            health: Health::new(),
            manifest: None,
            chose_extensions: false,
        }
    }

    /// Returns a router for the methods that built-in layers of every server answer: health, shutdown, cancellation,
    /// and the answers to callbacks.
    ///
    /// With this router, a gateway can offer these methods as tools too.
    #[must_use]
    pub fn system_router(&self) -> Router {
        let router = self.health.router().merge(self.drain_handle().router());
        router.merge(self.cancel.router()).merge(self.callbacks.router())
    }

    /// Sets the instructions, which advise the model on how to use the server.
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.offer.instructions = Some(text.into());
        self
    }

    /// Adds a tool, or all tools of a type with the attribute `#[tools]`.
    ///
    /// If another tool has the same name, [`Server::into_stack`] fails; to replace a tool, use [`Server::replace`].
    pub fn tool(mut self, tools: impl IntoTools) -> Self {
        let declared = tools.into_tools().into_iter().map(|tool| self.tools.declare(tool));
        self.errors.extend(declared.filter_map(Result::err));
        self
    }

    /// Adds a tool, or all tools of a type with the attribute `#[tools]`; replaces tools with the same names.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    ///
    /// let clock = |time: &'static str| Tool::new("now", "The time", move || async move { time });
    /// assert!(Server::new("a", "1").tool(clock("noon")).tool(clock("dusk")).into_stack().is_err());
    /// assert!(Server::new("a", "1").tool(clock("noon")).replace(clock("dusk")).into_stack().is_ok());
    /// ```
    pub fn replace(mut self, tools: impl IntoTools) -> Self {
        let replaced = tools.into_tools().into_iter().map(|tool| self.tools.put(tool));
        self.errors.extend(replaced.filter_map(Result::err));
        self
    }

    /// Adds a value that tools receive as [`State`](crate::State). There is one value per type: a later value replaces
    /// an earlier one.
    pub fn state<T: Send + Sync + 'static>(mut self, value: T) -> Self {
        self.state.insert(value);
        self
    }

    /// Omits tools from a client's list if the client is known to deny a permission that they need.
    ///
    /// By default, such tools are listed. In both cases, calls of them fail with code 1000.
    pub fn hide_denied_tools(self) -> Self {
        self.tools.hide_denied_tools();
        self
    }

    /// Sets whether the schemas of tools describe the types of fields in place or under `$defs`. Default:
    /// [`SchemaStyle::Inlined`].
    pub fn schema_style(self, style: SchemaStyle) -> Self {
        self.tools.write_schemas(style);
        self
    }

    /// Adds endpoints for further methods.
    ///
    /// The endpoint of a method that belongs to an MGP extension can be called only if that extension is offered, see
    /// [`Server::offer`]. A server with an endpoint for `notifications/mgp.audit` offers the extension `audit`
    /// automatically.
    pub fn endpoints(mut self, router: Router) -> Self {
        self.endpoints = self.endpoints.merge(router);
        self
    }

    /// Adds a layer around the tools and endpoints, e.g. audit or access control; the last one added is the
    /// outermost.
    ///
    /// The layer is inside the handshake and outside the limits. It knows the caller and the negotiated extensions, can
    /// ask the caller for input, and can wrap the outlet to receive each chunk. Its errors are translated to the codes
    /// of each peer's protocol.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Stack> + Send + 'static,
        L::Service: MgpService,
    {
        self.gates.push(Gate::new(layer));
        self
    }

    /// Adds a layer around the whole server, including the handshake; the last one added is the outermost.
    ///
    /// At this position, nothing is negotiated yet, the caller cannot be asked for input, and errors are sent to the
    /// peer unchanged.
    pub fn around<L>(mut self, layer: L) -> Self
    where
        L: Layer<Stack> + Send + 'static,
        L::Service: MgpService,
    {
        self.around.push(Gate::new(layer));
        self
    }

    /// Sets the limits of tasks; [`TasksConfig`] has the defaults. Only calls of tools with
    /// [task support](crate::Tool::task) can become tasks.
    pub fn tasks(mut self, tasks: TasksConfig) -> Self {
        self.tasks = tasks;
        self
    }

    /// Sets the function that decides which calls of tools may become tasks, if another server runs the tools.
    ///
    /// The function is called only if the caller can wait for a task. Otherwise the server that runs the tools must
    /// itself refuse calls of tools that can run only as tasks.
    pub fn task_support(
        mut self,
        support: impl Fn(&str) -> TaskSupport + Send + Sync + 'static,
    ) -> Self {
        self.task_support = Some(TaskSupportFn(Box::new(support)));
        self
    }

    /// Sets the function that returns whether a tool that another server runs has an output schema.
    ///
    /// A client without MGP receives the refusal of a call as a result. For a tool with an output schema, this result
    /// contains only text, because some clients check even a failed result against the schema.
    pub fn typed_tools(
        mut self,
        has_schema: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.typed_tools = Some(TypedToolsFn(Box::new(has_schema)));
        self
    }

    /// Changes what the server offers in the handshake: title, web site and icons (`info`), revisions, capabilities, MGP.
    pub fn offer(mut self, change: impl FnOnce(&mut ServerOffer)) -> Self {
        let extensions = |offer: &ServerOffer| offer.mgp.as_ref().map(|mgp| mgp.extensions);
        let before = extensions(&self.offer);
        change(&mut self.offer);
        self.chose_extensions |= before != extensions(&self.offer);
        self
    }

    /// Returns the MGP part of the offer, to complete it. Returns `None` if the author chose the extensions explicitly,
    /// or offers no MGP.
    pub(crate) fn offered(&mut self) -> Option<&mut MgpOffer> {
        self.offer.mgp.as_mut().filter(|_| !self.chose_extensions)
    }

    /// Adds an extension to the offer; does nothing if the server offers no MGP.
    pub(crate) fn offer_also(&mut self, extension: Extension) {
        if let Some(mgp) = &mut self.offer.mgp {
            mgp.extensions = mgp.extensions.with(extension);
        }
    }

    #[cfg(feature = "http")]
    pub(crate) fn offers(&self, extension: Extension) -> bool {
        self.offer.mgp.as_ref().is_some_and(|mgp| mgp.extensions.contains(extension))
    }

    /// Makes the server answer requests for its manifest.
    pub(crate) fn describe(mut self, manifest: Manifest) -> Self {
        self.manifest = Some(manifest);
        self
    }

    /// Records an error that [`Server::into_stack`] will return.
    pub(crate) fn add_error(&mut self, error: BuildError) {
        self.errors.push(error);
    }

    /// Makes the server offer plain MCP only, without MGP.
    pub fn without_mgp(mut self) -> Self {
        self.offer.mgp = None;
        self
    }

    /// Limits how many tool calls run and how many wait at the same time; waiting callers are served in turn. Default:
    /// 256 calls run, 1024 wait.
    ///
    /// A function on the blocking pool cannot be stopped: it counts as running until it returns, also after its call
    /// ended.
    pub fn limit(mut self, limit: LimitConfig) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the limits of the rounds in which a caller of 2026-07-28 answers questions about its call. Default: 16
    /// rounds, and 15 minutes for each answer.
    pub fn rounds(mut self, limits: RoundsConfig) -> Self {
        self.rounds = limits;
        self
    }

    /// Sets the time limit of the functions that implement tools, prompts, resources and completions. Default: 30 s.
    ///
    /// The limit includes the time in which a caller of 2025-11-25 or before answers questions, so a server that asks
    /// people needs a longer one, or a longer [`Tool::timeout`](crate::Tool::timeout).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.tool = timeout;
        self
    }

    /// Sets the limits of messages and buffers of each connection over stdio or another pair of streams; over HTTP, see
    /// `HttpServer::config`.
    pub fn wire_limits(mut self, limits: Limits) -> Self {
        self.wire = limits;
        self
    }

    /// Returns a handle that changes the tools while the server runs.
    ///
    /// After this call, the server offers tools even if it starts without any.
    #[must_use]
    pub fn tools(&self) -> Tools {
        self.features.expect_tools();
        self.tools.clone()
    }

    /// Returns the tools; in contrast to [`Self::tools`], this does not offer them.
    pub(crate) fn own_tools(&self) -> &Tools {
        &self.tools
    }

    /// Returns a handle that reports running requests.
    #[must_use]
    pub fn monitor(&self) -> ServerMonitor {
        ServerMonitor(self.cancel.clone())
    }

    /// Builds the stack, which all connections share.
    ///
    /// # Errors
    /// Code −32603 with all reasons why the server cannot be built (e.g. the name of a tool, a permission, missing
    /// state, a URI template), or if the operating system provides no randomness for the key that seals request state.
    pub fn into_stack(mut self) -> Result<Stack, RpcError> {
        let limit = self.running_limit();
        let state = Arc::new(std::mem::take(&mut self.state));
        self.apply_state(&state);
        if !self.errors.is_empty() {
            return Err(BuildErrors(self.errors).into());
        }
        self.complete_mgp_offer();
        self.add_proposal_layer();
        let offers = |extension| {
            self.offer.mgp.as_ref().is_some_and(|mgp| mgp.extensions.contains(extension))
        };
        let decisions =
            if offers(Extension::Permissions) { Grants::router() } else { Router::new() };
        let serving = HandlerConfig { timeout: self.timeouts.tool, state };
        let (drain, structured_errors) = (self.shutdown.drain, self.features.structured_errors);
        name_server(&drain, &self.offer);
        // If the author added an endpoint for `tools/call`, only that endpoint knows the names of the tools.
        let routes_tools = self.endpoints.methods().any(|method| method == ToolsCall::METHOD);
        let events =
            (offers(Extension::Events) && !routes_tools).then(|| self.features.events.clone());
        let event_tools = events.as_ref().map(events::tools_gate);
        let notice =
            ShutdownNotice { drain: drain.clone(), is_announced: offers(Extension::Lifecycle) };
        let (features, logging) =
            self.features.assemble(&mut self.offer, &self.tools, &serving, notice);
        self.offer.tasks |= self.tools.any_task() || self.task_support.is_some();
        let health = health::of(self.health, &self.offer, &self.tools, &self.cancel, &drain);
        let [known, named, timed, typed] = [0; 4].map(|_| self.tools.clone());
        let limits_call_time =
            !routes_tools || !self.tools.is_empty() || self.timeouts.tool < Duration::MAX;
        let (emit, bounds) = self.bounds.gates(move |name| routes_tools || named.has(name));
        let outer = OuterLayers {
            handshake: handshake_layer(self.offer, self.typed_tools, typed),
            structured_errors,
            rounds: RoundsLayer::new(Sealer::random()?).config(self.rounds),
            cancel: self.cancel.callbacks(self.callbacks),
            health: HealthLayer::new(health),
            tasks: tasks_layer(self.tasks, self.task_support, known).drain(drain.clone()),
            drain,
            emit,
            logging,
        };
        let stack = inbound(StackParts {
            outer,
            // The limits are inside the author's layers, so that a call that those layers refuse does not count for a
            // limit.
            gates: self.steps.gates(event_tools.into_iter().chain(bounds), self.gates),
            transactions: self.steps.transactions,
            limit,
            timeout: TimeoutLayer::with_timeouts(self.timeouts)
                .per_call(move |call| timed.timeout_of(call)),
            limits_call_time,
            tools: self.tools,
            endpoints: merge_endpoints(features.merge(decisions), self.endpoints),
            events,
        });
        Ok(self.around.into_iter().fold(stack, |stack, Gate(layer)| layer(stack)))
    }

    /// Passes the server's state to the tools and the other features, and collects their errors.
    fn apply_state(&mut self, state: &Arc<Extensions>) {
        // Every caller may learn the names of all tools only if the author added no layers: a layer could hide tools
        // from some callers.
        let shows_names = self.gates.is_empty() && self.around.is_empty();
        self.errors.extend(self.tools.complete(Arc::clone(state), shows_names));
        self.errors.extend(self.features.errors(state));
        self.errors.extend(self.steps.error());
    }

    /// Creates the limit of running calls, and adds it to the state that tools extract; see [`RunningLimit`].
    fn running_limit(&mut self) -> ConcurrencyLimitLayer {
        let limit = ConcurrencyLimitLayer::new(std::mem::take(&mut self.limit));
        self.state.insert(RunningLimit(limit.clone()));
        limit
    }

    /// Adds two gates around all others if the server offers extensions of proposals. The outermost gate reads the
    /// members that these extensions add to calls, because all other gates can use them. The next one answers requests
    /// for the manifest. If the author handles `tools/call`, the author adds these layers, so this function adds none.
    fn add_proposal_layer(&mut self) {
        let routes_tools = self.endpoints.methods().any(|method| method == ToolsCall::METHOD);
        if !routes_tools && self.offer.mgp.as_ref().is_some_and(MgpOffer::has_proposals) {
            let manifest = self.manifest.take();
            self.gates.extend(manifest.map(|manifest| Gate::new(manifest.layer(&self.offer))));
            self.gates.push(Gate::new(ProposalLayer::new()));
        }
        // Outermost, because a gate that asks a person about a call runs the check first.
        self.gates.extend(self.steps.check());
    }

    /// Adds to the offer the extensions and permissions that the endpoints and tools need.
    fn complete_mgp_offer(&mut self) {
        let events = self.features.has_channels && !self.chose_extensions;
        if let Some(mgp) = &mut self.offer.mgp {
            if events {
                mgp.extensions = mgp.extensions.with(Extension::Events);
            }
            // Clients send audit events only to servers that offer the extension.
            if self.endpoints.methods().any(|method| method == AuditNotification::METHOD) {
                mgp.extensions = mgp.extensions.with(Extension::Audit);
            }
            let all = mgp.permissions_required.iter().cloned().chain(self.tools.permissions());
            mgp.permissions_required = Permission::canonical(&all.collect::<Vec<_>>());
            // Do not change the extensions if the author chose them explicitly.
            if !mgp.permissions_required.is_empty() && !self.chose_extensions {
                mgp.extensions = mgp.extensions.with(Extension::Permissions);
            }
        }
    }

    /// Serves one peer over a pair of byte streams until it disconnects or the server has
    /// [drained](Self::drain_handle).
    ///
    /// # Errors
    /// Returns an error if the connection fails; a disconnect and a requested shutdown are not errors.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection and its calls.
    pub async fn serve<R, W>(mut self, reader: R, writer: W) -> Result<(), ServeError>
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let (limits, drain) = (self.wire.clone(), self.drain_handle());
        let is_owned = self.shutdown.is_owned;
        // Over a pair of streams, a server has exactly one connection.
        health::count_connections(&mut self.health, || 1);
        let connection = Connection::new(reader, writer, self.into_stack()?).limits(limits);
        if is_owned {
            ProcessOwner::mark(connection.scope());
        }
        let _leaving = CloseWhenDrained::when_drained(drain.clone(), connection.close_handle());
        match connection.run().await {
            CloseReason::Eof | CloseReason::Local => Ok(()),
            // Log only a warning: the shutdown was requested, so a supervisor must not regard it as a failure.
            closed if drain.is_draining() => {
                tracing::warn!(%closed, "closed before the peer had read all messages");
                Ok(())
            }
            closed => Err(ServeError::Connection(closed)),
        }
    }

    /// Serves the process that started this one (its parent) over stdin and stdout.
    ///
    /// Redirects standard output to standard error first, so that a stray `println!` cannot corrupt the protocol.
    ///
    /// The parent process owns the server, so it may shut it down. SIGTERM and SIGINT drain the server, unless the
    /// program [handles them itself](Self::without_signals); a second signal ends the process. A tool that blocks its
    /// thread cannot be stopped: it prevents the runtime, and therefore the process, from ending.
    ///
    /// # Errors
    /// Returns the errors of [`Server::serve`], or an error if stdin and stdout cannot be used.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection and its calls.
    pub async fn serve_stdio(self) -> Result<(), ServeError> {
        let (reader, writer) = take_stdio()?;
        let _signals =
            (!self.shutdown.leaves_signals).then(|| SignalGuard::drain(&self.shutdown.drain));
        self.owned_by_peer().serve(reader, writer).await
    }
}

impl TryFrom<Server> for Stack {
    type Error = RpcError;

    fn try_from(server: Server) -> Result<Self, RpcError> {
        server.into_stack()
    }
}

/// Sets the server id that the server sends when it announces its shutdown.
fn name_server(drain: &mgp_lifecycle::Drain, offer: &ServerOffer) {
    if let Some(id) = offer.mgp.as_ref().and_then(|mgp| mgp.server_id.as_deref()) {
        drain.configure(|config| {
            config.server_id.get_or_insert_with(|| id.into());
        });
    }
}
