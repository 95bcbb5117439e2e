//! One hop: a call from one side is made on the other, in each pair of eras (DESIGN §3 E).
//!
//! | caller | callee | a question of the callee |
//! |---|---|---|
//! | legacy | legacy | is a request, passed on to the caller as one |
//! | legacy | modern | comes as a round: the caller is asked, and the call made again with the answer |
//! | modern | modern | comes as a round and goes up as one; the callee's state travels inside ours |
//! | modern | legacy | is a request: the call is parked while the caller fetches the answer |
//!
//! Applies to: outbound.

use std::fmt;
use std::sync::Arc;

use futures_util::future::join_all;
use mgp_types::mcp::{Era, LegacyCreateTaskResult};
use mgp_types::method::{PermissionRequest, Request as _};
use mgp_types::service::{
    Ask, Asking, BoxFuture, Call, Context, InputRequired, Peer, Reply, ServerId, Stack,
};
use mgp_types::{Object, Payload, RpcError, unguessable};
use serde::{Deserialize, Serialize};

use super::park::{Event, Park, Parked};
use super::remember::Remember;
use crate::client::Client;
use crate::supervised::SupervisedClient;
use crate::wire::suits;

/// The way to one server.
#[derive(Clone)]
pub struct Hop {
    server: ServerId,
    way: Way,
    park: Park,
}

/// What is behind a hop.
#[derive(Clone)]
enum Way {
    /// One connection.
    Client(Client),
    /// The present connection of a server that is started again.
    Supervised(SupervisedClient),
}

impl Hop {
    /// A hop over a connected client; `server` is the configured id, the server's identity everywhere.
    #[must_use]
    pub fn new(server: impl Into<ServerId>, client: Client) -> Self {
        Self { server: server.into(), way: Way::Client(client), park: Park::default() }
    }

    /// A hop to a server that is started again when it ends; calls that find none are refused behind its gates.
    #[must_use]
    pub fn supervised(server: impl Into<ServerId>, client: SupervisedClient) -> Self {
        Self { server: server.into(), way: Way::Supervised(client), park: Park::default() }
    }

    /// Calls that wait for an answer of their caller.
    #[must_use]
    pub fn parked(&self) -> usize {
        self.park.len()
    }

    /// Passes a call on.
    pub fn send(&self, mut call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        call.cx_mut().server = Some(self.server.clone());
        let client = match &self.way {
            Way::Client(client) => client.clone(),
            Way::Supervised(server) => match server.client() {
                Ok(client) => client,
                Err(_) => return server.stack().send(call.forward(Peer::none())),
            },
        };
        let (stack, peer, park) =
            (client.stack().clone(), client.peer().clone(), self.park.clone());
        let (above, below) = (call.cx().caller.era, client.server().era);
        match (above, below) {
            (Era::Legacy, Era::Legacy) => send(&client, &stack, call.forward(peer)),
            (_, Era::Modern) => Box::pin(in_rounds(self.server.clone(), client, call)),
            (Era::Modern, Era::Legacy) => {
                Box::pin(parked(self.server.clone(), client, stack, peer, park, call))
            }
        }
    }
}

impl fmt::Debug for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hop({})", self.server)
    }
}

/// The key under which a question of a callee goes up.
///
/// The callee chooses its keys, and answers count by their keys: with a name of ours before it, a question of a callee
/// never passes for one that a gate above asks, nor for one of another server.
/// A callee may use a key again in a later round for another question.
fn above(server: &ServerId, round: u32, key: &str) -> String {
    match round {
        0 => format!("hop.{server}.{key}"),
        round => format!("hop.{server}@{round}.{key}"),
    }
}

/// An extension of a call: if a legacy callee answers it with a task, the hop waits for the task's result.
#[derive(Clone, Copy, Debug)]
pub struct AwaitLegacyTask;

/// Makes a call of a legacy callee, and sees the task through that it asked for.
fn send(client: &Client, stack: &Stack, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
    if call.cx().extensions.get::<AwaitLegacyTask>().is_none() {
        return stack.send(call);
    }
    let (client, cx, sending) = (client.clone(), call.cx().clone(), stack.send(call));
    Box::pin(async move {
        let reply = sending.await?;
        match reply.get::<LegacyCreateTaskResult>() {
            Ok(created) => {
                let max = client.allowance().max;
                client.see_legacy_through(&cx, created.task, max).await
            }
            Err(_) => Ok(reply),
        }
    })
}

// === A modern callee ===

/// Under which name the callee's last round is kept between rounds of the caller.
const ROUND: &str = "hop.round";

/// The callee's last round: what it asked, and the state it wants back.
#[derive(Serialize, Deserialize)]
struct Round {
    number: u32,
    asks: Vec<Question>,
    state: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Question {
    key: String,
    method: String,
    params: Payload,
}

impl Round {
    fn of(number: u32, needed: InputRequired) -> Self {
        let asks = needed.asks.into_iter().map(|(key, ask)| Question {
            key,
            method: ask.method().to_owned(),
            params: ask.params().clone(),
        });
        Self { number, asks: asks.collect(), state: needed.state }
    }

    /// Gets all answers; a modern caller suspends here until its next round.
    async fn answers(
        &self,
        server: &ServerId,
        client: &Client,
        cx: &Context,
    ) -> Result<Object, RpcError> {
        let asking = self.asks.iter().map(|question| async {
            let ask = Ask::new(question.method.clone(), question.params.clone());
            if question.method == PermissionRequest::METHOD {
                // What a server may do is never decided by whoever calls it.
                let answer = client.answer_for(&cx.principal, &ask).await;
                return answer.map(|answer| (question.key.clone(), answer));
            }
            suits(&cx.caller, &ask)?;
            let key = above(server, self.number, &question.key);
            cx.ask_afresh(&key, ask).await.map(|answer| (question.key.clone(), answer))
        });
        join_all(asking).await.into_iter().collect()
    }
}

async fn in_rounds(server: ServerId, client: Client, mut call: Call) -> Result<Reply, RpcError> {
    let (stack, peer) = (client.stack().clone(), client.peer().clone());
    if let Asking::Peer(_) = call.cx().asking {
        // A legacy caller keeps nothing between rounds, so this hop does.
        let remember = Remember::new(call.cx().clone());
        call.cx_mut().asking = Asking::Via(Arc::new(remember));
    }
    // Each round is a call of its own; this one stays as it came.
    let cx = call.cx();
    let logical = cx.logical.clone().unwrap_or_else(|| cx.key.to_text());
    let mut round: Option<Round> = match &cx.asking {
        Asking::Via(asker) => asker.kept(ROUND).and_then(|kept| kept.get().ok()),
        _ => None,
    };
    loop {
        let mut next = call.clone().forward(peer.clone());
        next.cx_mut().logical = Some(logical.clone());
        let mut number = 0;
        if let Some(round) = &round {
            let answers = Box::pin(round.answers(&server, &client, cx)).await?;
            let hop = next.hop_mut();
            hop.input_responses = Some(Payload::of(&answers)?);
            hop.request_state = round.state.as_ref().map(Payload::of).transpose()?;
            number = round.number + 1;
        }
        let needed = match stack.send(next).await? {
            Reply::InputRequired(needed) if needed.state.is_some() || !needed.asks.is_empty() => {
                needed
            }
            reply @ Reply::Task(_) => {
                // Whoever called asked for a result; a task of its own is the business of the layers above.
                return Box::pin(client.see_through(cx, &reply, client.allowance().max)).await;
            }
            reply => return Ok(reply),
        };
        // What a caller carries between its rounds counts too.
        if number >= client.max_rounds() {
            return Err(client.asked_too_often());
        }
        let asked = Round::of(number, needed);
        if let Asking::Via(asker) = &cx.asking {
            asker.keep(ROUND, &Payload::of(&asked)?);
        }
        round = Some(asked);
    }
}

// === A legacy callee of a modern caller ===

/// Under which name the name of the parked call is kept between rounds.
const PARKED: &str = "hop.parked";

async fn parked(
    server: ServerId,
    client: Client,
    stack: Stack,
    peer: Peer,
    park: Park,
    call: Call,
) -> Result<Reply, RpcError> {
    let cx = call.cx().clone();
    let Asking::Via(asker) = cx.asking.clone() else {
        return send(&client, &stack, call.forward(peer)).await;
    };
    let (name, mut running) = if let Some(kept) = asker.kept(PARKED) {
        let name: String = kept.get()?;
        let running = park.take(&name, &cx.principal)?;
        (name, running)
    } else {
        let name = unguessable()?;
        let start = |asker| {
            let mut forwarded = call.forward(peer);
            forwarded.cx_mut().asking = Asking::Via(asker);
            send(&client, &stack, forwarded)
        };
        (name, Parked::start(cx.principal.clone(), start))
    };
    loop {
        let asks = match running.next().await {
            Event::Done(outcome) => return outcome,
            Event::Asks(asks) => asks,
        };
        // While the caller is asked the call waits in the table: this future is dropped when the round ends.
        park.put(&name, running)?;
        asker.keep(PARKED, &Payload::of(&name)?);
        let answers = join_all(asks.into_iter().map(|(key, ask)| async {
            let answer = cx.ask_afresh(&above(&server, 0, &key), ask).await;
            (key, answer)
        }))
        .await;
        running = park.take(&name, &cx.principal)?;
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
        let mut above = mock::client(Stack::from_fn(move |call| hop.send(call)));
        let error = above.request("tools/call", r#"{"name":"a"}"#).await.unwrap_err();
        assert!(error.message().contains("asked back more than 16 times"), "{error}");
    }
}
