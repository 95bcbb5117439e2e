//! The inbound stack of a server: the outer layers, the gates (the author's layers and the limits), and the innermost
//! service. Layers are listed outermost first, one per line, each with the reason for its place.
//!
//! [`CallLimits`](crate::limit::CallLimits) determines the order of the gates for rates, quotas and sizes.

use std::sync::Arc;

use mgp_lifecycle::{
    CatchPanicLayer, ConcurrencyLimitLayer, Drain, DrainLayer, HandshakeLayer, HealthLayer,
    RoundsLayer, StructuredErrorsLayer, TasksLayer, TimeoutLayer, Transactions,
};
use mgp_security::TraceLayer;
use mgp_stream::{CancelLayer, EmitLayer, EventHub};
use mgp_types::method::{Request, ToolsCall};
use mgp_types::service::{MgpService, Router, Stack};
use tower::ServiceBuilder;
use tower_layer::Layer;

use crate::leaf::{GatewayLeaf, Leaf};
use crate::request_context::RequestContextLayer;
use crate::tool::{RetryHintLayer, Tools};
use crate::transactions::OwnTools;

/// The parts that [`inbound`] assembles, outermost first.
#[derive(Debug)]
pub(crate) struct StackParts {
    pub(crate) outer: OuterLayers,
    /// The author's layers, and the limits on rate, quota and size. In this list the innermost is first.
    pub(crate) gates: Vec<Gate>,
    /// The coordinator of transactions, which calls tools through the gates.
    pub(crate) transactions: Option<Transactions>,
    pub(crate) limit: ConcurrencyLimitLayer,
    pub(crate) timeout: TimeoutLayer,
    /// `true` if tool calls have a time limit. `false` for a gateway: its author added an endpoint for `tools/call`,
    /// but no tools and no time limit.
    pub(crate) limits_call_time: bool,
    pub(crate) tools: Tools,
    pub(crate) endpoints: Router,
    pub(crate) events: Option<EventHub>,
}

/// A gate: a layer that the author added, or a limit, through which a call passes on its way to a tool.
pub(crate) struct Gate(pub(crate) Box<dyn FnOnce(Stack) -> Stack + Send>);

impl Gate {
    pub(crate) fn new<L>(layer: L) -> Self
    where
        L: Layer<Stack> + Send + 'static,
        L::Service: MgpService,
    {
        Self(Box::new(move |stack| Stack::new(layer.layer(stack))))
    }
}

mgp_types::opaque_debug!(Gate);

pub(crate) fn inbound(parts: StackParts) -> Stack {
    let StackParts {
        outer,
        gates,
        transactions,
        limit,
        timeout,
        limits_call_time,
        tools,
        endpoints,
        events,
    } = parts;
    let drain = outer.drain.clone();
    let start = |gates: &Stack| {
        if let Some(transactions) = transactions {
            let (tools, gates) = (tools.downgrade(), gates.downgrade());
            transactions.start(Arc::new(OwnTools { tools, gates, drain }));
        }
    };
    let untimed_calls =
        if limits_call_time { None } else { endpoints.get(ToolsCall::METHOD).cloned() };
    let bounded = ServiceBuilder::new()
        // Outside of the time limit, so that it can add a retry hint if a read-only tool exceeds the limit.
        .layer(RetryHintLayer(tools.clone()))
        // Inside of the limit of running calls, so that the wait for this limit does not count as time of the call.
        .layer(timeout)
        .service(Leaf::new(tools.clone(), endpoints, events));
    if let Some(calls) = untimed_calls {
        // A gateway sets no time limit on tool calls: its clients set a limit, and only the servers behind it know the
        // tools.
        let leaf = GatewayLeaf { tools: tools.clone(), calls, others: bounded };
        // The limit of running calls is inside the gates, so that a refused call does not count as running.
        let gated = gated(gates, limit.layer(leaf));
        start(&gated);
        return outer.around(gated);
    }
    // As in the stack of a gateway, the limit of running calls is inside the gates.
    let inner = limit.layer(bounded);
    // Without gates, avoid the box that [`gated`] puts around the inner services.
    if gates.is_empty() {
        return outer.around(inner);
    }
    let gated = gated(gates, inner);
    start(&gated);
    outer.around(gated)
}

fn gated(gates: Vec<Gate>, inner: impl MgpService) -> Stack {
    gates.into_iter().fold(Stack::new(inner), |stack, Gate(gate)| gate(stack))
}

/// The layers outside of the gates. To add a layer, add a field here, a line in [`Self::around`], and its value in
/// `server/build.rs`.
#[derive(Debug)]
pub(crate) struct OuterLayers {
    pub(crate) handshake: HandshakeLayer,
    /// Present only if the server offers `structured_errors`.
    pub(crate) structured_errors: Option<StructuredErrorsLayer>,
    pub(crate) rounds: RoundsLayer,
    pub(crate) cancel: CancelLayer,
    pub(crate) health: HealthLayer,
    pub(crate) drain: Drain,
    pub(crate) emit: EmitLayer,
    pub(crate) tasks: TasksLayer,
    pub(crate) logging: bool,
}

impl OuterLayers {
    /// Puts these layers around the inner services.
    fn around(self, inner: impl MgpService) -> Stack {
        let service = ServiceBuilder::new()
            // Outermost, because any layer inside may panic.
            .layer(CatchPanicLayer::new())
            // Outside of everything that logs, because its span contains the trace id of the call.
            .layer(TraceLayer::new())
            // Identifies the caller and its extensions for all layers inside, and translates
            // their errors for the caller.
            .layer(self.handshake)
            // Inside of the handshake, which knows whether the caller negotiated `structured_errors`, and outside of
            // every layer that refuses calls.
            .option_layer(self.structured_errors)
            // Inner gates and handlers can ask a modern caller for input; this layer converts their questions to the
            // reply.
            .layer(self.rounds)
            // Outside of every layer that waits. So a cancellation that follows a call immediately finds the call, and
            // an answer to a callback arrives while the call that needs the answer still runs.
            .layer(self.cancel)
            // Outside of the limits and the drain, so that health is reported under any load, and also
            // while the server drains.
            .layer(self.health)
            // Outside of every layer that waits, because a waiting call has been accepted, and the drain must wait for
            // it. A request to shut down takes effect here, in the order of arrival.
            .layer(DrainLayer::new(self.drain))
            // Creates the outlet outside of the gates, so that they can wrap it and see each chunk.
            .layer(self.emit)
            // Returns refusals of the layers inside immediately. A call that they admit can become a task, and keeps
            // the guards of those layers, e.g. its permit to run, until it ends.
            .layer(self.tasks)
            // Adds the context that gates and handlers need to send log messages and ask the caller. Inside of `tasks`,
            // so that the questions of a task belong to the task.
            .layer(RequestContextLayer { logging: self.logging })
            // The gates, then the limit of running calls and the innermost service.
            .service(inner);
        Stack::new(service)
    }
}
