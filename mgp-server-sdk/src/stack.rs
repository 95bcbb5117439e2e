//! THE inbound stack of a server: one layer a line, outermost first, each with its reason.
//!
//! Applies to: inbound.

use std::task::{Context as Task, Poll};

use mgp_lifecycle::{
    CatchPanicLayer, HandshakeLayer, LimitLayer, RoundsLayer, ServerOffer, TimeoutLayer,
};
use mgp_security::TraceLayer;
use mgp_stream::{CancelLayer, EmitLayer};
use mgp_types::RpcError;
use mgp_types::method::{Request, ToolsCall, ToolsList};
use mgp_types::service::{BoxFuture, Call, Either, Reply, Router, Stack};
use tower::ServiceBuilder;
use tower_service::Service;

use crate::tool::Tools;

/// What the stack is built from.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) offer: ServerOffer,
    pub(crate) tools: Tools,
    pub(crate) limit: LimitLayer,
    pub(crate) timeout: TimeoutLayer,
    pub(crate) cancel: CancelLayer,
    pub(crate) rounds: RoundsLayer,
    pub(crate) endpoints: Router,
}

/// Builds the stack.
pub(crate) fn inbound(parts: Parts) -> Stack {
    let Parts { offer, tools, limit, timeout, cancel, rounds, endpoints } = parts;
    let typed = tools.clone();
    let service = ServiceBuilder::new()
        // Anything below may panic.
        .layer(CatchPanicLayer::new())
        // The span and its trace id come before anyone logs.
        .layer(TraceLayer::new())
        // Everything below needs to know who calls and what was negotiated; on the way out it words refusals.
        .layer(HandshakeLayer::new(offer).typed(move |tool| typed.is_typed(tool)))
        // Gates and handlers below may ask a modern caller; what they ask becomes the reply of the whole stack.
        .layer(rounds)
        // It must see a call before anything can wait, so that a cancellation right behind it finds it.
        .layer(cancel)
        // After the cheap refusals: a refused call takes no turn.
        .layer(limit)
        // Waiting for a turn does not count.
        .layer(timeout)
        // The way back is opened last: what was refused above sends nothing.
        .layer(EmitLayer::new())
        .service(Leaf { tools, endpoints });
    Stack::new(service)
}

/// The innermost service: tools, then the other endpoints.
#[derive(Clone)]
struct Leaf {
    tools: Tools,
    endpoints: Router,
}

impl Service<Call> for Leaf {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<Answer, BoxFuture<'static, Result<Reply, RpcError>>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Self::Future {
        match call.method().as_str() {
            ToolsCall::METHOD if call.kind() == mgp_types::service::Kind::Request => {
                Either::Left { future: Answer::of(self.tools.call(call)) }
            }
            ToolsList::METHOD => {
                let list = self.tools.list(&call.cx().caller);
                Either::Left { future: Answer::Ready(Some(list)) }
            }
            _ => Either::Right { future: self.endpoints.call(call) },
        }
    }
}

/// An answer that is there, or a tool that runs.
enum Answer {
    Ready(Option<Result<Reply, RpcError>>),
    Running(crate::tool::Running),
}

impl Answer {
    fn of(started: Result<crate::tool::Running, RpcError>) -> Self {
        match started {
            Ok(running) => Self::Running(running),
            Err(error) => Self::Ready(Some(Err(error))),
        }
    }
}

impl Future for Answer {
    type Output = Result<Reply, RpcError>;

    fn poll(self: std::pin::Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Ready(answer) => Poll::Ready(answer.take().unwrap_or_else(|| Ok(Reply::None))),
            Self::Running(running) => std::pin::Pin::new(running).poll(task),
        }
    }
}
