//! The inbound stack of a connection: one layer per line, outermost first, each with its reason.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use mgp_lifecycle::{CatchPanicLayer, HandshakeState};
use mgp_stream::{CancelLayer, RouteLayer};
use mgp_types::mcp::{TaskParams, key};
use mgp_types::method::{
    CallbackRequest, ElicitationComplete, ElicitationCreate, Ping, Request, RootsList,
    SamplingCreateMessage, lookup,
};
use mgp_types::service::{
    AcceptedRequests, BoxFuture, Call, CallerAccess, CallerRequest, Context, Kind, PeerInfo,
    Principal, Reply, Router, ServerId, Stack, keep_alive,
};
use mgp_types::{ErrorCode, Object, Payload, RpcError};
use tokio::time::{Instant, sleep};
use tower::ServiceBuilder;
use tower_service::Service;

use super::asked_questions::AskedQuestions;
use super::callbacks::{self, CallbackHandler};
use super::question_progress::progress_outlet;
use super::task_callers::TaskCallers;
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
    pub(crate) server: Option<ServerId>,
    /// The party that answers callbacks; `None` if the user's own handlers receive them like other notifications.
    pub(crate) callbacks: Option<CallbackHandler>,
}

/// A function that returns the caller to ask a server's question that belongs to no call; it receives the request's
/// method.
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
        // This layer drops a question that the server withdraws, which also withdraws the question at the caller.
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
            // Pass the message to a router without routes, which handles it as a message of an unknown method.
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
        let InboundParts { own, asks, unattributed, server, .. } = &mut self.0;
        let method = call.method().as_str();
        if own.methods().any(|known| known == method) {
            if !is_question(method) {
                return own.call(call);
            }
            // Pause the time-outs of the server's calls, because the server does not control how long the client takes
            // to answer.
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
                let asked = call.cx().scope.state::<AskedQuestions>();
                if !asks.accepts(method) {
                    let refused = not_offered(method);
                    asked.log_refused(server.as_ref(), method, None, &refused);
                    return Box::pin(ready(Err(refused)));
                }
                let (unattributed, server) = (unattributed.clone(), server.clone());
                let mut origin = attribute(&call, unattributed.as_ref());
                Box::pin(async move {
                    if origin.is_err() && asked.give_up_old(|left| is_clear_without(&call, left)) {
                        origin = attribute_later(&call, unattributed.as_ref()).await;
                    }
                    let caller = origin.as_ref().ok().map(|cx| cx.principal.clone());
                    let passed = async { pass_to_callers(origin?, &call, &asked).await }.await;
                    let answer = passed.inspect_err(|why| {
                        let (server, method) = (server.as_ref(), call.method().as_str());
                        asked.log_refused(server, method, caller.as_ref(), why);
                    });
                    answer?.map(Reply::raw)
                })
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

/// Finds the caller to which a server's request belongs (MCP elicitation, sampling, roots).
///
/// Over HTTP the request arrives on the stream of one call, and the request's peer knows only that call. A request that
/// names its legacy task is for the caller of that task. Any other request on stdio names no call. It is attributed to
/// a caller only if all calls in flight, and all calls that wait for a legacy task, have the same principal and come
/// from the same connection or session; otherwise one caller could see another's question. Calls that the client itself
/// makes do not count. Among several such calls, a call without an open question is chosen, because the caller of an
/// open question may never return with the answer. If all of them have open questions, and another call is in flight
/// whose caller answers no questions, the request is refused, because it may belong to that call. If no call is in
/// flight or waits, `unattributed` finds the caller.
pub(super) fn attribute(
    request: &Call,
    unattributed: Option<&FindCaller>,
) -> Result<Context, RpcError> {
    let answers_none = || {
        ask_refused("the client that made the call answers no questions; go on without an answer")
    };
    if let Some(named) = caller_of_named_task(request) {
        return if is_askable(&named) { Ok(named) } else { Err(answers_none()) };
    }
    let calls = calls_of_callers(request.cx());
    let mut callers = calls.iter();
    let askable: Vec<_> = callers.clone().filter(|call| is_askable(call)).collect();
    let (Some(first), Some(last)) = (askable.first(), askable.last()) else {
        // Refuse the request if a call is in flight, because it may belong to that call even if its caller cannot be
        // asked.
        if callers.next().is_some() {
            return Err(answers_none());
        }
        return unattributed
            .and_then(|FindCaller(find)| find(request.method().as_str()))
            .ok_or_else(|| ask_refused("no call is in flight whose caller could be asked"));
    };
    if callers.clone().any(|call| call.principal != first.principal) {
        return Err(ask_refused(
            "several callers have calls at the server, running or with a question that is not answered yet: it is \
             ambiguous which one the question is for; `isolation = \"per_agent\"` gives each an instance of its own",
        ));
    }
    let all = calls.len();
    // One principal may use two hosts; a question must reach the host that made the call.
    if callers.any(|call| !first.scope.may_be_one_client(&call.scope)) {
        return Err(ask_refused(
            "several clients of one caller have calls in flight: it is ambiguous which one the question is for",
        ));
    }
    match askable.iter().find(|call| can_ask_now(call)) {
        Some(chosen) => Ok(Context::clone(chosen)),
        None if all > askable.len() => Err(answers_none()),
        None => Ok(Context::clone(last)),
    }
}

/// Returns the contexts of all calls in flight, and of all calls that wait for a legacy task. Leaves out calls that the
/// client itself makes.
fn calls_of_callers(cx: &Context) -> Vec<Context> {
    let in_flight = cx.peer.all_in_flight().into_iter().map(|call| call.cx);
    // A question on the stream of a call belongs to that call, even while other calls wait for tasks. So leave out
    // these other calls.
    let is_clear = cx.peer.is_of_one_request();
    let waiting = if is_clear { Vec::new() } else { cx.scope.state::<TaskCallers>().all() };
    in_flight.chain(waiting).filter(|call| !is_own(call, cx)).collect()
}

/// Returns the context of the call whose legacy task a request of the server names; `None` unless exactly one caller
/// waits for that task.
fn caller_of_named_task(request: &Call) -> Option<Context> {
    let cx = request.cx();
    if cx.peer.is_of_one_request() {
        return None;
    }
    let meta: Object = request.params().meta()?.get().ok()?;
    let named: TaskParams = meta.decode(key::RELATED_TASK).ok()??;
    let caller = cx.scope.state::<TaskCallers>().of_task(&named.task_id)?;
    (!is_own(&caller, cx)).then_some(caller)
}

/// Returns whether the client itself made a call on its connection.
fn is_own(call: &Context, connection: &Context) -> bool {
    call.scope.id() == connection.scope.id() && !is_askable(call)
}

fn is_askable(call: &Context) -> bool {
    !matches!(call.caller_access, CallerAccess::Unavailable)
}

/// Returns whether a question of the server can belong to only one caller once the calls of the principals in `left`
/// have ended.
fn is_clear_without(request: &Call, left: &[Principal]) -> bool {
    let calls = calls_of_callers(request.cx());
    let mut others = calls.iter().map(|call| &call.principal).filter(|one| !left.contains(one));
    let first = others.next();
    others.all(|other| Some(other) == first)
}

/// The time that a server gets to end a call whose question was given up, and the interval between checks for this.
const END_TIME: Duration = Duration::from_secs(2);
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Finds the caller as [`attribute`] does, once the server has ended the calls whose questions were given up, but waits
/// at most for [`END_TIME`].
async fn attribute_later(
    request: &Call,
    unattributed: Option<&FindCaller>,
) -> Result<Context, RpcError> {
    let until = Instant::now() + END_TIME;
    loop {
        sleep(CHECK_INTERVAL).await;
        let found = attribute(request, unattributed);
        if found.is_ok() || Instant::now() >= until {
            return found;
        }
    }
}

/// Returns whether a question would reach the caller of a call immediately.
fn can_ask_now(cx: &Context) -> bool {
    match &cx.caller_access {
        CallerAccess::Channel(asker) => asker.can_ask_now(),
        _ => true,
    }
}

fn ask_refused(why: &'static str) -> RpcError {
    RpcError::new(ErrorCode::PERMISSION_DENIED, why)
}

/// The number of calls of one client with which a question is asked, one after the other.
const MAX_CALLS_TO_ASK: usize = 8;

/// Asks a caller a question of the server as [`pass_on`] does. If the server answers the chosen call first, the
/// question belongs to another call of the same client, so asks it with that call.
async fn pass_to_callers(
    mut origin: Context,
    call: &Call,
    asked: &Arc<AskedQuestions>,
) -> Result<Result<Payload, RpcError>, RpcError> {
    let is_certain = caller_of_named_task(call).is_some();
    for _ in 1..MAX_CALLS_TO_ASK {
        let answer = pass_on(origin.clone(), call, asked).await;
        let (Err(error) | Ok(Err(error))) = &answer else { return answer };
        let is_open = error.code() == ErrorCode::TIMEOUT && OpenQuestion::is_call_answered(&origin);
        match other_call(&origin, call) {
            Some(other) if is_open && !is_certain => origin = other,
            _ => return answer,
        }
    }
    pass_on(origin, call, asked).await
}

/// Finds another call in flight that a question can belong to, made by the same client as the call `answered`.
fn other_call(answered: &Context, question: &Call) -> Option<Context> {
    let other = attribute(question, None).ok()?;
    let is_same_client = other.principal == answered.principal
        && other.scope.may_be_one_client(&answered.scope)
        && !OpenQuestion::is_call_answered(&other);
    is_same_client.then_some(other)
}

/// Asks a caller a question of the server, and returns its answer or error. The question ends with the answer, with the
/// call to which it belongs, or when it is given up.
///
/// # Errors
/// The reason why the question did not reach the caller, or was given up.
async fn pass_on(
    origin: Context,
    call: &Call,
    asked: &Arc<AskedQuestions>,
) -> Result<Result<Payload, RpcError>, RpcError> {
    let params: Payload =
        if call.params().is_none() { Payload::empty_object() } else { call.params().get()? };
    let method = call.method().to_string();
    // The key contains the request's id on this connection. The key need not be stable, because a legacy server cannot
    // run the call again from the start.
    let key =
        call.cx().wire_id.as_ref().map_or_else(|| method.clone(), |id| format!("{method}#{id}"));
    let params = question_for_caller(origin.server.as_ref(), &method, &params);
    let ask = CallerRequest::new(method, params);
    offers(&origin.caller, origin.server.as_ref(), &ask)?;
    call.cx().scope.state::<UrlElicitations>().remember(&ask, &origin);
    let open = OpenQuestion::of(&origin);
    let asked = asked.add(&origin.principal);
    let is_offered = origin.caller.accepts.accepts(ask.method());
    let waiting = "waiting for the answer to a question of the server";
    let asking = origin.ask_with_progress(&key, ask, progress_outlet(call));
    tokio::select! {
        // Check for the answer first: if it has arrived at the same time as the end of the call, the answer counts.
        biased;
        answer = keep_alive(&origin.outlet, waiting, asking) => {
            if is_offered { Ok(answer) } else { answer.map(Ok) }
        }
        error = asked.given_up() => Err(error),
        () = OpenQuestion::call_dropped(open.as_ref()) => {
            Err(ask_refused("the call to which the question belongs was cancelled"))
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use mgp_types::Id;
    use mgp_types::mcp::Revision;
    use mgp_types::service::{
        CallerChannel, InFlight, Inbox, ItemReceiver, Link, Method, OutletItem, Params, Peer,
        QueueRoom, Scope, ScopeKind,
    };
    use mgp_types::sync::Mutex;

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

    /// The channel to a caller that answers each question immediately.
    struct Prompt;

    impl CallerChannel for Prompt {
        fn ask(&self, _: &str, _: CallerRequest) -> BoxFuture<'static, Result<Payload, RpcError>> {
            Box::pin(ready(Ok(Payload::empty_object())))
        }
    }

    /// A server to which these calls were sent.
    struct Server(Mutex<Vec<InFlight>>);

    impl Link for Server {
        fn send(&self, _: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
            Box::pin(std::future::pending())
        }

        fn all_in_flight(&self) -> Vec<InFlight> {
            self.0.lock().clone()
        }
    }

    fn channel() -> CallerAccess {
        CallerAccess::Channel(Arc::new(Prompt))
    }

    fn question(cx: Context) -> Call {
        Call::request(Method::from_static(ElicitationCreate::METHOD), Params::none(), cx)
    }

    fn in_flight(agent: &str, caller_access: CallerAccess) -> InFlight {
        let principal = Principal::local().agent(agent);
        let mut cx = Context::new(Peer::none(), Scope::new(ScopeKind::Request), principal);
        cx.caller_access = caller_access;
        let mut caller = PeerInfo::new(Revision::V2025_11_25);
        caller.capabilities = Some(Payload::from_trusted(r#"{"elicitation":{"form":{}}}"#));
        caller.accepts.elicitation = true;
        cx.caller = Arc::new(caller);
        InFlight { id: Id::Number(1), cx, inbox: Inbox::new(Arc::new(NoItems)) }
    }

    #[test]
    fn a_question_of_a_caller_that_answers_none_does_not_wait_for_a_caller_that_left() {
        let asked = |calls: Vec<InFlight>| {
            let peer = Peer::new(Arc::new(Server(Mutex::new(calls))));
            let cx = peer.context(&Scope::new(ScopeKind::Connection));
            attribute(&question(cx), None)
        };
        let left = in_flight("ann", CallerAccess::Channel(Arc::new(Left)));
        assert!(asked(vec![left.clone()]).is_ok());
        let silent = in_flight("ann", CallerAccess::Unavailable);
        assert_eq!(asked(vec![left, silent]).unwrap_err().code(), ErrorCode::PERMISSION_DENIED);
    }

    #[test]
    fn a_question_of_an_answered_call_is_passed_to_no_other_client() {
        let ann = in_flight("ann", channel()).cx;
        for (agent, is_asked) in [("ann", true), ("bob", false)] {
            let server = Server(Mutex::new(vec![in_flight(agent, channel())]));
            let cx = Peer::new(Arc::new(server)).context(&Scope::new(ScopeKind::Connection));
            let other = other_call(&ann, &question(cx));
            assert_eq!(other.is_some(), is_asked, "{agent}");
        }
    }

    /// Regression test: the questions of a task were refused. `FastMCP` refuses a request for the result of a task that
    /// runs, so no request is in flight while the client waits before it polls the task again.
    #[test]
    fn a_question_of_a_task_that_is_polled_belongs_to_its_caller() {
        let scope = Scope::new(ScopeKind::Connection);
        let peer = Peer::new(Arc::new(Server(Mutex::default())));
        let asked = || attribute(&question(peer.context(&scope)), None);
        let wait = |agent: &str| {
            let caller = in_flight(agent, channel()).cx;
            scope.state::<TaskCallers>().add(&caller)
        };
        assert!(asked().is_err());
        let ann = wait("ann");
        assert_eq!(asked().unwrap().principal, Principal::local().agent("ann"));
        let bob = wait("bob");
        assert_eq!(asked().unwrap_err().code(), ErrorCode::PERMISSION_DENIED);
        drop(ann);
        assert_eq!(asked().unwrap().principal, Principal::local().agent("bob"));
        drop(bob);
        assert!(asked().is_err());
    }

    /// Regression test: while tasks of two callers ran, the questions of both were refused, although the server named
    /// the task of each question, as servers on the official SDKs do.
    #[test]
    fn a_question_that_names_its_task_belongs_to_the_caller_of_that_task() {
        let scope = Scope::new(ScopeKind::Connection);
        let peer = Peer::new(Arc::new(Server(Mutex::default())));
        let asked = |task: &str| {
            let method = Method::from_static(ElicitationCreate::METHOD);
            let meta = format!(r#"{{"_meta":{{"{}":{{"taskId":"{task}"}}}}}}"#, key::RELATED_TASK);
            let params = Params::split(ElicitationCreate::METHOD, meta.into()).unwrap();
            let asked = attribute(&Call::request(method, params, peer.context(&scope)), None);
            asked.map(|cx| cx.principal).map_err(|error| error.code())
        };
        let wait = |agent: &str, access: CallerAccess, task: &str| {
            scope.state::<TaskCallers>().add_task(&in_flight(agent, access).cx, task)
        };
        let _ann = wait("ann", channel(), "1");
        let bob = wait("bob", channel(), "2");
        let _carl = wait("carl", CallerAccess::Unavailable, "3");
        assert_eq!(asked("1"), Ok(Principal::local().agent("ann")));
        assert_eq!(asked("2"), Ok(Principal::local().agent("bob")));
        for unclear in ["3", "4"] {
            assert_eq!(asked(unclear), Err(ErrorCode::PERMISSION_DENIED));
        }
        // The server gave the id to two tasks, so the id identifies neither caller.
        let _other = wait("bob", channel(), "1");
        assert_eq!(asked("1"), Err(ErrorCode::PERMISSION_DENIED));
        drop(bob);
        assert_eq!(asked("2"), Err(ErrorCode::PERMISSION_DENIED));
    }

    /// The stream on which a server answers one call over HTTP.
    struct Stream(InFlight);

    impl Link for Stream {
        fn send(&self, _: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
            Box::pin(std::future::pending())
        }

        fn all_in_flight(&self) -> Vec<InFlight> {
            vec![self.0.clone()]
        }

        fn is_of_one_request(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_question_on_the_stream_of_a_call_is_not_that_of_another_callers_task() {
        let scope = Scope::new(ScopeKind::Connection);
        let _ann = scope.state::<TaskCallers>().add(&in_flight("ann", channel()).cx);
        for (access, is_asked) in [(channel(), true), (CallerAccess::Unavailable, false)] {
            let peer = Peer::new(Arc::new(Stream(in_flight("bob", access))));
            let asked = attribute(&question(peer.context(&scope)), None);
            let asked = asked.ok().map(|cx| cx.principal);
            assert_eq!(asked, is_asked.then(|| Principal::local().agent("bob")));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_was_left_open_delays_those_of_other_callers_by_two_minutes_only() {
        let ann = in_flight("ann", CallerAccess::Channel(Arc::new(Left)));
        let bob = in_flight("bob", channel());
        let server = Arc::new(Server(Mutex::new(vec![ann])));
        let peer = Peer::new(Arc::clone(&server) as Arc<dyn Link>);
        let scope = Scope::new(ScopeKind::Connection);
        let (own, notices, mut asks) = (Router::new(), Router::new(), AcceptedRequests::default());
        asks.elicitation = true;
        let (unattributed, callbacks) = (None, None);
        let parts = InboundParts { own, notices, asks, unattributed, server: None, callbacks };
        let mut answers = Answers(parts);
        let form = r#"{"message":"?","requestedSchema":{}}"#;
        let mut ask = || {
            let method = Method::from_static(ElicitationCreate::METHOD);
            let params = Params::split(ElicitationCreate::METHOD, form.into()).unwrap();
            answers.answer(Call::request(method, params, peer.context(&scope)))
        };

        let mut first = ask();
        assert!(first.as_mut().now_or_never().is_none());
        server.0.lock().push(bob);
        assert_eq!(ask().await.unwrap_err().code(), ErrorCode::PERMISSION_DENIED);
        tokio::time::advance(Duration::from_mins(2)).await;
        // With a third caller, the question could still belong to two callers after the end of the first call.
        server.0.lock().push(in_flight("carl", channel()));
        assert_eq!(ask().await.unwrap_err().code(), ErrorCode::PERMISSION_DENIED);
        assert!(first.as_mut().now_or_never().is_none());
        server.0.lock().pop();
        let later = ask();
        let first = async {
            let given_up = first.await.unwrap_err();
            server.0.lock().remove(0);
            given_up.code()
        };
        let (first, later) = tokio::join!(first, later);
        assert_eq!(first, ErrorCode::TIMEOUT);
        assert!(later.is_ok(), "{later:?}");
    }
}
