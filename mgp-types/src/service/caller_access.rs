//! Questions to a legacy or modern caller while a call runs (MCP elicitation, sampling, roots).
//!
//! A legacy caller receives a request, and the handler waits for its answer. A modern caller cannot receive requests:
//! if an answer is not available, the question is suspended, and the call returns all suspended questions to the
//! caller. The caller repeats the call with the answers (the next round), which runs the handler again from the start.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as Task, Poll};

use super::question::{CallerRequest, InputRequired};
use super::reply::Reply;
use super::{BoxFuture, Peer};
use crate::sync::Mutex;
use crate::wire::{Payload, RpcError};

/// A channel for questions to the caller of one logical call.
// `ask` is not `async`, because the question must be registered for this round when `ask` is called, not when the
// future is first polled.
pub trait CallerChannel: Send + Sync {
    /// Asks a question; `key` identifies the question within the call, and must be equal in every round.
    fn ask(&self, key: &str, ask: CallerRequest) -> BoxFuture<'static, Result<Payload, RpcError>>;

    /// Discards the answer to a question if the caller sent the answer before the question was asked.
    fn forget_early(&self, _key: &str) {}

    /// Returns the value that an earlier round of the call stored under this key with [`keep`](Self::keep).
    fn kept(&self, _key: &str) -> Option<Payload> {
        None
    }

    /// Stores a value for later rounds of the call, in which [`kept`](Self::kept) returns it.
    fn keep(&self, _key: &str, _value: &Payload) {}

    /// Returns whether this round has already returned the question with this key to the caller as its reply.
    fn has_asked(&self, _key: &str) -> bool {
        false
    }

    /// Returns whether this round has already returned any questions to the caller as its reply. The call then has no
    /// result yet, and the caller is expected to repeat it with the answers.
    fn has_suspended(&self) -> bool {
        false
    }

    /// Returns whether a further question would reach the caller immediately. A channel whose call goes on while its
    /// questions are open returns `false` while one is open, and after the call has ended.
    fn can_ask_now(&self) -> bool {
        true
    }

    /// Removes the questions that wait to be asked, and returns them as the reply to the call; `None` if there are
    /// none.
    fn take_suspended(&self) -> Option<Reply> {
        None
    }
}

/// The way in which the caller of a call can be asked questions.
#[derive(Clone, Default)]
pub enum CallerAccess {
    /// The caller cannot be asked.
    #[default]
    Unavailable,
    /// The caller is asked by a request on its own connection.
    Peer(Peer),
    /// The caller is asked through another channel, e.g. [`Rounds`] for a caller of MCP 2026-07-28.
    Channel(Arc<dyn CallerChannel>),
}

impl CallerAccess {
    /// Returns the channel through which the caller is asked in rounds, if any.
    #[must_use]
    pub fn channel(&self) -> Option<&dyn CallerChannel> {
        match self {
            Self::Channel(asker) => Some(&**asker),
            _ => None,
        }
    }

    /// Polls a handler until it completes, or until it needs answers that the caller can send only in the next round.
    ///
    /// If a poll suspends questions, the handler is dropped and the questions become the reply. The next round runs the
    /// handler again from the start, with the answers available. Call this around the code that polls the handler, and
    /// around a stack whose layers may ask the caller.
    ///
    /// # Errors
    /// Returns the error of the handler.
    ///
    /// # Cancel safety
    /// Dropping the future drops the handler.
    pub async fn run_round<F>(&self, handler: F) -> Result<Reply, RpcError>
    where
        F: Future<Output = Result<Reply, RpcError>>,
    {
        match self {
            Self::Channel(asker) => Suspend { handler: pin!(handler), asker: &**asker }.await,
            _ => handler.await,
        }
    }
}

crate::opaque_debug!(CallerAccess);

// === Rounds ===

/// The answers that a caller has sent in earlier rounds of a call, and the questions of the current round.
///
/// This is the [`CallerChannel`] of a modern caller; [`CallerAccess::run_round`] turns suspended questions into the
/// reply.
#[derive(Clone, Default)]
pub struct Rounds(Arc<Mutex<RoundData>>);

/// The state that one round of a call passes to the next round. Between the rounds the caller stores it in sealed form,
/// so that the caller can neither read nor change it.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct RoundState {
    /// The id of the logical call, the same in all its rounds.
    pub logical: String,
    /// The number of earlier rounds.
    pub round: u32,
    /// The keys of the questions that the previous round asked; answers with other keys are ignored.
    pub asked: Vec<String>,
    /// The answers received so far, by question key.
    pub answers: BTreeMap<String, Payload>,
    /// The keys of the answers that the caller sent before their questions were asked.
    #[serde(default)]
    pub early: BTreeSet<String>,
    /// The values that the call stored with [`CallerChannel::keep`], by key.
    pub kept: BTreeMap<String, Payload>,
}

#[derive(Default)]
struct RoundData {
    state: RoundState,
    suspended: Vec<(String, CallerRequest)>,
    /// The keys of the questions that this round has returned to the caller.
    asked: Vec<String>,
}

impl Rounds {
    /// Creates a round from the state at the end of the previous round.
    #[must_use]
    pub fn new(state: RoundState) -> Self {
        Self(Arc::new(Mutex::new(RoundData { state, ..RoundData::default() })))
    }

    /// Returns the state to pass to the next round.
    #[must_use]
    pub fn state(&self) -> RoundState {
        let round = self.0.lock();
        let mut state = round.state.clone();
        state.round += 1;
        state.asked.clone_from(&round.asked);
        state
    }
}

crate::opaque_debug!(Rounds);

impl CallerChannel for Rounds {
    fn ask(&self, key: &str, ask: CallerRequest) -> BoxFuture<'static, Result<Payload, RpcError>> {
        let mut round = self.0.lock();
        if let Some(answer) = round.state.answers.get(key) {
            let answer = answer.clone();
            return Box::pin(std::future::ready(Ok(answer)));
        }
        if !round.suspended.iter().any(|(open, _)| open == key) {
            round.suspended.push((key.to_owned(), ask));
        }
        Box::pin(std::future::pending())
    }

    fn forget_early(&self, key: &str) {
        let mut round = self.0.lock();
        if round.state.early.remove(key) {
            round.state.answers.remove(key);
        }
    }

    fn kept(&self, key: &str) -> Option<Payload> {
        self.0.lock().state.kept.get(key).cloned()
    }

    fn keep(&self, key: &str, value: &Payload) {
        self.0.lock().state.kept.insert(key.to_owned(), value.clone());
    }

    fn has_asked(&self, key: &str) -> bool {
        self.0.lock().asked.iter().any(|asked| asked == key)
    }

    fn has_suspended(&self) -> bool {
        !self.0.lock().asked.is_empty()
    }

    fn take_suspended(&self) -> Option<Reply> {
        let mut round = self.0.lock();
        let asks = std::mem::take(&mut round.suspended);
        round.asked.extend(asks.iter().map(|(key, _)| key.clone()));
        (!asks.is_empty()).then_some(Reply::InputRequired(InputRequired { asks, state: None }))
    }
}

struct Suspend<'a, F> {
    handler: Pin<&'a mut F>,
    asker: &'a dyn CallerChannel,
}

impl<F: Future<Output = Result<Reply, RpcError>>> Future for Suspend<'_, F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match this.handler.as_mut().poll(task) {
            Poll::Ready(outcome) => Poll::Ready(outcome),
            Poll::Pending => match this.asker.take_suspended() {
                Some(reply) => Poll::Ready(Ok(reply)),
                None => Poll::Pending,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::Revision;
    use crate::service::{Context, PeerInfo, Principal, Scope, ScopeKind};

    /// Regression test: the error named the key of the question as a capability that the caller does not offer.
    #[tokio::test]
    async fn a_refused_question_names_a_capability_only_if_the_caller_lacks_it() {
        let scope = Scope::new(ScopeKind::Connection);
        let mut cx = Context::new(Peer::none(), scope, Principal::local());
        let mut caller = PeerInfo::new(Revision::LATEST_LEGACY);
        for (accepts, expected) in [
            (false, "the caller cannot be asked: it does not offer `elicitation`"),
            (true, "the caller cannot be asked questions during this call"),
        ] {
            caller.accepts.elicitation = accepts;
            cx.caller = Arc::new(caller.clone());
            let ask = CallerRequest::new("elicitation/create", Payload::empty_object());
            let error = cx.ask("elicitation-1", ask).await.unwrap_err();
            assert_eq!(error.message(), expected);
            let details = error.as_recovery().unwrap().details.as_ref().unwrap();
            assert_eq!(details.get("started").unwrap().as_str(), "true", "the handler has begun");
        }
    }

    #[tokio::test]
    async fn two_questions_are_one_round_and_stored_values_survive() {
        let ask = || CallerRequest::new("elicitation/create", Payload::empty_object());
        let handler = |rounds: Rounds| async move {
            rounds.keep("seed", &Payload::of(&7)?);
            let (a, b) = (rounds.ask("a", ask()), rounds.ask("b", ask()));
            let (a, b) = tokio::join!(a, b);
            Reply::of(&(a?.get::<i32>()?, b?.get::<i32>()?))
        };
        let first = Rounds::default();
        let Ok(Reply::InputRequired(needed)) =
            CallerAccess::Channel(Arc::new(first.clone())).run_round(handler(first.clone())).await
        else {
            panic!("the first round must ask")
        };
        assert_eq!(needed.asks.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(first.has_suspended());

        let mut state = first.state();
        assert_eq!(state.kept["seed"].as_str(), "7");
        state.answers.insert("a".to_owned(), Payload::of(&1).unwrap());
        state.answers.insert("b".to_owned(), Payload::of(&2).unwrap());
        let second = Rounds::new(state);
        let reply = CallerAccess::Channel(Arc::new(second.clone()))
            .run_round(handler(second.clone()))
            .await
            .unwrap();
        assert_eq!(reply.get::<(i32, i32)>().unwrap(), (1, 2));
        assert!(!second.has_suspended());
    }
}
