//! The [`Server`] builder. `server/build.rs` builds its stack, and `server/serve.rs` serves it over byte streams.

use std::time::Duration;

use mgp_lifecycle::{
    Health, LimitConfig, MgpOffer, RoundsConfig, ServerOffer, TaskTables, TasksConfig, Timeouts,
};
use mgp_stream::{CallbackLayer, CancelLayer};
use mgp_transport::Limits;
use mgp_types::mcp::{Implementation, TaskSupport};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::{Extensions, MgpService, Principal, Router, Stack};
use tower_layer::Layer;

use crate::drain::Shutdown;
use crate::error::BuildError;
use crate::features::Features;
use crate::limit::CallLimits;
use crate::manifest::Manifest;
use crate::stack::Gate;
use crate::tool::{IntoTools, SchemaStyle, Tools};
use crate::transactions::StepLayers;

mod build;
mod serve;

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
    concurrency: LimitConfig,
    rounds: RoundsConfig,
    pub(crate) call_limits: CallLimits,
    pub(crate) timeouts: Timeouts,
    wire_limits: Limits,
    /// The principal of the peer over a pair of byte streams.
    principal: Principal,
    /// The layers inside the handshake; the innermost is first.
    gates: Vec<Gate>,
    /// The layers around the whole server; the innermost is first.
    outer_gates: Vec<Gate>,
    pub(crate) steps: StepLayers,
    tasks: TasksConfig,
    task_tables: TaskTables,
    task_support: Option<TaskSupportFn>,
    typed_tools: Option<TypedToolsFn>,
    cancel: CancelLayer,
    callbacks: CallbackLayer,
    pub(crate) shutdown: Shutdown,
    pub(crate) health: Health,
    /// The extension that answers requests for the manifest, if the author added it.
    manifest: Option<Manifest>,
    /// `true` if the author set the MGP extensions in the offer. The server then does not add the extensions that its
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

/// The MGP extensions that a new server offers. `permissions` is added if a tool needs a permission; builder methods
/// add other extensions.
const SERVED: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::Streaming)
    .with(Extension::ToolSecurity)
    .with(Extension::Lifecycle)
    .with(Extension::Callbacks);

impl Server {
    /// Creates a server without tools. It offers the MGP extensions `streaming`, `tool_security`, `lifecycle` and
    /// `callbacks`; other methods add further ones.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        let mut offer = ServerOffer::new(Implementation::new(name, version));
        let mut mgp = MgpOffer::new(SERVED);
        // Declare that this SDK can ask modern callers the same questions as legacy callers. A kernel then needs only
        // one session with the server.
        mgp.asks_in_rounds = true;
        offer.mgp = Some(mgp);
        Self {
            offer,
            tools: Tools::default(),
            state: Extensions::default(),
            errors: Vec::new(),
            features: Features::default(),
            endpoints: Router::new(),
            concurrency: LimitConfig::default(),
            rounds: RoundsConfig::default(),
            call_limits: CallLimits::default(),
            timeouts: Timeouts::default(),
            wire_limits: Limits::default(),
            principal: Principal::local(),
            gates: Vec::new(),
            outer_gates: Vec::new(),
            steps: StepLayers::default(),
            tasks: TasksConfig::default(),
            task_tables: TaskTables::default(),
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
    /// By default, such tools are listed. Whether they are listed or not, calls of them fail with code 1000 (permission
    /// denied).
    pub fn hide_denied_tools(self) -> Self {
        self.tools.hide_denied_tools();
        self
    }

    /// Sets whether the schemas of tools describe the types of fields in place or under `$defs`. Default:
    /// [`SchemaStyle::Inlined`].
    pub fn schema_style(self, style: SchemaStyle) -> Self {
        self.tools.set_schema_style(style);
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
        self.outer_gates.push(Gate::new(layer));
        self
    }

    /// Sets the limits of tasks; [`TasksConfig`] has the defaults. Only calls of tools with
    /// [task support](crate::Tool::task) can become tasks.
    pub fn tasks(mut self, tasks: TasksConfig) -> Self {
        self.tasks = tasks;
        self
    }

    /// Sets the tables to which the server adds the table of its tasks, so that the program can remove the tasks of a
    /// tenant.
    pub fn task_tables(mut self, tables: &TaskTables) -> Self {
        self.task_tables = tables.clone();
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

    /// Changes what the server offers in the handshake: title, web site, icons (`info`), revisions, capabilities, MGP.
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
    pub(crate) fn set_manifest(mut self, manifest: Manifest) -> Self {
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
    /// A function on the blocking pool cannot be stopped. So it counts as running until it returns, even after its call
    /// has ended.
    pub fn limit(mut self, limit: LimitConfig) -> Self {
        self.concurrency = limit;
        self
    }

    /// Sets the limits of the rounds in which a caller of 2026-07-28 answers questions about its call. Default: 16
    /// rounds, and 15 minutes for each answer.
    pub fn rounds(mut self, limits: RoundsConfig) -> Self {
        self.rounds = limits;
        self
    }

    /// Sets the time limit of the functions that implement tools, prompts, resources and completions. Default: 30 s. A
    /// call that becomes a task has the task's time to live instead.
    ///
    /// The limit includes the time in which a caller of 2025-11-25 or before answers questions. So a server that asks
    /// people needs a longer limit here, or for the tools that ask ([`Tool::timeout`](crate::Tool::timeout)).
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeouts.tool = timeout;
        self
    }

    /// Sets the limits of messages and buffers of each connection over stdio or another pair of streams; over HTTP, see
    /// `HttpServer::config`.
    pub fn wire_limits(mut self, limits: Limits) -> Self {
        self.wire_limits = limits;
        self
    }

    /// Sets the principal of the peer of [`serve`](Self::serve) and [`serve_stdio`](Self::serve_stdio); access entries,
    /// settings of agents and the audit log refer to it. Default: [`Principal::local`], without an agent. Over HTTP,
    /// the credentials of a request determine its principal.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::types::service::Principal;
    ///
    /// let caller = |principal: Principal| async move { principal.name().to_owned() };
    /// let server = Server::new("names", "1.0")
    ///     .tool(Tool::new("whoami", "The name of the caller", caller))
    ///     .principal(Principal::local().agent("editor"));
    /// # drop(server);
    /// ```
    pub fn principal(mut self, principal: Principal) -> Self {
        self.principal = principal;
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
}
