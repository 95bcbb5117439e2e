//! The server to which hosts and agents connect. It makes the kernel one server that speaks MCP and MGP.
//!
//! Applies to: inbound.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mgp_lifecycle::{Fleet, LimitConfig, Timeouts};
use mgp_security::{Administration, Governance};
use mgp_server_sdk::{Server, StructuredErrors};
use mgp_types::RpcError;
use mgp_types::mcp::{ListChanged, ResourcesCapability, key};
use mgp_types::method::{LifecycleShutdown, Request as _};
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::service::{BoxFuture, Call, Context, Either, MgpService, Reply, Router, Stack};
use tower_layer::Layer;
use tower_service::Service;

use super::admin;
use super::callers::CallerChange;
use super::cli_hints::CliHintLayer;
use super::coalesced::Coalesced;
use super::dispatch::{self, Dispatcher};
use super::fleet::FIRST_SYNC_TIMEOUT;
use super::handle::Kernel;
use super::kernel_hops;
use super::policy;
use super::proposals;

/// The extensions of MGP that the kernel serves.
const EXTENSIONS: ExtensionSet = ExtensionSet::EMPTY
    .with(Extension::Streaming)
    .with(Extension::Callbacks)
    .with(Extension::ToolSecurity)
    .with(Extension::AccessControl)
    .with(Extension::Lifecycle)
    .with(Extension::Events)
    .with(Extension::Discovery)
    .with(Extension::ToolDiscovery);

/// The instructions that the kernel gives to models. They fit every value of `surface`: the tool list of a caller need
/// not contain the tools that find other tools.
const INSTRUCTIONS: &str = "Tools of many servers are behind this one. \
    Call a listed tool by its name. If mgp_tools_discover is listed, it finds more tools: \
    call these by their names too, or with mgp_tools_call.";

impl Kernel {
    /// Returns a server that passes calls on to the servers of the kernel.
    ///
    /// The caller can serve it on stdio, at a URL, or over any pair of streams.
    pub fn server(&self) -> Server {
        let dispatcher = &self.0.dispatcher;
        let visible = dispatcher.visible_fleet();
        let context = self.0.fleet.context();
        let (for_tasks, for_schemas) = (context.clone(), dispatcher.clone());
        let server = Server::new(kernel_hops::KERNEL_NAME, env!("CARGO_PKG_VERSION"))
            .change_notifier(&context.notifications, dispatcher.clone())
            .event_hub(context.events.hub());
        server.drain_handle().fleet(Arc::clone(&visible) as Arc<dyn Fleet>);
        let own = shutdown_for_operators(server.system_router(), &context.governance);
        let proposals = context.proposals.served;
        let server = if proposals.contains(Extension::StructuredErrors) {
            server.extension(StructuredErrors)
        } else {
            server
        };
        let offered = EXTENSIONS | proposals;
        let router = dispatch::router(dispatcher, offered, admin::router(self), own);
        let form_timeout = context.config.config().kernel.form_timeout;
        server
            .instructions(INSTRUCTIONS)
            .offer(|offer| {
                if let Some(mgp) = &mut offer.mgp {
                    mgp.extensions = offered;
                    // Do not promise that all questions come in answers to calls, because the servers of the kernel may
                    // ask in other ways.
                    mgp.asks_in_rounds = false;
                }
                let mut list_changed = ListChanged::new();
                list_changed.list_changed = Some(true);
                offer.capabilities.tools = Some(list_changed.clone());
                // Offer prompts and resources even if no server has any now, because the servers can change.
                offer.capabilities.prompts = Some(list_changed);
                let mut resources = ResourcesCapability::new();
                resources.list_changed = Some(true);
                resources.subscribe = Some(true);
                offer.capabilities.resources = Some(resources);
                offer.capabilities.completions.get_or_insert_default();
                let extensions = offer.capabilities.extensions.get_or_insert_default();
                extensions.insert(key::SKILLS_EXTENSION, dispatch::skills_capability());
            })
            .logging()
            // The time limits of tool calls apply later, when the call is sent to its server. So the time in which the
            // call waits for a person does not count.
            .timeouts(call_timeouts())
            .limit(call_limits())
            .rounds(policy::round_limits(form_timeout))
            .task_tables(&context.tasks)
            .task_support(move |tool| dispatch::task_support(&for_tasks, tool))
            .typed_tools(move |tool| for_schemas.may_be_typed(tool))
            .layer((
                // Before everything else, refuse calls that run in a circle of kernels.
                AdmissionLayer { dispatcher: dispatcher.clone() },
                // In answers, replace the remedies of refusals by commands of the program `mgp`.
                CliHintLayer,
            ))
            .health(|health| health.fleet(visible))
            .endpoints(router)
    }
}

/// Returns the time limits of requests to the kernel: the default ones, but none for tool calls. The limit of a search
/// includes the wait for the first lists of servers.
fn call_timeouts() -> Timeouts {
    let mut timeouts = Timeouts::default();
    timeouts.tool = Duration::MAX;
    timeouts.discovery += FIRST_SYNC_TIMEOUT;
    timeouts
}

/// Returns the limits of the calls in all connections together. They do not limit the number of running calls, because
/// one caller could use up such a limit. Other limits apply to the calls of each connection and, with `running` in
/// `[limits]`, to the calls of each agent.
fn call_limits() -> LimitConfig {
    let mut limits = LimitConfig::default();
    limits.max_running = usize::MAX / 2;
    limits
}

/// Returns the router for calling the methods of the outer layers as tools. The shutdown is for operators only, because
/// a model must not end the kernel that a host has started.
fn shutdown_for_operators(system: Router, governance: &Governance) -> Router {
    let (inner, governance) = (Stack::new(system.clone()), governance.clone());
    let guarded = Stack::from_fn(move |call: Call| {
        let (inner, governance) = (inner.clone(), governance.clone());
        async move {
            let method = LifecycleShutdown::METHOD;
            governance.operators_only_at(call.cx(), None, Administration::Changes, method).await?;
            inner.send(call).await
        }
    });
    system.route(LifecycleShutdown::METHOD, guarded)
}

/// Layer that refuses calls that run in a circle of kernels, and records the callers of all other calls.
#[derive(Clone)]
struct AdmissionLayer {
    dispatcher: Dispatcher,
}

mgp_types::opaque_debug!(AdmissionLayer);

#[derive(Clone)]
struct Admission<S> {
    inner: S,
    /// The service `inner` with the layers of the extensions beyond MGP around it.
    with_proposals: Stack,
    dispatcher: Dispatcher,
}

impl<S: MgpService> Layer<S> for AdmissionLayer {
    type Service = Admission<S>;

    fn layer(&self, inner: S) -> Admission<S> {
        let scopes = &self.dispatcher.parts().fleet.context().scopes;
        let with_proposals = proposals::layers(inner.clone(), scopes);
        Admission { inner, with_proposals, dispatcher: self.dispatcher.clone() }
    }
}

impl<S: MgpService> Service<Call> for Admission<S> {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<S::Future, BoxFuture<'static, Result<Reply, RpcError>>>;
    mgp_types::always_ready!();

    fn call(&mut self, mut call: Call) -> Self::Future {
        if let Err(refused) = kernel_hops::check(&mut call) {
            return Either::Right { future: Box::pin(ready(Err(refused))) };
        }
        dispatch::unwrap_kernel_tool(&mut call);
        // Record the client from its first call on, even if an inner layer will refuse this call.
        note_caller(&self.dispatcher, &call);
        let context = self.dispatcher.parts().fleet.context();
        if proposals::apply_to(&call, &context.scopes) {
            context.calls.add_check(&mut call);
            return Either::Right { future: self.with_proposals.send(call) };
        }
        Either::Left { future: self.inner.call(call) }
    }
}

/// Records the caller of a call, and forwards changes of its log level or its roots to the servers.
fn note_caller(dispatcher: &Dispatcher, call: &Call) {
    match dispatcher.parts().fleet.context().callers.note(call) {
        CallerChange::LogLevel => request_log_levels(dispatcher, call.cx()),
        // Notify the servers, so that they ask again: a server may have asked for roots while no client was connected.
        CallerChange::Connected if call.cx().caller.accepts.roots => {
            dispatcher.announce_roots(call.cx());
        }
        CallerChange::Connected | CallerChange::None => {}
    }
}

/// Requests from all servers the log levels that clients want now. At most one task per caller does so at a time.
fn request_log_levels(dispatcher: &Dispatcher, cx: &Context) {
    #[derive(Default)]
    struct LogLevels;
    let dispatcher = dispatcher.clone();
    cx.scope.state::<Coalesced<LogLevels>>().request(move || {
        let dispatcher = dispatcher.clone();
        async move {
            let all = dispatcher.parts().fleet.all();
            // Send the requests at the same time, so that a server that does not answer does not delay the others.
            join_all(all.values().map(|server| server.request_log_level())).await;
        }
    });
}
