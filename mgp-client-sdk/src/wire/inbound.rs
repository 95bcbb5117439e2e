//! THE inbound stack from one server: one layer a line, outermost first, each with its reason.
//!
//! Applies to: inbound.

use std::fmt;
use std::future::ready;
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use mgp_lifecycle::{CatchPanicLayer, Session};
use mgp_stream::RouteLayer;
use mgp_types::method::{
    ElicitationComplete, ElicitationCreate, Ping, Request, RootsList, SamplingCreateMessage, lookup,
};
use mgp_types::service::{
    Ask, Asking, Asks, BoxFuture, Call, Context, Facts, InFlight, Kind, Reply, Router, ScopeKind,
    Stack,
};
use mgp_types::{ErrorCode, Payload, RpcError};
use tower::ServiceBuilder;
use tower_service::Service;

use super::suits;
use super::visits::Visits;

/// What the stack is built from.
#[derive(Clone)]
pub(crate) struct Inbound {
    /// What the client answers itself, and takes notice of.
    pub(crate) own: Router,
    /// What the client notes before anybody is told, such as changes of lists.
    pub(crate) notices: Router,
    /// What the client offered to be asked for.
    pub(crate) asks: Asks,
    /// Finds the caller to ask when a server asks outside of any call; without it such questions are refused.
    pub(crate) unattributed: Option<FindCaller>,
}

/// Finds the caller to ask, by method, when a server asks outside of any call.
#[derive(Clone)]
pub(crate) struct FindCaller(Arc<Find>);

type Find = dyn Fn(&str) -> Option<Context> + Send + Sync;

impl FindCaller {
    pub(crate) fn new(find: impl Fn(&str) -> Option<Context> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }
}

impl fmt::Debug for FindCaller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FindCaller")
    }
}

/// Puts the layers over what the client answers itself.
pub(crate) fn inbound(parts: Inbound) -> Stack {
    let service = ServiceBuilder::new()
        // Anything below may panic.
        .layer(CatchPanicLayer::new())
        // Partial results go to the calls they belong to, in the order of the wire.
        .layer(RouteLayer::new())
        .service(Answers(parts));
    Stack::new(service)
}

/// Answers a server's own requests: what the client answers itself, else by asking the caller on whose behalf it asks.
#[derive(Clone)]
struct Answers(Inbound);

impl Service<Call> for Answers {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let facts = call.cx().scope.state::<Session>().facts();
        if is_inactive(&call, &facts) {
            return Box::pin(ready(unheard(&call)));
        }
        if call.kind() == Kind::Notification {
            if call.tells::<ElicitationComplete>()
                && let Ok(params) = call.params().get()
            {
                call.cx().scope.state::<Visits>().over(&params);
            }
            let (noted, told) = (self.0.notices.call(call.clone()), self.0.own.call(call));
            return Box::pin(async move {
                noted.await?;
                told.await
            });
        }
        let answering = self.answer(call);
        if facts.speaks_mgp() {
            return answering;
        }
        // A plain peer sees nothing of MGP, in refusals neither.
        Box::pin(async move { answering.await.map_err(RpcError::without_recovery) })
    }
}

impl Answers {
    fn answer(&mut self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let Inbound { own, asks, unattributed, .. } = &mut self.0;
        let method = call.method().as_str();
        if own.methods().any(|known| known == method) {
            return own.call(call);
        }
        match method {
            Ping::METHOD => Box::pin(ready(Ok(Reply::empty()))),
            ElicitationCreate::METHOD | SamplingCreateMessage::METHOD | RootsList::METHOD => {
                if !asks.offers(method) {
                    return Box::pin(ready(Err(not_offered(method))));
                }
                let origin = attribute(&call, unattributed.as_ref());
                Box::pin(async move { pass_on(origin?, &call).await })
            }
            _ => own.call(call),
        }
    }
}

/// What a server hears that asks for something this client did not offer.
pub(crate) fn not_offered(method: &str) -> RpcError {
    RpcError::new(ErrorCode::METHOD_NOT_FOUND, format!("`{method}` is not offered by this client"))
}

/// Whether a message belongs to an extension that is not active: then it does not exist here (MGP §2.4).
fn is_inactive(call: &Call, facts: &Facts) -> bool {
    let extension = lookup(call.method().as_str()).and_then(|info| info.extension);
    extension.is_some_and(|extension| !facts.has(extension))
}

fn unheard(call: &Call) -> Result<Reply, RpcError> {
    match call.kind() {
        Kind::Request => Err(RpcError::method_not_found(call.method().as_str())),
        Kind::Notification => Ok(Reply::None),
    }
}

/// Finds the caller a server's question belongs to (DESIGN §5).
///
/// The peer of a question that came on a call's stream knows that call only.
/// On stdio a question names no call, so it is attributed only if exactly one
/// principal has calls in flight, from one place; anything else would show one caller's question to another.
/// What the client itself asked for in between is nobody's.
fn attribute(question: &Call, unattributed: Option<&FindCaller>) -> Result<Context, RpcError> {
    let cx = question.cx();
    let in_flight = cx.peer.all_in_flight();
    let own = cx.scope.id();
    let is_own =
        |call: &&InFlight| call.cx.scope.id() == own && matches!(call.cx.asking, Asking::Nobody);
    let mut callers = in_flight.iter().filter(|call| !is_own(call));
    let mut askable = callers.clone().filter(|call| !matches!(call.cx.asking, Asking::Nobody));
    let Some(first) = askable.next() else {
        // With a call in flight the question may be that call's.
        let by = if callers.next().is_none() { unattributed } else { None };
        return by
            .and_then(|FindCaller(find)| find(question.method().as_str()))
            .ok_or_else(|| refused("no call is in flight whose caller could be asked"));
    };
    if callers.clone().any(|call| call.cx.principal != first.cx.principal) {
        return Err(refused(
            "several callers have calls in flight: whom the question is for cannot be told; \
             `isolation = \"per_agent\"` gives each an instance of its own",
        ));
    }
    // One person at two hosts: a question belongs to the host whose call it is.
    if callers.any(|call| is_elsewhere(&first.cx, &call.cx)) {
        return Err(refused(
            "several clients of one caller have calls in flight: which of them the question is for cannot be told",
        ));
    }
    Ok(first.cx.clone())
}

/// Whether two calls came from two clients that stay; requests that stand alone may be one client's.
fn is_elsewhere(one: &Context, other: &Context) -> bool {
    let stays =
        |cx: &Context| matches!(cx.scope.kind(), ScopeKind::Connection | ScopeKind::Session);
    one.scope.id() != other.scope.id() && (stays(one) || stays(other))
}

fn refused(why: &'static str) -> RpcError {
    RpcError::new(ErrorCode::PERMISSION_DENIED, why)
}

async fn pass_on(origin: Context, call: &Call) -> Result<Reply, RpcError> {
    let params: Payload =
        if call.params().is_none() { Payload::empty_object() } else { call.params().get()? };
    let method = call.method().to_string();
    // The question's key is its number on this connection: a legacy server cannot run from the top again,
    // so it needs no name that stays the same.
    let key =
        call.cx().wire_id.as_ref().map_or_else(|| method.clone(), |id| format!("{method}#{id}"));
    let ask = Ask::new(method, params);
    suits(&origin.caller, &ask)?;
    call.cx().scope.state::<Visits>().note(&ask, &origin);
    origin.ask(&key, ask).await.map(Reply::raw)
}
