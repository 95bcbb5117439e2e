//! Builds the stack of a server from its configuration.

use std::sync::Arc;
use std::time::Duration;

use mgp_lifecycle::{
    ConcurrencyLimitLayer, Drain, HandshakeLayer, HealthLayer, MgpOffer, ProposalLayer,
    RoundsLayer, ServerOffer, TaskTables, TasksConfig, TasksLayer, TimeoutLayer,
};
use mgp_security::Grants;
use mgp_types::method::{AuditNotification, Notification as _, Request as _, ToolsCall};
use mgp_types::mgp::{Extension, Permission};
use mgp_types::service::{Extensions, Router, Stack};
use mgp_types::{RpcError, Sealer};

use super::{Server, TaskSupportFn, TypedToolsFn};
use crate::error::BuildErrors;
use crate::events;
use crate::features::{ShutdownNotice, merge_endpoints};
use crate::health;
use crate::request::HandlerConfig;
use crate::stack::{Gate, OuterLayers, StackParts, inbound};
use crate::tool::{RunningLimit, Tools};

impl Server {
    /// Builds the stack, which all connections share.
    ///
    /// # Errors
    /// Code −32603 (internal error) with all reasons why the server cannot be built, e.g. the name of a tool, a
    /// permission, missing state, or a URI template. Also if the operating system provides no randomness for the key
    /// that seals request state.
    pub fn into_stack(mut self) -> Result<Stack, RpcError> {
        let limit = self.running_limit();
        let state = Arc::new(std::mem::take(&mut self.state));
        self.apply_state(&state);
        if !self.errors.is_empty() {
            return Err(BuildErrors(self.errors).into());
        }
        self.complete_mgp_offer();
        self.add_proposal_layer();
        let routes_tools = self.routes_tools();
        let offers = |extension| {
            self.offer.mgp.as_ref().is_some_and(|mgp| mgp.extensions.contains(extension))
        };
        let grants = if offers(Extension::Permissions) { Grants::router() } else { Router::new() };
        let serving = HandlerConfig { timeout: self.timeouts.tool, state };
        let (drain, structured_errors) = (self.shutdown.drain, self.features.structured_errors);
        name_server(&drain, &self.offer);
        let events =
            (offers(Extension::Events) && !routes_tools).then(|| self.features.events.clone());
        let event_tools = events.as_ref().map(events::tools_gate);
        let notice =
            ShutdownNotice { drain: drain.clone(), is_announced: offers(Extension::Lifecycle) };
        let (features, logging) =
            self.features.assemble(&mut self.offer, &self.tools, &serving, notice);
        self.offer.tasks |= self.tools.any_task() || self.task_support.is_some();
        let health = health::complete(self.health, &self.offer, &self.tools, &self.cancel, &drain);
        let [known, named, timed, typed] = [0; 4].map(|_| self.tools.clone());
        let limits_call_time =
            !routes_tools || !self.tools.is_empty() || self.timeouts.tool < Duration::MAX;
        let (emit, call_limits) =
            self.call_limits.gates(move |name| routes_tools || named.has(name));
        let tool_gates = event_tools.into_iter().chain(call_limits);
        let outer = OuterLayers {
            handshake: handshake_layer(self.offer, self.typed_tools, typed),
            structured_errors,
            rounds: RoundsLayer::new(Sealer::random()?).config(self.rounds),
            cancel: self.cancel.callbacks(self.callbacks),
            health: HealthLayer::new(health),
            tasks: tasks_layer(self.tasks, self.task_support, known, &self.task_tables)
                .drain(drain.clone()),
            drain,
            emit,
            logging,
        };
        let stack = inbound(StackParts {
            outer,
            // The limits are inside the author's layers, so that a call that those layers refuse does not count for a
            // limit.
            gates: self.steps.gates(&self.tools, tool_gates, self.gates),
            transactions: self.steps.transactions,
            limit,
            timeout: TimeoutLayer::with_timeouts(self.timeouts)
                .per_call(move |call| timed.timeout_of(call)),
            limits_call_time,
            tools: self.tools,
            endpoints: merge_endpoints(features.merge(grants), self.endpoints),
            events,
        });
        Ok(self.outer_gates.into_iter().fold(stack, |stack, Gate(layer)| layer(stack)))
    }

    /// Passes the server's state to the tools and the other features, and collects their errors.
    fn apply_state(&mut self, state: &Arc<Extensions>) {
        // Every caller may learn the names of all tools only if the author added no layers: a layer could hide tools
        // from some callers.
        let shows_names = self.gates.is_empty() && self.outer_gates.is_empty();
        self.errors.extend(self.tools.set_state(Arc::clone(state), shows_names));
        self.errors.extend(self.features.errors(state));
        self.errors.extend(self.steps.error());
    }

    /// Returns whether the author added an endpoint for `tools/call`. Only that endpoint then knows the names of the
    /// tools.
    fn routes_tools(&self) -> bool {
        self.endpoints.methods().any(|method| method == ToolsCall::METHOD)
    }

    /// Creates the limit of running calls, and adds it to the state that tools extract; see [`RunningLimit`].
    fn running_limit(&mut self) -> ConcurrencyLimitLayer {
        let limit = ConcurrencyLimitLayer::new(std::mem::take(&mut self.concurrency));
        self.state.insert(RunningLimit(limit.clone()));
        limit
    }

    /// Adds gates around the author's layers: the check that runs before a person is asked about a call, and, if the
    /// server offers extensions beyond MGP, the layer that reads the members that these extensions add to calls, and
    /// the layer that answers requests for the manifest. If the author handles `tools/call`, the author adds the last
    /// two layers, so this function does not.
    fn add_proposal_layer(&mut self) {
        // Only the author's layers can ask a person about a call. A layer inside the one that asks might answer calls
        // of other tools.
        let asks = !self.gates.is_empty() && !self.routes_tools();
        let has_others = self.gates.len() > 1;
        let asked_tools = asks.then(|| self.tools.clone());
        if !self.routes_tools() && self.offer.mgp.as_ref().is_some_and(MgpOffer::has_proposals) {
            let manifest = self.manifest.take();
            self.gates.extend(manifest.map(|manifest| Gate::new(manifest.layer(&self.offer))));
            self.gates.push(Gate::new(ProposalLayer::new()));
        }
        // The outermost gate stores the check in the call, where the gate that asks a person finds it.
        self.gates.extend(self.steps.check(asked_tools, has_others));
    }

    /// Adds to the offer the extensions and permissions that the endpoints and tools need.
    fn complete_mgp_offer(&mut self) {
        let events = self.features.has_channels && !self.chose_extensions;
        if let Some(mgp) = &mut self.offer.mgp {
            if events {
                mgp.extensions = mgp.extensions.with(Extension::Events);
            }
            // Clients send audit events only to servers that offer the extension, so offer it if the author added an
            // endpoint for them.
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
}

impl TryFrom<Server> for Stack {
    type Error = RpcError;

    fn try_from(server: Server) -> Result<Self, RpcError> {
        server.into_stack()
    }
}

/// Returns the layer that runs calls as tasks, and adds the table of its tasks to `tables`. `support` decides which
/// calls may become tasks; without it, the definitions of this server's tools decide.
fn tasks_layer(
    config: TasksConfig,
    support: Option<TaskSupportFn>,
    tools: Tools,
    tables: &TaskTables,
) -> TasksLayer {
    let layer = match support {
        None => TasksLayer::new(config, move |tool| tools.task_support(tool)),
        Some(TaskSupportFn(support)) => {
            TasksLayer::new(config, move |tool| support(tool)).only_if_requested()
        }
    };
    layer.tables(tables)
}

/// Returns the layer that negotiates the revision and the extensions with each client. The layer must know which tools
/// have an output schema; `typed` returns this for tools that other servers run.
fn handshake_layer(
    offer: ServerOffer,
    typed: Option<TypedToolsFn>,
    tools: Tools,
) -> HandshakeLayer {
    HandshakeLayer::new(offer).typed(move |tool| {
        tools.is_typed(tool) || typed.as_ref().is_some_and(|TypedToolsFn(is_typed)| is_typed(tool))
    })
}

/// Sets the server id that the server sends when it announces its shutdown.
fn name_server(drain: &Drain, offer: &ServerOffer) {
    if let Some(id) = offer.mgp.as_ref().and_then(|mgp| mgp.server_id.as_deref()) {
        drain.configure(|config| {
            config.server_id.get_or_insert_with(|| id.into());
        });
    }
}
