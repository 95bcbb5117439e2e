//! Keeps a legacy callee's call alive while its modern caller fetches an answer (DESIGN §3 E: park).
//!
//! The table is bounded; an entry is bound to its principal and dropped, which cancels the call, when its time is up.
//!
//! Applies to: outbound.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
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
pub(crate) struct Park(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    parked: HashMap<String, (Instant, Parked)>,
    /// Whether somebody sees to those whose time is up.
    is_swept: bool,
}

impl Table {
    /// Drops those whose time is up; gives when the next one's is.
    fn sweep(&mut self) -> Option<Instant> {
        let now = Instant::now();
        self.parked.retain(|_, (until, _)| *until > now);
        self.parked.values().map(|(until, _)| *until).min()
    }
}

impl Park {
    /// Puts a call in; dropping the table's entry cancels it.
    pub(crate) fn put(&self, name: &str, parked: Parked) -> Result<(), RpcError> {
        let mut table = self.table();
        table.sweep();
        if table.parked.len() >= MAX {
            return Err(RpcError::new(
                ErrorCode::RESOURCE_EXHAUSTED,
                "too many calls wait for answers of their callers; try again once some have theirs",
            ));
        }
        table.parked.insert(name.to_owned(), (Instant::now() + TTL, parked));
        if !std::mem::replace(&mut table.is_swept, true) {
            // An entry goes when its time is up, also when nobody comes by.
            tokio::spawn(sweep(Arc::downgrade(&self.0)));
        }
        Ok(())
    }

    /// Takes a call out, for the principal that owns it only.
    pub(crate) fn take(&self, name: &str, principal: &Principal) -> Result<Parked, RpcError> {
        let mut table = self.table();
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

    /// How many calls wait.
    pub(crate) fn len(&self) -> usize {
        self.table().parked.len()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the end of one after another, until none is left: one task, however many are put in.
async fn sweep(table: Weak<Mutex<Table>>) {
    loop {
        let next = {
            let Some(park) = table.upgrade().map(Park) else { return };
            let mut table = park.table();
            let Some(next) = table.sweep() else {
                table.is_swept = false;
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

    fn one() -> Parked {
        let who = Principal::local();
        Parked::start(who, |_| Box::pin(std::future::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn one_task_sees_to_all_that_wait_and_to_their_ends() {
        let park = Park::default();
        for number in 0..100 {
            park.put(&number.to_string(), one()).unwrap();
            drop(park.take(&number.to_string(), &Principal::local()).unwrap());
            tokio::task::yield_now().await;
        }
        let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert!(alive <= 2, "{alive} tasks wait");
        park.put("early", one()).unwrap();
        tokio::time::sleep(TTL / 2).await;
        park.put("late", one()).unwrap();
        tokio::time::sleep(TTL / 2 + Duration::from_secs(1)).await;
        assert_eq!(park.len(), 1, "its time is up");
        tokio::time::sleep(TTL).await;
        assert_eq!(park.len(), 0);
        park.put("again", one()).unwrap();
        tokio::time::sleep(TTL + Duration::from_secs(1)).await;
        assert_eq!(park.len(), 0, "somebody sees to it again");
    }
}
