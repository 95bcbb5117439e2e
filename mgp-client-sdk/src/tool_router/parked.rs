//! Calls that wait until their modern caller has sent an answer.
//!
//! A call to a legacy callee is parked: it goes on running, and is cancelled when its entry is dropped. A call to a
//! modern callee has ended its round; only its id is stored, so that the callee does not count as idle. The number of
//! entries is limited, and each has a time limit. A parked call belongs to the principal that made it.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use mgp_types::service::{BoxFuture, CallerChannel, CallerRequest, Principal, Reply};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Payload, RpcError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The maximum number of calls that are parked at the same time, and of ids of calls to modern callees.
const MAX_PARKED: usize = 1024;
/// The default time limit for the caller of a waiting call to send the answer.
const PARK_TTL: Duration = Duration::from_mins(15);
/// The maximum of the time limit.
const MAX_PARK_TTL: Duration = Duration::from_hours(365 * 24);

/// A call that runs in its own task and may have open questions.
pub(crate) struct ParkedCall {
    principal: Principal,
    questions: Arc<Questions>,
    running: JoinHandle<Result<Reply, RpcError>>,
}

impl Drop for ParkedCall {
    fn drop(&mut self) {
        self.running.abort();
    }
}

pub(crate) enum ParkedEvent {
    Done(Result<Reply, RpcError>),
    /// The parked call waits for the answers to these questions.
    Asks(Vec<(String, CallerRequest)>),
}

impl ParkedCall {
    /// Starts a call; `make` receives the channel for the call's questions.
    pub(crate) fn start(
        principal: Principal,
        make: impl FnOnce(Arc<dyn CallerChannel>) -> BoxFuture<'static, Result<Reply, RpcError>>,
    ) -> Self {
        let questions = Arc::new(Questions::default());
        let running = tokio::spawn(make(Arc::new(ParkedChannel(Arc::clone(&questions)))));
        Self { principal, questions, running }
    }

    /// Waits until the call ends or asks a question.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> ParkedEvent {
        let (questions, running) = (&self.questions, &mut self.running);
        poll_fn(|task| {
            if let Poll::Ready(joined) = std::pin::Pin::new(&mut *running).poll(task) {
                let outcome =
                    joined.unwrap_or_else(|_| Err(RpcError::internal("the call was stopped")));
                return Poll::Ready(ParkedEvent::Done(outcome));
            }
            match questions.open(task.waker()) {
                Some(asks) => Poll::Ready(ParkedEvent::Asks(asks)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Answers a question.
    pub(crate) fn answer(&self, key: &str, answer: Result<Payload, RpcError>) {
        self.questions.answer(key, answer);
    }
}

// === Questions of one call ===

#[derive(Default)]
struct Questions(Mutex<OpenQuestions>);

type Answer = oneshot::Sender<Result<Payload, RpcError>>;

#[derive(Default)]
struct OpenQuestions {
    asks: Vec<(String, CallerRequest, Answer)>,
    waker: Option<Waker>,
}

impl Questions {
    fn open(&self, waker: &Waker) -> Option<Vec<(String, CallerRequest)>> {
        let mut open = self.0.lock();
        // A question that was cancelled needs no answer.
        open.asks.retain(|(_, _, answer)| !answer.is_closed());
        if open.asks.is_empty() {
            open.waker = Some(waker.clone());
            return None;
        }
        Some(open.asks.iter().map(|(key, ask, _)| (key.clone(), ask.clone())).collect())
    }

    fn answer(&self, key: &str, answer: Result<Payload, RpcError>) {
        let mut open = self.0.lock();
        if let Some(index) = open.asks.iter().position(|(open, ..)| open == key) {
            let (.., sender) = open.asks.remove(index);
            // The question may have been cancelled meanwhile.
            let _ = sender.send(answer);
        }
    }
}

struct ParkedChannel(Arc<Questions>);

impl CallerChannel for ParkedChannel {
    fn ask(&self, key: &str, ask: CallerRequest) -> BoxFuture<'static, Result<Payload, RpcError>> {
        let (sender, receiver) = oneshot::channel();
        let waker = {
            let mut open = self.0.0.lock();
            open.asks.push((key.to_owned(), ask, sender));
            open.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Box::pin(async move {
            receiver.await.unwrap_or_else(|_| {
                Err(RpcError::new(
                    ErrorCode::TIMEOUT,
                    "the question was not answered; make the call again to be asked again",
                ))
            })
        })
    }
}

// === The table ===

/// The calls that wait for answers of their callers.
#[derive(Clone, Default)]
pub(crate) struct ParkedCalls(Arc<Mutex<Table>>);

struct Table {
    /// The parked calls, by random names that cannot be guessed.
    parked: HashMap<String, (Instant, ParkedCall)>,
    /// The times at which calls to modern callees expire, by the ids of the logical calls.
    rounds: HashMap<String, Instant>,
    ttl: Duration,
    /// `true` while a task drops expired parked calls.
    has_sweeper: bool,
}

impl Default for Table {
    fn default() -> Self {
        let (parked, rounds) = (HashMap::new(), HashMap::new());
        Self { parked, rounds, ttl: PARK_TTL, has_sweeper: false }
    }
}

impl Table {
    /// Drops expired parked calls; returns the time at which the next one expires.
    fn drop_expired(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.parked.retain(|_, (until, _)| *until > now);
        self.parked.values().map(|(until, _)| *until).min()
    }
}

impl ParkedCalls {
    /// Sets the time limit for callers to send answers.
    pub(crate) fn set_ttl(&self, ttl: Duration) {
        self.0.lock().ttl = ttl.min(MAX_PARK_TTL);
    }

    /// Parks a call; dropping the entry cancels the call.
    pub(crate) fn put(&self, name: &str, parked: ParkedCall) -> Result<(), RpcError> {
        let mut table = self.0.lock();
        table.drop_expired();
        if table.parked.len() >= MAX_PARKED {
            return Err(RpcError::new(
                ErrorCode::RESOURCE_EXHAUSTED,
                "too many calls wait for answers of their callers; try again once some have theirs",
            ));
        }
        let until = Instant::now() + table.ttl;
        table.parked.insert(name.to_owned(), (until, parked));
        if !std::mem::replace(&mut table.has_sweeper, true) {
            // Start a task, so that entries expire even if the table is not used again.
            tokio::spawn(drop_expired(Arc::downgrade(&self.0)));
        }
        Ok(())
    }

    /// Takes a parked call out of the table; fails if it has expired, or if another principal parked it.
    pub(crate) fn take(&self, name: &str, principal: &Principal) -> Result<ParkedCall, RpcError> {
        let mut table = self.0.lock();
        let parked = &mut table.parked;
        let owned = parked.get(name).is_some_and(|(_, parked)| parked.principal == *principal);
        let taken = if owned { parked.remove(name) } else { None };
        match taken {
            Some((until, parked)) if until > Instant::now() => Ok(parked),
            _ => Err(RpcError::new(
                ErrorCode::TIMEOUT,
                "the call no longer waits for this answer; make it again from the start",
            )),
        }
    }

    /// Records that a call to a modern callee waits for answers. If there are too many such calls, it is not counted.
    pub(crate) fn open_round(&self, logical: &str) {
        let mut table = self.0.lock();
        let now = Instant::now();
        table.rounds.retain(|_, until| *until > now);
        if table.rounds.len() < MAX_PARKED || table.rounds.contains_key(logical) {
            let until = now + table.ttl;
            table.rounds.insert(logical.to_owned(), until);
        }
    }

    /// Records that a call to a modern callee has its answers.
    pub(crate) fn close_round(&self, logical: &str) {
        self.0.lock().rounds.remove(logical);
    }

    /// Returns the number of calls that wait for answers of their callers.
    pub(crate) fn len(&self) -> usize {
        let (table, now) = (self.0.lock(), Instant::now());
        table.parked.len() + table.rounds.values().filter(|until| **until > now).count()
    }
}

/// Drops expired calls until none is parked. There is only one such task, however many calls are parked.
async fn drop_expired(table: Weak<Mutex<Table>>) {
    loop {
        let next = {
            let Some(parked_calls) = table.upgrade().map(ParkedCalls) else { return };
            let mut table = parked_calls.0.lock();
            let Some(next) = table.drop_expired() else {
                table.has_sweeper = false;
                return;
            };
            next
        };
        tokio::time::sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> ParkedCall {
        let who = Principal::local();
        ParkedCall::start(who, |_| Box::pin(std::future::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn one_task_drops_all_expired_entries() {
        let parked_calls = ParkedCalls::default();
        for number in 0..100 {
            parked_calls.put(&number.to_string(), one()).unwrap();
            drop(parked_calls.take(&number.to_string(), &Principal::local()).unwrap());
            tokio::task::yield_now().await;
        }
        let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert!(alive <= 2, "{alive} tasks wait");
        parked_calls.put("early", one()).unwrap();
        tokio::time::sleep(PARK_TTL / 2).await;
        parked_calls.put("late", one()).unwrap();
        tokio::time::sleep(PARK_TTL / 2 + Duration::from_secs(1)).await;
        assert_eq!(parked_calls.len(), 1, "its time is up");
        tokio::time::sleep(PARK_TTL).await;
        assert_eq!(parked_calls.len(), 0);
        parked_calls.put("again", one()).unwrap();
        tokio::time::sleep(PARK_TTL + Duration::from_secs(1)).await;
        assert_eq!(parked_calls.len(), 0, "the sweeper starts again");
    }

    #[tokio::test(start_paused = true)]
    async fn rounds_are_counted_until_they_have_answers_or_expire() {
        let waiting = ParkedCalls::default();
        waiting.set_ttl(PARK_TTL * 2);
        for logical in ["one", "two", "two"] {
            waiting.open_round(logical);
        }
        waiting.close_round("one");
        waiting.close_round("no such call");
        tokio::time::sleep(PARK_TTL).await;
        assert_eq!(waiting.len(), 1);
        tokio::time::sleep(PARK_TTL + Duration::from_secs(1)).await;
        assert_eq!(waiting.len(), 0, "its time is up");
        for number in 0..2 * MAX_PARKED {
            waiting.open_round(&number.to_string());
        }
        assert_eq!(waiting.len(), MAX_PARKED);
    }
}
