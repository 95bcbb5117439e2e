//! The inbound stack of a connection: one layer per line, outermost first, each with its reason.

use std::future::ready;
use std::sync::Arc;

use mgp_lifecycle::{CatchPanicLayer, HandshakeState};
use mgp_stream::{CancelLayer, RouteLayer};
use mgp_types::method::{
    CallbackRequest, ElicitationComplete, ElicitationCreate, Ping, Request, RootsList,
    SamplingCreateMessage, lookup,
};
use mgp_types::service::{
    AcceptedRequests, BoxFuture, Call, CallerAccess, CallerRequest, Context, InFlight, Kind,
    PeerInfo, Reply, Router, Stack, keep_alive,
};
use mgp_types::{ErrorCode, Payload, RpcError};
use tower::ServiceBuilder;
use tower_service::Service;

use super::callbacks::{self, CallbackHandler};
use super::question_progress::progress_outlet;
use super::url_elicitations::UrlElicitations;
use super::{OpenQuestion, offers, question_for_caller};

#[derive(Clone)]
pub(crate) struct InboundParts {
    /// The handlers of the SDK's user.
    pub(crate) own: Router,
    /// Handlers of the client itself, called before the user's, e.g. to drop cached lists.
    pub(crate) notices: Router,
    /// The requests that the client offered to answer.
    pub(crate) asks: AcceptedRequests,
    /// The function that finds the caller to ask if a request of the server belongs to no call; `None` if such requests
    /// are refused.
    pub(crate) unattributed: Option<FindCaller>,
    /// The party that answers callbacks; `None` if the user's own handlers receive them like other notifications.
    pub(crate) callbacks: Option<CallbackHandler>,
}

/// A function that finds the caller to ask if a server's request belongs to no call; receives the request's method.
#[derive(Clone)]
pub(crate) struct FindCaller(Arc<Find>);

type Find = dyn Fn(&str) -> Option<Context> + Send + Sync;

impl FindCaller {
    pub(crate) fn new(find: impl Fn(&str) -> Option<Context> + Send + Sync + 'static) -> Self {
        Self(Arc::new(find))
    }
}

mgp_types::opaque_debug!(FindCaller);

/// Builds the inbound stack over the client's own handlers.
pub(crate) fn inbound(parts: InboundParts) -> Stack {
    let service = ServiceBuilder::new()
        // This layer is outermost, because any layer below may panic.
        .layer(CatchPanicLayer::new())
        // This layer routes partial results to their calls, in the order of arrival.
        .layer(RouteLayer::new())
        // This layer drops a question that the server withdraws, so that the question is withdrawn at the caller, too.
        .layer(CancelLayer::default())
        .service(Answers(parts));
    Stack::new(service)
}

/// The service that answers a server's requests: by the client's own handlers, else by asking the caller of the current
/// call.
#[derive(Clone)]
struct Answers(InboundParts);

impl Service<Call> for Answers {
    type Response = Reply;
    type Error = RpcError;
    type Future = BoxFuture<'static, Result<Reply, RpcError>>;
    mgp_types::always_ready!(innermost);

    fn call(&mut self, call: Call) -> Self::Future {
        let facts = call.cx().scope.state::<HandshakeState>().facts();
        if is_inactive(&call, &facts) {
            // A router without routes handles the message as one of an unknown method.
            return Router::new().call(call);
        }
        if call.kind() == Kind::Notification {
            if call.tells::<ElicitationComplete>()
                && let Ok(params) = call.params().get()
            {
                call.cx().scope.state::<UrlElicitations>().complete(&params);
            }
            if call.tells::<CallbackRequest>()
                && let Some(handler) = &self.0.callbacks
            {
                callbacks::receive(handler, call);
                return Box::pin(ready(Ok(Reply::None)));
            }
            let (own_notice, user) = (self.0.notices.call(call.clone()), self.0.own.call(call));
            return Box::pin(async move {
                own_notice.await?;
                user.await
            });
        }
        let answer_future = self.answer(call);
        if facts.supports_mgp() {
            return answer_future;
        }
        // A plain MCP peer must not receive MGP members, not even in refusals.
        Box::pin(async move { answer_future.await.map_err(RpcError::without_recovery) })
    }
}

impl Answers {
    fn answer(&mut self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        let InboundParts { own, asks, unattributed, .. } = &mut self.0;
        let method = call.method().as_str();
        if own.methods().any(|known| known == method) {
            if !is_question(method) {
                return own.call(call);
            }
            // Pause the time-outs of the server's calls, because the time in which the client itself answers is not the
            // server's.
            let open = OpenQuestion::of_all(&call.cx().peer);
            let answering = own.call(call);
            return Box::pin(async move {
                let _open = open;
                answering.await
            });
        }
        match method {
            Ping::METHOD => Box::pin(ready(Ok(Reply::empty()))),
            _ if is_question(method) => {
                if !asks.accepts(method) {
                    return Box::pin(ready(Err(not_offered(method))));
                }
                let origin = attribute(&call, unattributed.as_ref());
                Box::pin(async move { pass_on(origin?, &call).await })
            }
            _ => own.call(call),
        }
    }
}

/// Returns whether a method is a request of a server that a person, a model or the client's settings answer.
pub(crate) fn is_question(method: &str) -> bool {
    matches!(method, ElicitationCreate::METHOD | SamplingCreateMessage::METHOD | RootsList::METHOD)
}

/// Returns the error for a request that this client did not offer to answer.
pub(crate) fn not_offered(method: &str) -> RpcError {
    RpcError::new(ErrorCode::METHOD_NOT_FOUND, format!("`{method}` is not offered by this client"))
}

/// Returns whether a message belongs to an extension that is not active, so that it must be treated as unknown (MGP
/// §2.4).
fn is_inactive(call: &Call, facts: &PeerInfo) -> bool {
    let extension = lookup(call.method().as_str()).and_then(|info| info.extension);
    extension.is_some_and(|extension| !facts.has(extension))
}

/// Finds the caller that a server's request belongs to (MCP elicitation, sampling, roots).
///
/// Over HTTP the request arrives on the stream of one call, and the request's peer knows only that call. On stdio a
/// request names no call, so it is attributed only if all calls in flight have the same principal and come from the
/// same connection or session; otherwise one caller could see another's question. Calls that the client itself makes
/// are not counted. Of several such calls, one without an open question is chosen: the caller of the others may never
/// return with the answer. If all of them have open questions, and another call is in flight whose caller answers no
/// questions, the request is refused, because it may belong to that call.
pub(super) fn attribute(
    request: &Call,
    unattributed: Option<&FindCaller>,
) -> Result<Context, RpcError> {
    let cx = request.cx();
    let in_flight = cx.peer.all_in_flight();
    let own = cx.scope.id();
    let is_own = |call: &&InFlight| {
        call.cx.scope.id() == own && matches!(call.cx.caller_access, CallerAccess::Unavailable)
    };
    let mut callers = in_flight.iter().filter(|call| !is_own(call));
    let askable: Vec<_> = callers
        .clone()
        .filter(|call| !matches!(call.cx.caller_access, CallerAccess::Unavailable))
        .collect();
    let answers_none = || {
        ask_refused("the client that made the call answers no questions; go on without an answer")
    };
    let (Some(first), Some(last)) = (askable.first(), askable.last()) else {
        // A call in flight may be the one the request belongs to, even if its caller cannot be asked.
        if callers.next().is_some() {
            return Err(answers_none());
        }
        return unattributed
            .and_then(|FindCaller(find)| find(request.method().as_str()))
            .ok_or_else(|| ask_refused("no call is in flight whose caller could be asked"));
    };
    if callers.clone().any(|call| call.cx.principal != first.cx.principal) {
        return Err(ask_refused(
            "several callers have calls at the server, running or with a question that is not answered yet: it is \
             ambiguous which one the question is for; `isolation = \"per_agent\"` gives each an instance of its own",
        ));
    }
    let all = callers.clone().count();
    // One principal may use two hosts; a question must reach the host that made the call.
    if callers.any(|call| !first.cx.scope.may_be_one_client(&call.cx.scope)) {
        return Err(ask_refused(
            "several clients of one caller have calls in flight: it is ambiguous which one the question is for",
        ));
    }
    match askable.iter().find(|call| can_ask_now(&call.cx)) {
        Some(chosen) => Ok(chosen.cx.clone()),
        None if all > askable.len() => Err(answers_none()),
        None => Ok(last.cx.clone()),
    }
}

/// Returns whether a question would reach the caller of a call at once.
fn can_ask_now(cx: &Context) -> bool {
    match &cx.caller_access {
        CallerAccess::Channel(asker) => asker.can_ask_now(),
        _ => true,
    }
}

fn ask_refused(why: &'static str) -> RpcError {
    RpcError::new(ErrorCode::PERMISSION_DENIED, why)
}

async fn pass_on(origin: Context, call: &Call) -> Result<Reply, RpcError> {
    let params: Payload =
        if call.params().is_none() { Payload::empty_object() } else { call.params().get()? };
    let method = call.method().to_string();
    // The key contains the request's id on this connection. The key need not be stable, because a legacy server cannot
    // run the call again from the start.
    let key =
        call.cx().wire_id.as_ref().map_or_else(|| method.clone(), |id| format!("{method}#{id}"));
    let params = question_for_caller(origin.server.as_ref(), &method, &params);
    let ask = CallerRequest::new(method, params);
    offers(&origin.caller, &ask)?;
    call.cx().scope.state::<UrlElicitations>().remember(&ask, &origin);
    let _open = OpenQuestion::of(&origin);
    let waiting = "waiting for the answer to a question of the server";
    let asking = origin.ask_with_progress(&key, ask, progress_outlet(call));
    keep_alive(&origin.outlet, waiting, asking).await.map(Reply::raw)
}

#[cfg(test)]
mod tests {
    use mgp_types::Id;
    use mgp_types::service::{
        CallerChannel, Inbox, ItemReceiver, Link, Method, OutletItem, Params, Peer, Principal,
        QueueRoom, Scope, ScopeKind,
    };

    use super::*;

    /// The channel to a caller that has left a question open.
    struct Left;

    impl CallerChannel for Left {
        fn ask(&self, _: &str, _: CallerRequest) -> BoxFuture<'static, Result<Payload, RpcError>> {
            Box::pin(std::future::pending())
        }

        fn can_ask_now(&self) -> bool {
            false
        }
    }

    struct NoItems;

    impl ItemReceiver for NoItems {
        fn push(&self, _: OutletItem) -> QueueRoom {
            QueueRoom::Full
        }
    }

    /// A server to which these calls were sent.
    struct Server(Vec<InFlight>);

    impl Link for Server {
        fn send(&self, _: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
            Box::pin(std::future::pending())
        }

        fn all_in_flight(&self) -> Vec<InFlight> {
            self.0.clone()
        }
    }

    fn in_flight(caller_access: CallerAccess) -> InFlight {
        let mut cx = Context::new(Peer::none(), Scope::new(ScopeKind::Request), Principal::local());
        cx.caller_access = caller_access;
        InFlight { id: Id::Number(1), cx, inbox: Inbox::new(Arc::new(NoItems)) }
    }

    #[test]
    fn a_question_of_a_caller_that_answers_none_does_not_wait_for_a_caller_that_left() {
        let asked = |calls: Vec<InFlight>| {
            let cx = Peer::new(Arc::new(Server(calls))).context(&Scope::new(ScopeKind::Connection));
            let method = Method::from_static(ElicitationCreate::METHOD);
            attribute(&Call::request(method, Params::none(), cx), None)
        };
        let left = in_flight(CallerAccess::Channel(Arc::new(Left)));
        assert!(asked(vec![left.clone()]).is_ok());
        let silent = in_flight(CallerAccess::Unavailable);
        assert_eq!(asked(vec![left, silent]).unwrap_err().code(), ErrorCode::PERMISSION_DENIED);
    }
}
