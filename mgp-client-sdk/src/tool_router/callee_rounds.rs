//! Calls to a modern callee. A callee ends a round of the call by returning questions, and receives the answers with
//! the next round.

use std::sync::Arc;

use futures_util::future::join_all;
use mgp_types::mcp::Era;
use mgp_types::service::{
    Call, CallerAccess, CallerRequest, Context, InputRequired, Reply, ServerId,
};
use mgp_types::{Object, Payload, RpcError};
use serde::{Deserialize, Serialize};

use super::answers::AnswerCache;
use super::parked_calls::{ParkedCalls, RoundGuard};
use super::rounds_caller::RoundsCaller;
use super::task_waiter::TaskWaiter;
use crate::client::Client;
use crate::supervised::TaskHold;
use crate::wire::check_pages;

/// The key of the callee's last round in the state that is kept between rounds of the caller.
const ROUND_KEY: &str = "hop.round";

/// The maximum length in bytes of a callee's key that is passed on unchanged.
const MAX_KEY_BYTES: usize = 64;

/// Sends a call to a modern callee, and repeats it with the answers of the caller until the callee has no more
/// questions.
pub(super) async fn request_in_rounds(
    server: ServerId,
    client: Client,
    parked_calls: ParkedCalls,
    mut call: Call,
) -> Result<Reply, RpcError> {
    let peer = client.peer().clone();
    if let CallerAccess::Peer(_) = call.cx().caller_access {
        // A legacy caller sends no earlier answers again, so the router stores them for all rounds of the callee.
        let answer_cache = AnswerCache::new(call.cx().clone());
        call.cx_mut().caller_access = CallerAccess::Channel(Arc::new(answer_cache));
    }
    // Each round sends a copy of the call, so that the original remains unchanged. Remove the members that apply to one
    // connection only: each connection writes its own, and copies are cheaper without them.
    call.params_mut().remove_hop_members();
    let cx = call.cx();
    let caller = RoundsCaller::of(cx, &parked_calls);
    let mut parked = caller.as_ref().and_then(RoundsCaller::parked);
    let logical = cx.logical.clone().unwrap_or_else(|| cx.key.to_text());
    let stored = cx.caller_access.channel().and_then(|asker| asker.kept(ROUND_KEY));
    let mut round: Option<Round> = stored.and_then(|stored| stored.get().ok());
    loop {
        let mut next = call.clone();
        // Layers that record how a call ends must wait for its task. A stop of the server must wait for the task too.
        let hold = TaskWaiter::add_to(&mut next, &client);
        let mut next = next.forward(peer.clone());
        next.cx_mut().logical = Some(logical.clone());
        let number = round.as_ref().map_or(0, |round| round.number + 1);
        // Add the answers only to a call that is sent again. A parked call still runs since an earlier round, so it is
        // not sent again.
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

/// Returns the key for asking the caller a callee's question.
///
/// The callee chooses its keys, and answers are matched by key. A key that is a plain word is passed on unchanged,
/// unless an earlier round of the call used it; the keys of gates contain a dot, so they differ. Any other key gets a
/// prefix, so that a callee can neither read the answer to a gate's question nor get an old answer for a new question.
pub(super) fn upstream_key(server: &ServerId, round: u32, key: &str, earlier: &[String]) -> String {
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
/// and not from the callee. Such questions already have keys that the caller knows.
fn is_own(cx: &Context, needed: &InputRequired) -> bool {
    let CallerAccess::Channel(asker) = &cx.caller_access else { return false };
    !needed.asks.is_empty() && needed.asks.iter().all(|(key, _)| asker.has_asked(key))
}

/// Asks the caller the questions that layers of this process have. This ends the caller's round. With its next round,
/// the caller repeats the call, and the layers find the answers.
async fn ask_own(cx: &Context, needed: InputRequired) -> Result<Reply, RpcError> {
    let CallerAccess::Channel(asker) = &cx.caller_access else {
        return Ok(Reply::InputRequired(needed));
    };
    let asks = needed.asks.into_iter().map(|(key, ask)| asker.ask(&key, ask));
    join_all(asks).await;
    Err(RpcError::internal("the round of a call did not end with its questions"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
