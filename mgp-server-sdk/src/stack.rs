//! The inbound stack of a server: the outer layers, the gates, the limits, and the innermost service; outermost first,
//! one layer a line, each with its reason.
//!
//! [`CallLimits`](crate::limit::CallLimits) orders the gates for rates, quotas and sizes.

use mgp_lifecycle::{
    CatchPanicLayer, ConcurrencyLimitLayer, Drain, DrainLayer, HandshakeLayer, HealthLayer,
    RoundsLayer, StructuredErrorsLayer, TasksLayer, TimeoutLayer,
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

/// The parts that [`inbound`] assembles, outermost first.
#[derive(Debug)]
pub(crate) struct StackParts {
    pub(crate) outer: OuterLayers,
    /// The user's layers and the limits of calls, innermost first.
    pub(crate) gates: Vec<Gate>,
    pub(crate) limit: ConcurrencyLimitLayer,
    pub(crate) timeout: TimeoutLayer,
    /// `false` if tool calls are routed elsewhere and have no time limit here.
    pub(crate) bounds_calls: bool,
    pub(crate) tools: Tools,
    pub(crate) endpoints: Router,
    /// The events of a server with channels.
    pub(crate) events: Option<EventHub>,
}

/// A layer that the user added.
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

/// Assembles the stack of a server.
pub(crate) fn inbound(parts: StackParts) -> Stack {
    let StackParts { outer, gates, limit, timeout, tools, endpoints, events, .. } = parts;
    let routed_calls = endpoints.get(ToolsCall::METHOD).cloned();
    let bounded = ServiceBuilder::new()
        // Above the time-out: adds a retry hint to the time-outs of read-only tools.
        .layer(RetryHintLayer(tools.clone()))
        // The wait for a slot above does not count as time of the call.
        .layer(timeout)
        .service(Leaf::new(tools.clone(), endpoints, events));
    // The limit is below the gates: a refused call does not take a slot.
    if let Some(calls) = routed_calls.filter(|_| !parts.bounds_calls) {
        // The clients of a gateway limit the time of its tool calls, and only their servers know the tools.
        let leaf = GatewayLeaf { tools, calls, others: bounded };
        return outer.around(gated(gates, limit.layer(leaf)));
    }
    let inner = limit.layer(bounded);
    if gates.is_empty() {
        return outer.around(inner);
    }
    outer.around(gated(gates, inner))
}

/// Puts the user's gates around the inner services.
fn gated(gates: Vec<Gate>, inner: impl MgpService) -> Stack {
    gates.into_iter().fold(Stack::new(inner), |stack, Gate(gate)| gate(stack))
}

/// The layers above the gates. A new one is a field here, a line in [`Self::around`], and its value in `server.rs`.
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
    fn around(self, inner: impl MgpService) -> Stack {
        let service = ServiceBuilder::new()
            // Outermost, because any layer below may panic.
            .layer(CatchPanicLayer::new())
            // Above everything that logs: the span carries the trace id of the call.
            .layer(TraceLayer::new())
            // Identifies the caller and its extensions for all layers below, and translates their errors on the way
            // out.
            .layer(self.handshake)
            // Below the handshake, which knows whether the caller wants them, and above every layer that refuses.
            .option_layer(self.structured_errors)
            // Gates and handlers below may ask a modern caller for input; this layer turns their questions into the
            // reply.
            .layer(self.rounds)
            // Above every layer that waits, so that a cancellation that follows directly after a call finds the call, and
            // an answer to a callback does not wait behind the call that waits for it.
            .layer(self.cancel)
            // Above the limits and the drain, so that health is reported under any load and while the server drains.
            .layer(self.health)
            // Above every layer that waits: a waiting call has been accepted, so a drain must wait for it.
            // A request to shut down takes effect here, in the order of arrival.
            .layer(DrainLayer::new(self.drain))
            // Opens the outlet above the gates, so that they can wrap it and see each chunk.
            .layer(self.emit)
            // Refusals from below are returned at once. A call that continues may become a task, and keeps its guards.
            .layer(self.tasks)
            // Gates and handlers need it to log and to ask. Below `tasks`, so that a task asks in its own name.
            .layer(RequestContextLayer { logging: self.logging })
            // The user's gates, then the limits.
            .service(inner);
        Stack::new(service)
    }
}
