//! The innermost services of a server: its tools, then its other endpoints.

use std::pin::Pin;
use std::task::{Context as Task, Poll};

use mgp_lifecycle::Timeout;
use mgp_stream::EventHub;
use mgp_types::RpcError;
use mgp_types::mcp::ListParams;
use mgp_types::method::{Request, ToolsCall, ToolsList};
use mgp_types::service::{BoxFuture, Call, Either, Kind, Reply, Router, Scope, Stack, WaitMark};
use tower_service::Service;

use crate::catalog::bad_cursor;
use crate::permission;
use crate::tool::{RetryHint, Running, Tools};

/// The innermost service, [`Leaf`], with the layers for time limits and retry hints around it.
pub(crate) type BoundedLeaf = RetryHint<Timeout<Leaf>>;

/// The innermost service of a server whose author handles `tools/call`, e.g. of a gateway that passes it to other
/// servers. Tool calls have no time limit here; all other methods go to `others`.
#[derive(Clone)]
pub(crate) struct GatewayLeaf {
    pub(crate) tools: Tools,
    pub(crate) calls: Stack,
    pub(crate) others: BoundedLeaf,
}

impl Service<Call> for GatewayLeaf {
    type Response = Reply;
    type Error = RpcError;
    type Future =
        Either<<BoundedLeaf as Service<Call>>::Future, BoxFuture<'static, Result<Reply, RpcError>>>;
    mgp_types::always_ready!(innermost);

    fn call(&mut self, call: Call) -> Self::Future {
        if call.method().as_str() != ToolsCall::METHOD {
            return Either::Left { future: self.others.call(call) };
        }
        if let Err(refused) = recheck(&self.tools, &call) {
            return Either::Right { future: Box::pin(std::future::ready(Err(refused))) };
        }
        Either::Right { future: self.calls.send(call) }
    }
}

/// The innermost service: it runs the server's tools, and passes other methods to their endpoints.
#[derive(Clone)]
pub(crate) struct Leaf {
    tools: Tools,
    endpoints: Router,
    /// `true` if this service handles `tools/call` itself; `false` if the author added an endpoint for it. The same
    /// applies to `own_lists` and `tools/list`.
    own_calls: bool,
    own_lists: bool,
    events: Option<EventHub>,
}

impl Service<Call> for Leaf {
    type Response = Reply;
    type Error = RpcError;
    type Future = Either<LeafFuture, BoxFuture<'static, Result<Reply, RpcError>>>;
    mgp_types::always_ready!(innermost);

    fn call(&mut self, mut call: Call) -> Self::Future {
        if let Err(refused) = recheck(&self.tools, &call) {
            return Either::Left { future: LeafFuture::Ready(Some(Err(refused))) };
        }
        match call.method().as_str() {
            ToolsCall::METHOD if self.own_calls && call.kind() == Kind::Request => {
                let Some(hub) = self.events.clone() else {
                    return Either::Left { future: LeafFuture::new(self.tools.call(call)) };
                };
                let scope = call.cx().scope.clone();
                let running = LeafFuture::new(self.tools.call(call));
                Either::Right { future: Box::pin(answer_after_events(hub, scope, running)) }
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
    pub(crate) fn new(tools: Tools, endpoints: Router, events: Option<EventHub>) -> Self {
        let routes = |method: &str| endpoints.get(method).is_some();
        let (own_calls, own_lists) = (!routes(ToolsCall::METHOD), !routes(ToolsList::METHOD));
        Self { tools, endpoints, own_calls, own_lists, events }
    }
}

/// Checks again that a call is allowed, if an outer layer made it wait: a right might have ended meanwhile.
fn recheck(tools: &Tools, call: &Call) -> Result<(), RpcError> {
    if WaitMark::is_set(call.cx()) { tools.recheck(call) } else { Ok(()) }
}

/// Runs a tool of a server with event channels. Delays the answer until the events that the tool published have been
/// sent.
async fn answer_after_events(
    hub: EventHub,
    scope: Scope,
    running: LeafFuture,
) -> Result<Reply, RpcError> {
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

/// The future of a call: a result that is available already, or a running tool.
pub(crate) enum LeafFuture {
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
