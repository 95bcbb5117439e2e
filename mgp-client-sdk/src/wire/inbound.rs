//! THE inbound stack from one server: one layer a line, outermost first, each with its reason.
//!
//! Applies to: inbound.

use std::future::ready;
use std::task::{Context as Task, Poll};

use mgp_lifecycle::{CatchPanicLayer, Session};
use mgp_stream::RouteLayer;
use mgp_types::method::{
    ElicitationCreate, Ping, Request, RootsList, SamplingCreateMessage, lookup,
};
use mgp_types::service::{
    Ask, Asking, Asks, BoxFuture, Call, Context, Facts, InFlight, Kind, Reply, Router, Stack,
};
use mgp_types::{ErrorCode, Payload, RpcError};
use tower::ServiceBuilder;
use tower_service::Service;

/// What the stack is built from.
#[derive(Clone)]
pub(crate) struct Inbound {
    /// What the client answers itself, and takes notice of.
    pub(crate) own: Router,
    /// What the client notes before anybody is told, such as changes of lists.
    pub(crate) notices: Router,
    /// What the client offered to be asked for.
    pub(crate) asks: Asks,
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
        let Inbound { own, asks, .. } = &mut self.0;
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
                let origin = attribute(&call.cx().peer.all_in_flight());
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
/// On stdio the question names no call, so it is attributed only if exactly one principal has calls in flight;
/// anything else would show one caller's question to another.
fn attribute(in_flight: &[InFlight]) -> Result<Context, RpcError> {
    let mut askable = in_flight.iter().filter(|call| !matches!(call.cx.asking, Asking::Nobody));
    let Some(first) = askable.next() else {
        return Err(RpcError::new(
            ErrorCode::PERMISSION_DENIED,
            "no call is in flight whose caller could be asked",
        ));
    };
    if in_flight.iter().any(|call| call.cx.principal != first.cx.principal) {
        return Err(RpcError::new(
            ErrorCode::PERMISSION_DENIED,
            "several callers have calls in flight: whom the question is for cannot be told",
        ));
    }
    Ok(first.cx.clone())
}

async fn pass_on(origin: Context, call: &Call) -> Result<Reply, RpcError> {
    let params: Payload =
        if call.params().is_none() { Payload::empty_object() } else { call.params().get()? };
    let method = call.method().to_string();
    // The question's key is its number on this connection: a legacy server cannot run from the top again,
    // so it needs no name that stays the same.
    let key =
        call.cx().wire_id.as_ref().map_or_else(|| method.clone(), |id| format!("{method}#{id}"));
    origin.ask(&key, Ask::new(method, params)).await.map(Reply::raw)
}
