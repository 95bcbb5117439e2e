//! Forwards a call from a caller to a server (the callee), for each pair of eras. In the modern era, a callee ends a
//! round by answering the call with questions, and the caller repeats the call with the answers.
//!
//! | caller | callee | a question of the callee |
//! |---|---|---|
//! | legacy | legacy | is a request, forwarded to the caller as a request |
//! | legacy | modern | ends a round: the caller is asked, and the call made again with the answer |
//! | modern | modern | ends a round on both sides; the callee's state is stored inside ours |
//! | modern | legacy | is a request: the call is parked until the caller returns with the answer |

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mgp_types::mcp::Era;
use mgp_types::service::{
    BoxFuture, Call, CallerAccess, CallerRequest, Context, InputRequired, Outlet, Peer, Reply,
    ServerId, Stack,
};
use mgp_types::{Object, Payload, RpcError, random_name};
use serde::{Deserialize, Serialize};

use super::answers::AnswerCache;
use super::parked::{ParkedCall, ParkedCalls, ParkedEvent, ParkedGuard, RoundGuard, RoundOutlet};
use super::task_waiter::TaskWaiter;
use crate::client::Client;
use crate::supervised::SupervisedClient;
use crate::wire::{CallerPeer, UrlElicitations};

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
        return send(client, client.forwarding(), call.forward(peer));
    }
    let (caller, scope) = (call.cx().clone(), client.scope().clone());
    if matches!(caller.caller_access, CallerAccess::Channel(_)) {
        call.cx_mut().extensions.insert(CallerPeer(caller.peer.clone()));
    }
    let sending = send(client, client.forwarding(), call.forward(peer));
    Box::pin(async move {
        let outcome = sending.await;
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
    let (stack, peer) = (client.forwarding().clone(), client.peer().clone());
    if let CallerAccess::Peer(_) = call.cx().caller_access {
        // A legacy caller stores no answers between rounds, so this hop stores them.
        let answer_cache = AnswerCache::new(call.cx().clone());
        call.cx_mut().caller_access = CallerAccess::Channel(Arc::new(answer_cache));
    }
    // Each round sends a copy of the call, so that the original remains unchanged. The copies are cheaper without the
    // hop-by-hop members, which each hop writes itself.
    call.params_mut().remove_hop_members();
    // Layers that record how a call ends must wait for its task, and so must a stop of the server.
    let _hold = TaskWaiter::add_to(&mut call, &client);
    let cx = call.cx();
    let logical = cx.logical.clone().unwrap_or_else(|| cx.key.to_text());
    let mut round: Option<Round> = match &cx.caller_access {
        CallerAccess::Channel(asker) => asker.kept(ROUND_KEY).and_then(|stored| stored.get().ok()),
        _ => None,
    };
    loop {
        let mut next = call.clone().forward(peer.clone());
        next.cx_mut().logical = Some(logical.clone());
        let mut number = 0;
        if let Some(round) = &round {
            let answers = Box::pin(round.answers(&server, &client, &parked_calls, cx)).await?;
            let hop = next.hop_mut();
            hop.input_responses = Some(Payload::of(&answers)?);
            hop.request_state = round.state.as_ref().map(Payload::of).transpose()?;
            number = round.number + 1;
        }
        let needed = match stack.send(next).await? {
            Reply::InputRequired(needed) if is_own(cx, &needed) => {
                return Box::pin(ask_own(cx, needed)).await;
            }
            Reply::InputRequired(needed) if needed.state.is_some() || !needed.asks.is_empty() => {
                needed
            }
            reply @ Reply::Task(_) => {
                // The caller expects a result; outer layers decide whether the caller receives a task.
                return Box::pin(client.await_task(cx, &reply, client.time_limits().max)).await;
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

// === Calls of modern callers to a legacy callee ===

/// The key under which the id of the parked call is stored between rounds of the caller.
const PARKED_KEY: &str = "hop.parked";

async fn send_parked(
    server: ServerId,
    client: Client,
    peer: Peer,
    parked_calls: ParkedCalls,
    call: Call,
) -> Result<Reply, RpcError> {
    let cx = call.cx().clone();
    let CallerAccess::Channel(asker) = cx.caller_access.clone() else {
        return send(&client, client.forwarding(), call.forward(peer)).await;
    };
    let (name, mut running) = if let Some(stored) = asker.kept(PARKED_KEY) {
        let name: String = stored.get()?;
        let running = parked_calls.take(&name, &cx.principal)?;
        (name, running)
    } else {
        let name = random_name()?;
        let outlet = Arc::new(RoundOutlet::new(cx.outlet.clone()));
        let sink = Arc::clone(&outlet);
        let start = |asker| {
            let mut forwarded = call.forward(peer);
            forwarded.cx_mut().caller_access = CallerAccess::Channel(asker);
            forwarded.cx_mut().outlet = Outlet::new(sink);
            // A parked call lasts longer than the trace span of its caller's request, so it has its own trace span.
            send(&client, client.stack(), forwarded)
        };
        (name, ParkedCall::start(cx.principal.clone(), start).with_outlet(outlet))
    };
    loop {
        running.set_outlet(cx.outlet.clone());
        let asks = match running.next().await {
            ParkedEvent::Done(outcome) => return outcome,
            ParkedEvent::Asks(asks) => asks,
        };
        // Store the call before asking the caller, because this future is dropped when the round ends.
        running.set_outlet(Outlet::none());
        let parked = ParkedGuard::put(&parked_calls, &name, running, &cx);
        asker.keep(PARKED_KEY, &Payload::of(&name)?);
        let answers = join_all(asks.into_iter().map(|(key, ask)| async {
            let answer = cx.ask_again(&upstream_key(&server, 0, &key, &[]), ask).await;
            (key, answer)
        }))
        .await;
        running = parked.take()?;
        for (key, answer) in answers {
            running.answer(&key, answer);
        }
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
