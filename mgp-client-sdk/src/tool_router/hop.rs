//! Forwards a call from a caller to a server (the callee), for each pair of eras. In the modern era, a callee ends a
//! round by answering the call with questions, and the caller repeats the call with the answers.
//!
//! | caller | callee | a question of the callee |
//! |---|---|---|
//! | legacy | legacy | is a request, forwarded to the caller as a request |
//! | legacy | modern | ends a round: the caller is asked, and the call made again with the answer |
//! | modern | modern | ends a round on both sides; the callee's state is stored inside ours |
//! | modern | modern | of a task: the call is parked until the caller returns with the answer |
//! | modern | legacy | is a request: the call is parked until the caller returns with the answer |
//! | modern | legacy | is error −32042, which names pages: parked too, and sent again after the answer |

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mgp_lifecycle::TaskTicket;
use mgp_types::mcp::Era;
use mgp_types::service::{
    BoxFuture, Call, CallerAccess, CallerChannel, CallerRequest, Context, InputRequired, Outlet,
    Peer, Recheck, Reply, ServerId, Stack,
};
use mgp_types::{ErrorCode, Object, Payload, RpcError, random_name};
use serde::{Deserialize, Serialize};

use super::answers::AnswerCache;
use super::parked::{ParkedCall, ParkedCalls, ParkedEvent, ParkedGuard, RoundGuard};
use super::round_channel::RoundChannel;
use super::round_outlet::RoundOutlet;
use super::task_waiter::TaskWaiter;
use crate::client::Client;
use crate::supervised::{SupervisedClient, TaskHold};
use crate::wire::{CallerPeer, UrlElicitations, check_pages, required_pages};

/// A route to one server.
#[derive(Clone)]
pub struct Hop {
    server: ServerId,
    destination: Destination,
    parked_calls: ParkedCalls,
}

#[derive(Clone)]
enum Destination {
    /// A single connection to the server.
    Client(Client),
    /// The current connection to a supervised server.
    Supervised(SupervisedClient),
}

impl Hop {
    /// Creates a hop over a connected client; `server` is the configured id, which identifies the server in all
    /// records and decisions.
    #[must_use]
    pub fn new(server: impl Into<ServerId>, client: Client) -> Self {
        Self {
            server: server.into(),
            destination: Destination::Client(client),
            parked_calls: ParkedCalls::default(),
        }
    }

    /// Creates a hop to a supervised server. While the server is not connected, calls are refused only after its
    /// gates have checked and recorded them.
    #[must_use]
    pub fn supervised(server: impl Into<ServerId>, client: SupervisedClient) -> Self {
        Self {
            server: server.into(),
            destination: Destination::Supervised(client),
            parked_calls: ParkedCalls::default(),
        }
    }

    /// Sets how long callers have to answer questions of the server. Default: 15 minutes.
    #[must_use]
    pub fn answer_timeout(self, at_most: Duration) -> Self {
        self.parked_calls.set_ttl(at_most);
        self
    }

    /// Returns the number of calls that wait for an answer of their modern caller.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.parked_calls.len()
    }

    /// Returns whether a request of a modern caller carries the answer to a question of a call that was parked. Such a
    /// call continues without passing the gates again; the decision of its gates is only checked again, for the call as
    /// it began, but with the credentials of the request.
    #[must_use]
    pub fn is_continued(cx: &Context) -> bool {
        cx.caller_access.channel().and_then(parked_name).is_some()
    }

    /// Cancels the call that waits for the answer which a request of its modern caller carries, e.g. because the caller
    /// has lost its access meanwhile. Sent afterwards, the request passes all gates, as a new call.
    pub fn end_parked(&self, cx: &Context) {
        let CallerAccess::Channel(asker) = &cx.caller_access else { return };
        let parked_calls = &self.parked_calls;
        let caller = RoundsCaller { cx, asker: Arc::clone(asker), parked_calls };
        if caller.parked().is_some_and(|name| parked_calls.end(&name, &cx.principal)) {
            caller.forget_parked();
        }
    }

    /// Forwards a call to the server, and translates between the eras of the caller and the server.
    pub fn send(&self, mut call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        call.cx_mut().server = Some(self.server.clone());
        let client = match &self.destination {
            Destination::Client(client) => client.clone(),
            Destination::Supervised(server) => match server.client() {
                Ok(client) => client,
                Err(_) => return server.stack().send(call.forward(Peer::none())),
            },
        };
        let peer = client.peer().clone();
        let (caller_era, callee_era) = (call.cx().caller.era, client.server().era);
        let parked_calls = || self.parked_calls.clone();
        match (caller_era, callee_era) {
            (Era::Legacy, Era::Legacy) => send_legacy(&client, peer, call),
            (_, Era::Modern) => {
                Box::pin(request_in_rounds(self.server.clone(), client, parked_calls(), call))
            }
            (Era::Modern, Era::Legacy) => {
                Box::pin(send_parked(self.server.clone(), client, peer, parked_calls(), call))
            }
        }
    }
}

mgp_types::opaque_debug!(Hop { server });

/// The maximum length in bytes of a callee's key that is passed on unchanged.
const MAX_KEY_BYTES: usize = 64;

/// Returns the key under which a callee's question is asked of the caller.
///
/// The callee chooses its keys, and answers are matched by key. A key that is a plain word is passed on unchanged,
/// unless an earlier round of the call used it; the keys of gates contain a dot, so they differ. Any other key gets a
/// prefix, so that a callee can neither read the answer to a gate's question nor get an old answer for a new question.
fn upstream_key(server: &ServerId, round: u32, key: &str, earlier: &[String]) -> String {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_plain = !key.is_empty() && key.len() <= MAX_KEY_BYTES && key.bytes().all(is_word);
    if is_plain && !earlier.iter().any(|used| used == key) {
        return key.to_owned();
    }
    match round {
        0 => format!("hop.{server}.{key}"),
        round => format!("hop.{server}@{round}.{key}"),
    }
}

/// A mark in the extensions of a call: if a legacy callee answers the call with a task, the hop waits for the task's
/// result.
#[derive(Clone, Copy, Debug)]
pub struct AwaitLegacyTask;

/// Sends a call to a legacy callee, and waits for its task if that was requested.
fn send(
    client: &Client,
    stack: &Stack,
    mut call: Call,
) -> BoxFuture<'static, Result<Reply, RpcError>> {
    if call.cx().extensions.get::<AwaitLegacyTask>().is_none() {
        return stack.send(call);
    }
    let waiter = TaskWaiter::new(client, call.cx());
    call.cx_mut().extensions.insert(waiter.clone());
    let sending = stack.send(call);
    Box::pin(async move { waiter.result(sending.await?).await })
}

/// Sends a call of a legacy caller to a legacy callee. The callee can refuse the call because the user must first visit
/// a page; then a caller that can show pages is stored, so that it can be notified when the user has done so.
fn send_legacy(
    client: &Client,
    peer: Peer,
    mut call: Call,
) -> BoxFuture<'static, Result<Reply, RpcError>> {
    if !call.cx().caller.accepts.elicitation {
        let server = call.cx().server.clone();
        let sending = send(client, client.forwarding(), call.forward(peer));
        return Box::pin(async move {
            sending.await.map_err(|error| check_pages(error, server.as_ref()))
        });
    }
    let (caller, scope) = (call.cx().clone(), client.scope().clone());
    if matches!(caller.caller_access, CallerAccess::Channel(_)) {
        call.cx_mut().extensions.insert(CallerPeer(caller.peer.clone()));
    }
    let sending = send(client, client.forwarding(), call.forward(peer));
    Box::pin(async move {
        let server = caller.server.as_ref();
        let outcome = sending.await.map_err(|error| check_pages(error, server));
        if let Err(error) = &outcome {
            scope.state::<UrlElicitations>().remember_refusal(error, &caller);
        }
        outcome
    })
}

// === A modern callee ===

/// The key under which the callee's last round is stored between rounds of the caller.
const ROUND_KEY: &str = "hop.round";

/// A round of the callee: its questions, and the state that the callee expects to receive back.
#[derive(Serialize, Deserialize)]
struct Round {
    number: u32,
    asks: Vec<Question>,
    state: Option<String>,
    /// The keys of questions in earlier rounds.
    #[serde(default)]
    earlier: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Question {
    key: String,
    method: String,
    params: Payload,
}

impl Round {
    fn of(number: u32, needed: InputRequired, last: Option<Self>) -> Self {
        let mut earlier = Vec::new();
        if let Some(last) = last {
            earlier = last.earlier;
            earlier.extend(last.asks.into_iter().map(|question| question.key));
        }
        let asks = needed.asks.into_iter().map(|(key, ask)| Question {
            key,
            method: ask.method().to_owned(),
            params: ask.params().clone(),
        });
        Self { number, asks: asks.collect(), state: needed.state, earlier }
    }

    /// Collects the answers to all questions. With a modern caller, the call ends here and continues in its next
    /// round.
    async fn answers(
        &self,
        server: &ServerId,
        client: &Client,
        waiting: &ParkedCalls,
        cx: &Context,
    ) -> Result<Object, RpcError> {
        // Record the call before asking a modern caller, because this future is dropped when the round ends.
        let logical = cx.logical.as_deref().filter(|_| cx.caller.era == Era::Modern);
        let _open = logical.map(|logical| RoundGuard::open(waiting, logical, cx));
        let asking = self.asks.iter().map(|question| async {
            let ask = CallerRequest::new(question.method.clone(), question.params.clone());
            let key = upstream_key(server, self.number, &question.key, &self.earlier);
            let answer = client.answer_for_caller(cx, &key, &ask).await;
            answer.map(|answer| (question.key.clone(), answer))
        });
        join_all(asking).await.into_iter().collect()
    }
}

async fn request_in_rounds(
    server: ServerId,
    client: Client,
    parked_calls: ParkedCalls,
    mut call: Call,
) -> Result<Reply, RpcError> {
    let peer = client.peer().clone();
    if let CallerAccess::Peer(_) = call.cx().caller_access {
        // A legacy caller stores no answers between rounds, so this hop stores them.
        let answer_cache = AnswerCache::new(call.cx().clone());
        call.cx_mut().caller_access = CallerAccess::Channel(Arc::new(answer_cache));
    }
    // Each round sends a copy of the call, so that the original remains unchanged. The copies are cheaper without the
    // hop-by-hop members, which each hop writes itself.
    call.params_mut().remove_hop_members();
    let cx = call.cx();
    let caller = RoundsCaller::of(cx, &parked_calls);
    let mut parked = caller.as_ref().and_then(RoundsCaller::parked);
    let logical = cx.logical.clone().unwrap_or_else(|| cx.key.to_text());
    let stored = cx.caller_access.channel().and_then(|asker| asker.kept(ROUND_KEY));
    let mut round: Option<Round> = stored.and_then(|stored| stored.get().ok());
    loop {
        let mut next = call.clone();
        // Layers that record how a call ends must wait for its task, and so must a stop of the server.
        let hold = TaskWaiter::add_to(&mut next, &client);
        let mut next = next.forward(peer.clone());
        next.cx_mut().logical = Some(logical.clone());
        let number = round.as_ref().map_or(0, |round| round.number + 1);
        // A parked call has been sent in an earlier round of the caller.
        if let (Some(round), None) = (&round, &parked) {
            let answers = Box::pin(round.answers(&server, &client, &parked_calls, cx)).await?;
            let hop = next.hop_mut();
            hop.input_responses = Some(Payload::of(&answers)?);
            hop.request_state = round.state.as_ref().map(Payload::of).transpose()?;
        }
        let sending = send_round(&client, cx, caller.as_ref(), next, hold, parked.take());
        let needed = match sending.await? {
            Reply::InputRequired(needed) if is_own(cx, &needed) => {
                return Box::pin(ask_own(cx, needed)).await;
            }
            Reply::InputRequired(needed) if needed.state.is_some() || !needed.asks.is_empty() => {
                needed
            }
            reply => return Ok(reply),
        };
        // `number` also counts the rounds that the callee asked during the caller's earlier requests for this call.
        if number >= client.max_rounds() {
            return Err(client.too_many_rounds());
        }
        let latest = Round::of(number, needed, round.take());
        if let CallerAccess::Channel(asker) = &cx.caller_access {
            asker.keep(ROUND_KEY, &Payload::of(&latest)?);
        }
        round = Some(latest);
    }
}

/// Sends a call to a modern callee, or continues the parked call with the id `parked`. If the call is a task, waits for
/// the task: the caller expects a result, and outer layers decide whether the caller receives a task.
async fn send_round(
    client: &Client,
    cx: &Context,
    caller: Option<&RoundsCaller<'_>>,
    call: Call,
    hold: Option<TaskHold>,
    parked: Option<String>,
) -> Result<Reply, RpcError> {
    let outcome = match caller {
        Some(caller) if parked.is_some() || hold.is_some() => {
            Box::pin(caller.send(client, call, hold, parked)).await
        }
        _ => match client.forwarding().send(call).await {
            Ok(reply @ Reply::Task(_)) => Box::pin(client.await_task(cx, &reply)).await,
            outcome => outcome,
        },
    };
    outcome.map_err(|error| check_pages(error, cx.server.as_ref()))
}

/// Returns whether these questions come from layers of the stack to the callee (e.g. gates, or the wait for a task),
/// and not from the callee. Such questions already have the keys under which the caller was asked.
fn is_own(cx: &Context, needed: &InputRequired) -> bool {
    let CallerAccess::Channel(asker) = &cx.caller_access else { return false };
    !needed.asks.is_empty() && needed.asks.iter().all(|(key, _)| asker.has_asked(key))
}

/// Asks the caller the questions of layers of this process. This ends the caller's round; with its next round, the
/// caller repeats the call, and the layers find the answers.
async fn ask_own(cx: &Context, needed: InputRequired) -> Result<Reply, RpcError> {
    let CallerAccess::Channel(asker) = &cx.caller_access else {
        return Ok(Reply::InputRequired(needed));
    };
    let asks = needed.asks.into_iter().map(|(key, ask)| asker.ask(&key, ask));
    join_all(asks).await;
    Err(RpcError::internal("the round of a call did not end with its questions"))
}

// === Parked calls of modern callers ===

/// The key under which the id of the parked call is stored between rounds of the caller.
const PARKED_KEY: &str = "hop.parked";

/// Returns the id of the call that is parked since an earlier round.
fn parked_name(asker: &dyn CallerChannel) -> Option<String> {
    asker.kept(PARKED_KEY)?.get().ok()?
}

/// A modern caller that answers questions with its next request.
struct RoundsCaller<'a> {
    cx: &'a Context,
    asker: Arc<dyn CallerChannel>,
    parked_calls: &'a ParkedCalls,
}

impl<'a> RoundsCaller<'a> {
    /// Returns the caller of a call to a modern callee; `None` if the caller answers questions of the callee's task
    /// during its own request, or in a task of this process.
    fn of(cx: &'a Context, parked_calls: &'a ParkedCalls) -> Option<Self> {
        let CallerAccess::Channel(asker) = &cx.caller_access else { return None };
        let answers_later = cx.caller.era == Era::Modern && TaskTicket::of(cx).is_none();
        answers_later.then(|| Self { cx, asker: Arc::clone(asker), parked_calls })
    }

    /// Returns the id of the call that is parked since an earlier round.
    fn parked(&self) -> Option<String> {
        parked_name(&*self.asker)
    }

    /// Takes a parked call out of the table; fails if the gates no longer admit it with the credentials of the request.
    fn take(&self, name: &str) -> Result<ParkedCall, RpcError> {
        let call = self.parked_calls.take(name, &self.cx.principal)?;
        call.recheck.run(self.cx).map(|()| call)
    }

    fn forget_parked(&self) {
        self.asker.keep(PARKED_KEY, &Payload::from_trusted("null"));
    }

    /// Sends a call, or continues the parked one, and waits for its task. The call is parked while the task asks, so
    /// that the caller's next round continues this task, and does not start another one.
    async fn send(
        &self,
        client: &Client,
        mut call: Call,
        hold: Option<TaskHold>,
        parked: Option<String>,
    ) -> Result<Reply, RpcError> {
        let running = if let Some(name) = &parked {
            self.take(name)?
        } else {
            let outlet = Arc::new(RoundOutlet::new(self.cx));
            let channel = Arc::new(RoundChannel::new(Arc::clone(&self.asker)));
            let (sink, own) = (Arc::clone(&outlet), Arc::clone(&channel));
            let recheck = Recheck::default();
            call.cx_mut().extensions.insert(recheck.clone());
            let start = |asker| -> BoxFuture<'static, Result<Reply, RpcError>> {
                // Layers that ask before the call is a task use the caller's own channel, which ends the round.
                let mut cx = self.cx.clone();
                (cx.caller_access, cx.outlet) = (CallerAccess::Channel(asker), Outlet::new(sink));
                call.cx_mut().outlet = cx.outlet.clone();
                call.cx_mut().caller_access = CallerAccess::Channel(own);
                let waiter = TaskWaiter::new(client, &cx);
                call.cx_mut().extensions.insert(waiter.clone());
                let sending = client.forwarding().send(call);
                Box::pin(async move {
                    let _hold = hold;
                    waiter.result(sending.await?).await
                })
            };
            let call = ParkedCall::inline(self.cx.principal.clone(), start);
            let mut call = call.with(outlet, recheck);
            call.channel = Some(channel);
            call
        };
        self.finish(running, parked, None).await
    }

    /// Waits for the end of a call, and parks it while it waits for answers of the caller. The keys of its questions
    /// stay as they are, or come from this server.
    async fn finish(
        &self,
        mut running: ParkedCall,
        mut name: Option<String>,
        server: Option<&ServerId>,
    ) -> Result<Reply, RpcError> {
        loop {
            running.outlet().set(self.cx.outlet.clone());
            let asks = match running.next().await {
                ParkedEvent::Done(outcome) => {
                    if name.is_some() {
                        // A later round of the caller must not look for a call that has ended.
                        self.forget_parked();
                        running.outlet().move_members(self.cx);
                    }
                    return outcome;
                }
                ParkedEvent::Asks(asks) => asks,
            };
            // Store the call before asking the caller, because this future is dropped when the round ends.
            running.outlet().set(Outlet::none());
            let known = name.take().map_or_else(random_name, Ok)?;
            let name: &str = name.insert(known);
            let parked = ParkedGuard::put(self.parked_calls, name, running, self.cx);
            self.asker.keep(PARKED_KEY, &Payload::of(name)?);
            let answers = asks.into_iter().map(|(asked, ask)| {
                let key = match server {
                    Some(server) => upstream_key(server, 0, &asked, &[]),
                    None => asked.clone(),
                };
                async move { (asked, self.cx.ask_again(&key, ask).await) }
            });
            let answers = join_all(answers).await;
            running = parked.take()?;
            for (key, answer) in answers {
                running.answer(&key, answer);
            }
        }
    }
}

async fn send_parked(
    server: ServerId,
    client: Client,
    peer: Peer,
    parked_calls: ParkedCalls,
    call: Call,
) -> Result<Reply, RpcError> {
    let cx = call.cx().clone();
    let CallerAccess::Channel(asker) = cx.caller_access.clone() else {
        let refused = match send(&client, client.forwarding(), call.forward(peer)).await {
            Err(error) => check_pages(error, cx.server.as_ref()),
            reply => return reply,
        };
        if let Some(page) = required_pages(&refused).and_then(|pages| pages.into_iter().next()) {
            client.ask_for_visit(&cx, (0, 0), page).await?;
        }
        return Err(refused);
    };
    let caller = RoundsCaller { cx: &cx, asker, parked_calls: &parked_calls };
    let name = caller.parked();
    let running = if let Some(name) = &name {
        caller.take(name)?
    } else {
        let outlet = Arc::new(RoundOutlet::new(&cx));
        let (sink, recheck) = (Arc::clone(&outlet), Recheck::default());
        let checks = recheck.clone();
        let start = |asker| -> BoxFuture<'static, Result<Reply, RpcError>> {
            let mut forwarded = call.forward(peer);
            forwarded.cx_mut().caller_access = CallerAccess::Channel(asker);
            forwarded.cx_mut().outlet = Outlet::new(sink);
            forwarded.cx_mut().extensions.insert(checks);
            Box::pin(send_until_visited(client, forwarded))
        };
        ParkedCall::start(cx.principal.clone(), start).with(outlet, recheck)
    };
    caller.finish(running, name, Some(&server)).await
}

/// Sends a parked call to a legacy callee. If the callee refuses it because the user must first visit pages (−32042),
/// asks the caller for the visits, as a modern callee does, and sends the call again.
async fn send_until_visited(client: Client, call: Call) -> Result<Reply, RpcError> {
    let mut round = 0;
    loop {
        // A parked call lasts longer than the trace span of its caller's request, so it has its own trace span.
        let refused = match send(&client, client.stack(), call.clone()).await {
            Err(error) => check_pages(error, call.cx().server.as_ref()),
            reply => return reply,
        };
        let Some(pages) = required_pages(&refused) else { return Err(refused) };
        if round >= client.max_rounds() || pages.is_empty() {
            return Err(RpcError::new(ErrorCode::UPSTREAM_ERROR, refused.message().to_owned()));
        }
        let cx = call.cx();
        let visits = pages.into_iter().enumerate();
        let asking = visits.map(|(at, page)| client.ask_for_visit(cx, (round, at), page));
        join_all(asking).await.into_iter().collect::<Result<(), _>>()?;
        round += 1;
    }
}

#[cfg(test)]
mod tests {
    use mgp_lifecycle::{HandshakeLayer, ServerOffer};
    use mgp_types::mcp::Implementation;
    use mgp_types::service::mock;
    use tower_layer::Layer as _;

    use super::*;
    use crate::test_client::TestClient;

    #[test]
    fn a_callee_cannot_take_the_key_of_a_gate_or_of_an_earlier_round() {
        let earlier = ["name".to_owned()];
        for (round, key, expected) in [
            (0, "user_name", "user_name"),
            (1, "colour", "colour"),
            (1, "name", "hop.s@1.name"),
            (0, "mgp.confirm.1", "hop.s.mgp.confirm.1"),
            (0, "task.a", "hop.s.task.a"),
            (0, "hop.s.a", "hop.s.hop.s.a"),
            (0, "", "hop.s."),
            (0, "é", "hop.s.é"),
        ] {
            assert_eq!(upstream_key(&"s".into(), round, key, &earlier), expected, "{key}");
        }
    }

    #[tokio::test]
    async fn a_callee_that_always_wants_one_more_round_comes_to_an_end() {
        let endless = Stack::from_fn(|_| async {
            let state = Some("more".to_owned());
            Ok(Reply::InputRequired(InputRequired { asks: Vec::new(), state }))
        });
        let offer = ServerOffer::new(Implementation::new("endless", "1"));
        let server = Stack::new(HandshakeLayer::new(offer).layer(endless));
        let client = TestClient::modern(server).await;
        let hop = Hop::new("endless", (*client).clone());
        let mut caller = mock::client(Stack::from_fn(move |call| hop.send(call)));
        let error = caller.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
        assert!(error.message().contains("more than 16 rounds"), "{error}");
    }
}
