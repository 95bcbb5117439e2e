//! THE inbound stack of a server: one layer a line, outermost first, each with its reason.
//!
//! Applies to: inbound.

use std::pin::Pin;
use std::task::{Context as Task, Poll};

use mgp_lifecycle::{
    CatchPanicLayer, Drain, DrainLayer, HandshakeLayer, HealthLayer, LimitLayer, RoundsLayer,
    ServerOffer, TasksLayer, TimeoutLayer,
};
use mgp_security::TraceLayer;
use mgp_stream::{CancelLayer, EmitLayer};
use mgp_types::RpcError;
use mgp_types::method::{Request, ToolsCall, ToolsList};
use mgp_types::service::{BoxFuture, Call, Either, Kind, MgpService, Reply, Router, Stack, Waited};
use tower::ServiceBuilder;
use tower_layer::Layer;
use tower_service::Service;

use crate::furnish::{FurnishLayer, Logging};
use crate::permission;
use crate::tool::{RepeatLayer, Running, Tools};

/// What the stack is built from.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) offer: ServerOffer,
    pub(crate) tools: Tools,
    pub(crate) limit: LimitLayer,
    pub(crate) timeout: TimeoutLayer,
    pub(crate) cancel: CancelLayer,
    pub(crate) health: HealthLayer,
    pub(crate) drain: Drain,
    pub(crate) rounds: RoundsLayer,
    pub(crate) tasks: TasksLayer,
    pub(crate) logging: Logging,
    pub(crate) endpoints: Router,
    /// What the user put between the way back and the limit: bounds, audit, access, own gates.
    pub(crate) gates: Vec<Gate>,
}

/// A layer of the user's.
pub(crate) struct Gate(pub(crate) Box<dyn FnOnce(Stack) -> Stack + Send>);

impl Gate {
    /// A layer that is put on later.
    pub(crate) fn of<L>(layer: L) -> Self
    where
        L: Layer<Stack> + Send + 'static,
        L::Service: MgpService,
    {
        Self(Box::new(move |stack| Stack::new(layer.layer(stack))))
    }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Gate")
    }
}

/// Builds the stack.
pub(crate) fn inbound(parts: Parts) -> Stack {
    let Parts { offer, tools, limit, timeout, cancel, health, drain, rounds, tasks, .. } = parts;
    let (logging, endpoints, gates) = (parts.logging, parts.endpoints, parts.gates);
    let typed = tools.clone();
    let handshake = HandshakeLayer::new(offer).typed(move |tool| typed.is_typed(tool));
    let routed = |method| endpoints.methods().any(|known| known == method);
    let leaf = Leaf {
        own_calls: !routed(ToolsCall::METHOD),
        own_lists: !routed(ToolsList::METHOD),
        tools: tools.clone(),
        endpoints,
    };
    let inner = ServiceBuilder::new()
        // After the cheap refusals: a refused call takes no turn.
        .layer(limit)
        // Above the time-out: it may help to call again what only reads.
        .layer(RepeatLayer(tools))
        // Waiting for a turn does not count.
        .layer(timeout)
        .service(leaf);
    let outer = Outer { handshake, cancel, health, drain, rounds, tasks, logging };
    if gates.is_empty() {
        return outer.over(inner);
    }
    outer.over(gates.into_iter().fold(Stack::new(inner), |stack, Gate(gate)| gate(stack)))
}

/// The layers above the user's gates.
struct Outer {
    handshake: HandshakeLayer,
    cancel: CancelLayer,
    health: HealthLayer,
    drain: Drain,
    rounds: RoundsLayer,
    tasks: TasksLayer,
    logging: Logging,
}

impl Outer {
    fn over(self, inner: impl MgpService) -> Stack {
        let service = ServiceBuilder::new()
            // Anything below may panic.
            .layer(CatchPanicLayer::new())
            // The span and its trace id come before anyone logs.
            .layer(TraceLayer::new())
            // Everything below needs to know who calls and what was negotiated; on the way out it words refusals.
            .layer(self.handshake)
            // Gates and handlers below may ask a modern caller; what they ask becomes the reply of the whole stack.
            .layer(self.rounds)
            // It must see a call before anything can wait, so that a cancellation right behind it finds it.
            .layer(self.cancel)
            // It answers however full or slow everything below is, and while the server drains.
            .layer(self.health)
            // Above all that may wait: a call that waits was accepted, and the end of the server waits for it.
            // It is told to end here, in wire order.
            .layer(DrainLayer::new(self.drain))
            // The way back opens above the gates, so that they can wrap it and see each chunk.
            .layer(EmitLayer::new())
            // A refusal below answers at once; what runs on may leave its request, and its guards go with it.
            .layer(self.tasks)
            // Gates and handlers log and ask with it; where a task is asked for, it is the task that asks.
            .layer(FurnishLayer(self.logging))
            // The user's gates, then the limit.
            .service(inner);
        Stack::new(service)
    }
}

/// The innermost service: tools, then the other endpoints.
#[derive(Clone)]
struct Leaf {
    tools: Tools,
    endpoints: Router,
    /// Unless the user routes these methods elsewhere, to a switchboard for example.
    own_calls: bool,
    own_lists: bool,
}

impl Service<Call> for Leaf {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<Answer, BoxFuture<'static, Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut call: Call) -> Self::Future {
        if Waited::is(call.cx())
            && let Err(refused) = self.tools.recheck(&call)
        {
            return Either::Left { future: Answer::Ready(Some(Err(refused))) };
        }
        match call.method().as_str() {
            ToolsCall::METHOD if self.own_calls && call.kind() == Kind::Request => {
                Either::Left { future: self.run(call) }
            }
            ToolsList::METHOD if self.own_lists => {
                permission::bring(&mut call);
                let list = self.tools.list(call.cx());
                Either::Left { future: Answer::Ready(Some(list)) }
            }
            _ => Either::Right { future: self.endpoints.call(call) },
        }
    }
}

impl Leaf {
    /// Starts a tool, or asks the caller what it may do.
    fn run(&self, mut call: Call) -> Answer {
        if permission::says_what_stands(&call)
            && let Some(needed) = call.tool().and_then(|tool| self.tools.permissions_of(tool.name))
        {
            match permission::bring_or_ask(&mut call, &needed) {
                Ok(None) => {}
                asked => return Answer::Ready(asked.transpose()),
            }
        }
        Answer::of(self.tools.call(call))
    }
}

/// An answer that is there, or a tool that runs.
enum Answer {
    Ready(Option<Result<Reply, RpcError>>),
    Running(Running),
}

impl Answer {
    fn of(started: Result<Running, RpcError>) -> Self {
        match started {
            Ok(running) => Self::Running(running),
            Err(error) => Self::Ready(Some(Err(error))),
        }
    }
}

impl Future for Answer {
    type Output = Result<Reply, RpcError>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(answer) => Poll::Ready(answer.take().unwrap_or_else(|| Ok(Reply::None))),
            Self::Running(running) => Pin::new(running).poll(task),
        }
    }
}
