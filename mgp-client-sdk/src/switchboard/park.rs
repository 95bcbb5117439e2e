//! Keeps a legacy callee's call alive while its modern caller fetches an answer (DESIGN §3 E: park).
//!
//! The table is bounded; an entry is bound to its principal and dropped, which cancels the call, when its time is up.
//!
//! Applies to: outbound.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use mgp_types::service::{Ask, Asker, BoxFuture, Principal, Reply};
use mgp_types::{ErrorCode, Payload, RpcError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// How many calls may be parked.
const MAX: usize = 1024;
/// How long a parked call waits for its caller.
const TTL: Duration = Duration::from_mins(10);

/// A call that runs by itself and may have questions open.
pub(crate) struct Parked {
    principal: Principal,
    questions: Arc<Questions>,
    running: JoinHandle<Result<Reply, RpcError>>,
}

impl Drop for Parked {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// What happened to a running call.
pub(crate) enum Event {
    /// It ended.
    Done(Result<Reply, RpcError>),
    /// It waits for answers.
    Asks(Vec<(String, Ask)>),
}

impl Parked {
    /// Starts a call; `make` gets the asker its questions go to.
    pub(crate) fn start(
        principal: Principal,
        make: impl FnOnce(Arc<dyn Asker>) -> BoxFuture<'static, Result<Reply, RpcError>>,
    ) -> Self {
        let questions = Arc::new(Questions::default());
        let running = tokio::spawn(make(Arc::new(ParkAsker(Arc::clone(&questions)))));
        Self { principal, questions, running }
    }

    /// Waits until the call ends or asks.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Event {
        let (questions, running) = (&self.questions, &mut self.running);
        poll_fn(|task| {
            if let Poll::Ready(joined) = std::pin::Pin::new(&mut *running).poll(task) {
                let outcome =
                    joined.unwrap_or_else(|_| Err(RpcError::internal("the call was stopped")));
                return Poll::Ready(Event::Done(outcome));
            }
            match questions.open(task.waker()) {
                Some(asks) => Poll::Ready(Event::Asks(asks)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Hands over an answer.
    pub(crate) fn answer(&self, key: &str, answer: Result<Payload, RpcError>) {
        self.questions.answer(key, answer);
    }
}

// === Questions of one call ===

#[derive(Default)]
struct Questions(Mutex<Open>);

/// Takes the answer of a question.
type Answer = oneshot::Sender<Result<Payload, RpcError>>;

#[derive(Default)]
struct Open {
    asks: Vec<(String, Ask, Answer)>,
    waiting: Option<Waker>,
}

impl Questions {
    fn open(&self, waker: &Waker) -> Option<Vec<(String, Ask)>> {
        let mut open = self.lock();
        // A question whose asker has gone needs no answer.
        open.asks.retain(|(_, _, answer)| !answer.is_closed());
        if open.asks.is_empty() {
            open.waiting = Some(waker.clone());
            return None;
        }
        Some(open.asks.iter().map(|(key, ask, _)| (key.clone(), ask.clone())).collect())
    }

    fn answer(&self, key: &str, answer: Result<Payload, RpcError>) {
        let mut open = self.lock();
        if let Some(index) = open.asks.iter().position(|(open, ..)| open == key) {
            let (.., sender) = open.asks.remove(index);
            // The asker may have been cancelled meanwhile.
            let _ = sender.send(answer);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct ParkAsker(Arc<Questions>);

impl Asker for ParkAsker {
    fn ask(&self, key: &str, ask: Ask) -> BoxFuture<'static, Result<Payload, RpcError>> {
        let (sender, receiver) = oneshot::channel();
        let waiting = {
            let mut open = self.0.lock();
            open.asks.push((key.to_owned(), ask, sender));
            open.waiting.take()
        };
        if let Some(waiting) = waiting {
            waiting.wake();
        }
        Box::pin(async move {
            receiver.await.unwrap_or_else(|_| {
                Err(RpcError::new(
                    ErrorCode::TIMEOUT,
                    "nobody answered the question; make the call again to be asked again",
                ))
            })
        })
    }
}

// === The table ===

/// The calls that wait for their caller, by an unguessable name.
#[derive(Clone, Default)]
pub(crate) struct Park(Arc<Mutex<HashMap<String, (Instant, Parked)>>>);

impl Park {
    /// Puts a call in; dropping the table's entry cancels it.
    pub(crate) fn put(&self, name: &str, parked: Parked) -> Result<(), RpcError> {
        let now = Instant::now();
        let mut table = self.table();
        table.retain(|_, (until, _)| *until > now);
        if table.len() >= MAX {
            return Err(RpcError::new(
                ErrorCode::RESOURCE_EXHAUSTED,
                "too many calls wait for answers of their callers; try again once some have theirs",
            ));
        }
        table.insert(name.to_owned(), (now + TTL, parked));
        drop(table);
        let (park, name) = (self.clone(), name.to_owned());
        // The entry goes when its time is up, also when nobody comes by.
        tokio::spawn(async move {
            tokio::time::sleep_until(now + TTL).await;
            let expired =
                park.table().get(&name).is_some_and(|(until, _)| *until <= Instant::now());
            if expired {
                park.table().remove(&name);
            }
        });
        Ok(())
    }

    /// Takes a call out, for the principal that owns it only.
    pub(crate) fn take(&self, name: &str, principal: &Principal) -> Result<Parked, RpcError> {
        let mut table = self.table();
        let owned = table.get(name).is_some_and(|(_, parked)| parked.principal == *principal);
        let taken = if owned { table.remove(name) } else { None };
        match taken {
            Some((until, parked)) if until > Instant::now() => Ok(parked),
            _ => Err(RpcError::new(
                ErrorCode::TIMEOUT,
                "the call no longer waits for this answer; make it again from the start",
            )),
        }
    }

    /// How many calls wait.
    pub(crate) fn len(&self) -> usize {
        self.table().len()
    }

    fn table(&self) -> MutexGuard<'_, HashMap<String, (Instant, Parked)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
