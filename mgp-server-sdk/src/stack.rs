//! The inbound stack of a server. This is the only place that orders the layers: one per line, outermost first,
//! each with its reason.

use std::pin::Pin;
use std::task::{Context as Task, Poll};

use mgp_lifecycle::{
    CatchPanicLayer, ConcurrencyLimitLayer, Drain, DrainLayer, HandshakeLayer, HealthLayer,
    RoundsLayer, ServerOffer, StructuredErrorsLayer, TasksLayer, Timeout, TimeoutLayer,
};
use mgp_security::TraceLayer;
use mgp_stream::{CancelLayer, EmitLayer, EventHub};
use mgp_types::RpcError;
use mgp_types::mcp::ListParams;
use mgp_types::method::{Request, ToolsCall, ToolsList};
use mgp_types::service::{
    BoxFuture, Call, Either, Kind, MgpService, Reply, Router, Scope, Stack, WaitMark,
};
use tower::ServiceBuilder;
use tower_layer::Layer;
use tower_service::Service;

use crate::catalog::bad_cursor;
use crate::permission;
use crate::request_context::RequestContextLayer;
use crate::tool::{RetryHint, RetryHintLayer, Running, Tools};

/// The layers and endpoints that [`inbound`] assembles.
#[derive(Debug)]
pub(crate) struct StackParts {
    pub(crate) offer: ServerOffer,
    pub(crate) tools: Tools,
    pub(crate) limit: ConcurrencyLimitLayer,
    pub(crate) timeout: TimeoutLayer,
    /// `false` if tool calls are routed elsewhere and have no time limit here.
    pub(crate) bounds_calls: bool,
    pub(crate) cancel: CancelLayer,
    pub(crate) emit: EmitLayer,
    pub(crate) health: HealthLayer,
    pub(crate) drain: Drain,
    pub(crate) rounds: RoundsLayer,
    pub(crate) tasks: TasksLayer,
    pub(crate) logging: bool,
    /// Present only if the server offers `structured_errors`.
    pub(crate) structured_errors: Option<StructuredErrorsLayer>,
    pub(crate) endpoints: Router,
    /// The events of a server with channels.
    pub(crate) events: Option<EventHub>,
    /// The user's layers, between the layers of [`OuterLayers`] and the limits.
    pub(crate) gates: Vec<Gate>,
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

pub(crate) fn inbound(parts: StackParts) -> Stack {
    let StackParts {
        offer, tools, limit, timeout, cancel, emit, health, drain, rounds, tasks, ..
    } = parts;
    let (logging, endpoints, gates, events) =
        (parts.logging, parts.endpoints, parts.gates, parts.events);
    let structured_errors = parts.structured_errors;
    let typed = tools.clone();
    let handshake = HandshakeLayer::new(offer).typed(move |tool| typed.is_typed(tool));
    let routed_calls = endpoints.get(ToolsCall::METHOD).cloned();
    let leaf = Leaf {
        own_calls: routed_calls.is_none(),
        own_lists: endpoints.get(ToolsList::METHOD).is_none(),
        tools: tools.clone(),
        endpoints,
        events,
    };
    let bounded = ServiceBuilder::new()
        // Above the time-out: adds a retry hint to the time-outs of read-only tools.
        .layer(RetryHintLayer(tools.clone()))
        .layer(timeout)
        .service(leaf);
    let outer = OuterLayers {
        handshake,
        structured_errors,
        cancel,
        emit,
        health,
        drain,
        rounds,
        tasks,
        logging,
    };
    // After the cheap refusals: a refused call does not take a slot. The wait for it does not count as time of the call.
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

/// The layers above the user's gates.
struct OuterLayers {
    handshake: HandshakeLayer,
    structured_errors: Option<StructuredErrorsLayer>,
    cancel: CancelLayer,
    emit: EmitLayer,
    health: HealthLayer,
    drain: Drain,
    rounds: RoundsLayer,
    tasks: TasksLayer,
    logging: bool,
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

/// The innermost service with its time limits.
type BoundedLeaf = RetryHint<Timeout<Leaf>>;

/// The innermost service of a server that routes `tools/call` elsewhere without a time limit, e.g. of a gateway.
#[derive(Clone)]
struct GatewayLeaf {
    tools: Tools,
    calls: Stack,
    others: BoundedLeaf,
}

impl Service<Call> for GatewayLeaf {
    type Response = Reply;
    type Error = RpcError;
    type Future =
        Either<<BoundedLeaf as Service<Call>>::Future, BoxFuture<'static, Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Self::Future {
        if call.method().as_str() != ToolsCall::METHOD {
            return Either::Left { future: self.others.call(call) };
        }
        if WaitMark::is_set(call.cx())
            && let Err(refused) = self.tools.recheck(&call)
        {
            return Either::Right { future: Box::pin(std::future::ready(Err(refused))) };
        }
        Either::Right { future: self.calls.send(call) }
    }
}

/// The innermost service: the tools, then the other endpoints.
#[derive(Clone)]
struct Leaf {
    tools: Tools,
    endpoints: Router,
    /// `false` if the user routes `tools/call` elsewhere; `own_lists` likewise.
    own_calls: bool,
    own_lists: bool,
    events: Option<EventHub>,
}

impl Service<Call> for Leaf {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<LeafFuture, BoxFuture<'static, Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        if WaitMark::is_set(call.cx())
            && let Err(refused) = self.tools.recheck(&call)
        {
            return Either::Left { future: LeafFuture::Ready(Some(Err(refused))) };
        }
        match call.method().as_str() {
            ToolsCall::METHOD if self.own_calls && call.kind() == Kind::Request => {
                let Some(hub) = self.events.clone() else {
                    return Either::Left { future: self.run(call) };
                };
                let (scope, running) = (call.cx().scope.clone(), self.run(call));
                Either::Right { future: Box::pin(settled(hub, scope, running)) }
            }
            ToolsList::METHOD if self.own_lists => {
                permission::apply_grants(&mut call);
                let list = refuse_cursor(&call).and_then(|()| self.tools.list(call.cx()));
                Either::Left { future: LeafFuture::Ready(Some(list)) }
            }
            _ => Either::Right { future: self.endpoints.call(call) },
        }
    }
}

impl Leaf {
    /// Starts a tool, or asks the caller for missing permissions.
    fn run(&self, mut call: Call) -> LeafFuture {
        // Check first that the arguments are an object: a call that will be refused must not cause a question.
        let callable = call
            .tool()
            .filter(|tool| tool.arguments.is_none_or(|arguments| arguments.starts_with('{')));
        if permission::sends_grants(&call)
            && let Some(needed) = callable.and_then(|tool| self.tools.permissions_of(tool.name))
        {
            match permission::apply_grants_or_ask(&mut call, &needed) {
                Ok(None) => {}
                question => return LeafFuture::Ready(question.transpose()),
            }
        }
        LeafFuture::new(self.tools.call(call))
    }
}

/// Runs a tool of a server with channels: its answer does not overtake the events that it published.
async fn settled(hub: EventHub, scope: Scope, running: LeafFuture) -> Result<Reply, RpcError> {
    let answer = running.await;
    if hub.is_sending() {
        hub.settle(&scope).await;
    }
    answer
}

/// Refuses any cursor, because the list of tools has only one page.
fn refuse_cursor(call: &Call) -> Result<(), RpcError> {
    if call.params().may_contain_member("\"cursor\"")
        && call.params().get::<ListParams>()?.cursor.is_some()
    {
        return Err(bad_cursor());
    }
    Ok(())
}

/// A result that is available already, or a running tool.
enum LeafFuture {
    Ready(Option<Result<Reply, RpcError>>),
    Running(Running),
}

impl LeafFuture {
    fn new(started: Result<Running, RpcError>) -> Self {
        match started {
            Ok(running) => Self::Running(running),
            Err(error) => Self::Ready(Some(Err(error))),
        }
    }
}

impl Future for LeafFuture {
    type Output = Result<Reply, RpcError>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(answer) => Poll::Ready(answer.take().unwrap_or_else(|| Ok(Reply::None))),
            Self::Running(running) => Pin::new(running).poll(task),
        }
    }
}
