//! Calls that wait until their modern caller has sent an answer.
//!
//! A call to a legacy callee, or one that waits for the task of a modern callee, is parked: it continues to run, and is
//! cancelled when its entry is dropped. Any other call to a modern callee has ended its round; only its id is stored,
//! so that the callee does not count as idle. The number of entries is limited, and each has a time limit. A parked
//! call belongs to the principal that made it, and ends with the connection or session of its caller.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::future::{pending, poll_fn};
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use mgp_types::method::{Request, RootsList, SamplingCreateMessage};
use mgp_types::service::{
    BoxFuture, CallerAccess, CallerChannel, CallerRequest, Context, EndGuard, Principal, Recheck,
    Reply, Scope, ScopeKind,
};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, Payload, RpcError};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::round_channel::RoundChannel;
use super::round_outlet::RoundOutlet;

/// The maximum number of calls that are parked at the same time, and of ids of calls to modern callees. At this limit,
/// the oldest call of the principal that has the most parked calls is dropped.
const MAX_PARKED: usize = 1024;
/// The default time limit for the caller of a waiting call to send the answer.
const PARK_TTL: Duration = Duration::from_mins(15);
/// The maximum of this time limit while no person, but only a model or the caller itself has to answer. Until then,
/// the questions of the server to other callers are refused, because they may belong to the parked call.
const PROGRAM_TTL: Duration = Duration::from_mins(5);
/// The longest interval at which expired calls are dropped.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// The maximum value to which this time limit can be set.
const MAX_PARK_TTL: Duration = Duration::from_hours(365 * 24);

/// A call that may have open questions, and runs in its own task once it is parked.
pub(crate) struct ParkedCall {
    principal: Principal,
    questions: Arc<Questions>,
    outlet: Arc<RoundOutlet>,
    /// The checks of the call's gates.
    pub(super) recheck: Recheck,
    /// The channel of the layers of a call that began within its caller's request.
    pub(super) channel: Option<Arc<RoundChannel>>,
    running: BoxFuture<'static, Result<Reply, RpcError>>,
    /// The handle of the call's own task, if it has one.
    task: Option<AbortHandle>,
}

impl Drop for ParkedCall {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        // The futures that wait for answers contain the channel to this call, so they cannot notice its end themselves.
        self.questions.close();
    }
}

pub(crate) enum ParkedEvent {
    Done(Result<Reply, RpcError>),
    /// The parked call waits for the answers to these questions.
    Asks(Vec<(String, CallerRequest)>),
}

impl ParkedCall {
    /// Starts a call in its own task; `make` receives the channel for the call's questions.
    pub(crate) fn start(
        principal: Principal,
        make: impl FnOnce(Arc<dyn CallerChannel>) -> BoxFuture<'static, Result<Reply, RpcError>>,
    ) -> Self {
        let mut call = Self::inline(principal, make);
        call.detach();
        call
    }

    /// Creates a call that runs in [`next`](Self::next) until it is parked; `make` receives the channel for the call's
    /// questions.
    pub(crate) fn inline(
        principal: Principal,
        make: impl FnOnce(Arc<dyn CallerChannel>) -> BoxFuture<'static, Result<Reply, RpcError>>,
    ) -> Self {
        let questions = Arc::new(Questions::default());
        let running = make(Arc::new(ParkedChannel(Arc::clone(&questions))));
        let (outlet, recheck) = (Arc::default(), Recheck::default());
        Self { principal, questions, outlet, recheck, channel: None, running, task: None }
    }

    /// Lets the call run in its own task from now on.
    fn detach(&mut self) {
        if self.task.is_some() {
            return;
        }
        if let Some(channel) = &self.channel {
            channel.park(Arc::new(ParkedChannel(Arc::clone(&self.questions))));
        }
        let task = tokio::spawn(std::mem::replace(&mut self.running, Box::pin(pending())));
        self.task = Some(task.abort_handle());
        self.running = Box::pin(async move {
            task.await.unwrap_or_else(|_| Err(RpcError::internal("the call was stopped")))
        });
    }

    /// Stores the sink of the call's partial results, so that it can be redirected, and the checks of its gates.
    pub(super) fn with(mut self, outlet: Arc<RoundOutlet>, recheck: Recheck) -> Self {
        (self.outlet, self.recheck) = (outlet, recheck);
        self
    }

    /// Returns the sink to which the call sends its partial results.
    pub(super) fn outlet(&self) -> &RoundOutlet {
        &self.outlet
    }

    /// Waits until the call ends or asks a question.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> ParkedEvent {
        let (questions, running) = (&self.questions, &mut self.running);
        poll_fn(|task| {
            if let Poll::Ready(outcome) = running.as_mut().poll(task) {
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
    /// `true` after the end of the call, when no question can be answered any more.
    is_closed: bool,
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

    /// Returns the longest time for which the call may wait for its caller.
    fn max_ttl(&self) -> Duration {
        let no_person = [SamplingCreateMessage::METHOD, RootsList::METHOD];
        let open = self.0.lock();
        let is_short = !open.asks.is_empty()
            && open.asks.iter().all(|(_, ask, _)| no_person.contains(&ask.method()));
        if is_short { PROGRAM_TTL } else { MAX_PARK_TTL }
    }

    /// Fails the open questions and all further ones.
    fn close(&self) {
        let asks = {
            let mut open = self.0.lock();
            open.is_closed = true;
            std::mem::take(&mut open.asks)
        };
        drop(asks);
    }
}

struct ParkedChannel(Arc<Questions>);

impl CallerChannel for ParkedChannel {
    fn ask(&self, key: &str, ask: CallerRequest) -> BoxFuture<'static, Result<Payload, RpcError>> {
        let (sender, receiver) = oneshot::channel();
        let waker = {
            let mut open = self.0.0.lock();
            if !open.is_closed {
                open.asks.push((key.to_owned(), ask, sender));
            }
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

    fn can_ask_now(&self) -> bool {
        let open = self.0.0.lock();
        // A question stays open until the caller's next round takes it out, even if the callee has withdrawn it.
        !open.is_closed && open.asks.is_empty()
    }
}

// === The table ===

/// The calls that wait for answers of their callers.
#[derive(Clone, Default)]
pub(crate) struct ParkedCalls(Arc<Mutex<Table>>);

struct Table {
    /// The parked calls, by random names that cannot be guessed.
    parked: HashMap<String, Entry>,
    /// The times at which calls to modern callees expire, by the ids of the logical calls.
    rounds: HashMap<String, Instant>,
    ttl: Duration,
    /// `true` while a task drops expired parked calls.
    has_sweeper: bool,
}

struct Entry {
    until: Instant,
    call: ParkedCall,
    /// The hook that drops the call when the connection or session of its caller ends.
    hook: Option<EndGuard>,
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
        self.parked.retain(|_, entry| entry.until > now);
        self.parked.values().map(|entry| entry.until).min()
    }

    /// Returns the name of the oldest parked call of the principal that has the most parked calls.
    fn oldest_of_most(&self) -> Option<String> {
        let mut counts = HashMap::<&Principal, usize>::new();
        for entry in self.parked.values() {
            *counts.entry(&entry.call.principal).or_default() += 1;
        }
        let order = |(_, entry): &(&String, &Entry)| {
            (Reverse(counts.get(&entry.call.principal).copied()), entry.until)
        };
        self.parked.iter().min_by_key(order).map(|(name, _)| name.clone())
    }
}

impl ParkedCalls {
    /// Sets the time limit for callers to send answers.
    pub(crate) fn set_ttl(&self, ttl: Duration) {
        self.0.lock().ttl = ttl.min(MAX_PARK_TTL);
    }

    /// Parks a call; dropping the entry cancels the call. If too many calls are parked, first drops the oldest call of
    /// the principal that has the most.
    pub(crate) fn put(&self, name: &str, mut call: ParkedCall) {
        call.detach();
        let max_ttl = call.questions.max_ttl();
        let mut table = self.0.lock();
        table.drop_expired();
        if table.parked.len() >= MAX_PARKED
            && let Some(oldest) = table.oldest_of_most()
        {
            table.parked.remove(&oldest);
        }
        let until = Instant::now() + table.ttl.min(max_ttl);
        table.parked.insert(name.to_owned(), Entry { until, call, hook: None });
        if !std::mem::replace(&mut table.has_sweeper, true) {
            // Start a task, so that entries expire even if the table is not used again.
            tokio::spawn(drop_expired(Arc::downgrade(&self.0)));
        }
    }

    /// Takes a parked call out of the table; fails if it has expired, or if another principal parked it.
    pub(crate) fn take(&self, name: &str, principal: &Principal) -> Result<ParkedCall, RpcError> {
        match self.take_entry(name, principal) {
            Some(Entry { until, call, .. }) if until > Instant::now() => Ok(call),
            _ => Err(RpcError::new(
                ErrorCode::TIMEOUT,
                "the call no longer waits for this answer; make it again from the start",
            )),
        }
    }

    /// Cancels a parked call of a principal; returns whether there was one.
    pub(super) fn end(&self, name: &str, principal: &Principal) -> bool {
        self.take_entry(name, principal).is_some()
    }

    fn take_entry(&self, name: &str, principal: &Principal) -> Option<Entry> {
        let parked = &mut self.0.lock().parked;
        let is_own = parked.get(name).is_some_and(|entry| entry.call.principal == *principal);
        if is_own { parked.remove(name) } else { None }
    }

    /// Cancels a parked call; does nothing if the call has been taken out of the table.
    fn remove(&self, name: &str) {
        let removed = self.0.lock().parked.remove(name);
        drop(removed);
    }

    /// Cancels a parked call when the connection or session of its caller ends. A caller without either can return on
    /// any connection, so its call waits until its time limit.
    fn end_with(&self, name: &str, scope: &Scope) {
        if !matches!(scope.kind(), ScopeKind::Connection | ScopeKind::Session) {
            return;
        }
        let (table, ended) = (Arc::downgrade(&self.0), name.to_owned());
        let hook = scope.on_end(move || {
            if let Some(table) = table.upgrade() {
                Self(table).remove(&ended);
            }
        });
        if let Some(entry) = self.0.lock().parked.get_mut(name) {
            entry.hook = Some(hook);
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

/// Returns whether the round of a call has ended with questions, so that its caller is expected to return.
fn has_suspended(cx: &Context) -> bool {
    matches!(&cx.caller_access, CallerAccess::Channel(asker) if asker.has_suspended())
}

/// A guard of a parked call whose caller is being asked. When the guard is dropped, the call is cancelled, e.g. with
/// its task, unless the caller's round has ended with the questions.
pub(super) struct ParkedGuard<'a> {
    parked_calls: &'a ParkedCalls,
    name: &'a str,
    cx: &'a Context,
}

impl<'a> ParkedGuard<'a> {
    pub(super) fn put(
        parked_calls: &'a ParkedCalls,
        name: &'a str,
        call: ParkedCall,
        cx: &'a Context,
    ) -> Self {
        parked_calls.put(name, call);
        Self { parked_calls, name, cx }
    }

    /// Takes the call out of the table again; fails if it has expired or is no longer allowed.
    pub(super) fn take(self) -> Result<ParkedCall, RpcError> {
        // Dropping the guard has no effect afterwards, because the table no longer contains the call.
        let call = self.parked_calls.take(self.name, &self.cx.principal)?;
        call.recheck.run(self.cx).map(|()| call)
    }
}

impl Drop for ParkedGuard<'_> {
    fn drop(&mut self) {
        if has_suspended(self.cx) {
            self.parked_calls.end_with(self.name, &self.cx.scope);
        } else {
            self.parked_calls.remove(self.name);
        }
    }
}

/// A guard of a call to a modern callee that waits for answers. When the guard is dropped, the call no longer counts as
/// waiting, unless the caller's round has ended with the questions.
pub(super) struct RoundGuard<'a> {
    parked_calls: &'a ParkedCalls,
    logical: &'a str,
    cx: &'a Context,
}

impl<'a> RoundGuard<'a> {
    /// Counts a call as waiting for answers.
    pub(super) fn open(parked_calls: &'a ParkedCalls, logical: &'a str, cx: &'a Context) -> Self {
        parked_calls.open_round(logical);
        Self { parked_calls, logical, cx }
    }
}

impl Drop for RoundGuard<'_> {
    fn drop(&mut self) {
        if !has_suspended(self.cx) {
            self.parked_calls.close_round(self.logical);
        }
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
        // A call that is parked meanwhile may expire earlier.
        tokio::time::sleep_until(next.min(Instant::now() + SWEEP_INTERVAL)).await;
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::{Peer, Rounds};

    use super::*;

    fn question() -> CallerRequest {
        CallerRequest::new("elicitation/create", Payload::empty_object())
    }

    fn one() -> ParkedCall {
        ParkedCall::start(Principal::local(), |_| Box::pin(pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn one_task_drops_all_expired_entries() {
        let parked_calls = ParkedCalls::default();
        for number in 0..100 {
            parked_calls.put(&number.to_string(), one());
            drop(parked_calls.take(&number.to_string(), &Principal::local()).unwrap());
            tokio::task::yield_now().await;
        }
        let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
        assert!(alive <= 2, "{alive} tasks wait");
        parked_calls.put("early", one());
        tokio::time::sleep(PARK_TTL / 2).await;
        parked_calls.put("late", one());
        tokio::time::sleep(PARK_TTL / 2 + Duration::from_secs(1)).await;
        assert_eq!(parked_calls.len(), 1, "its time is up");
        tokio::time::sleep(PARK_TTL).await;
        assert_eq!(parked_calls.len(), 0);
        parked_calls.put("again", one());
        tokio::time::sleep(PARK_TTL + Duration::from_secs(1)).await;
        assert_eq!(parked_calls.len(), 0, "the sweeper starts again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_waits_longer_for_a_person_than_for_a_model() {
        let parked_calls = ParkedCalls::default();
        parked_calls.put("silent", one());
        let mut open = Vec::new();
        for (name, method) in [("form", "elicitation/create"), ("model", "sampling/createMessage")]
        {
            let (call, ask) = (one(), CallerRequest::new(method, Payload::empty_object()));
            open.push(ParkedChannel(Arc::clone(&call.questions)).ask("a", ask));
            parked_calls.put(name, call);
        }
        tokio::time::sleep(PROGRAM_TTL.saturating_sub(Duration::from_secs(1))).await;
        assert_eq!(parked_calls.len(), 3);
        tokio::time::sleep(SWEEP_INTERVAL + Duration::from_secs(2)).await;
        assert_eq!(parked_calls.len(), 2, "the model had its time");
        let who = Principal::local();
        assert!(parked_calls.take("model", &who).is_err());
        assert!(parked_calls.take("form", &who).is_ok());
        drop(open);
    }

    #[tokio::test]
    async fn the_questions_of_a_call_fail_when_it_ends() {
        let mut channel = None;
        let call = ParkedCall::start(Principal::local(), |asker| {
            channel = Some(asker);
            Box::pin(pending())
        });
        let channel = channel.unwrap();
        assert!(channel.can_ask_now());
        let open = channel.ask("a", question());
        assert!(!channel.can_ask_now(), "the first question is open");
        drop(call);
        for asked in [open, channel.ask("b", question())] {
            assert_eq!(asked.await.unwrap_err().code(), ErrorCode::TIMEOUT);
        }
        assert!(!channel.can_ask_now());
    }

    #[tokio::test]
    async fn a_parked_call_waits_only_for_a_caller_that_can_return() {
        let (parked_calls, rounds) = (ParkedCalls::default(), Rounds::default());
        let scope = Scope::new(ScopeKind::Connection);
        let mut cx = Context::new(Peer::none(), scope.clone(), Principal::local());
        cx.caller_access = CallerAccess::Channel(Arc::new(rounds.clone()));
        drop(ParkedGuard::put(&parked_calls, "task", one(), &cx));
        assert_eq!(parked_calls.len(), 0, "a task was cancelled while its question was open");
        drop(RoundGuard::open(&parked_calls, "task", &cx));
        assert_eq!(parked_calls.len(), 0, "the same with a modern callee");

        let guard = ParkedGuard::put(&parked_calls, "call", one(), &cx);
        drop(rounds.ask("key", question()));
        assert!(rounds.take_suspended().is_some());
        drop(guard);
        assert_eq!(parked_calls.len(), 1, "the caller is expected to return");
        scope.end();
        assert_eq!(parked_calls.len(), 0, "its connection has ended");

        cx.scope = Scope::new(ScopeKind::Request);
        drop(ParkedGuard::put(&parked_calls, "http", one(), &cx));
        cx.scope.end();
        assert_eq!(parked_calls.len(), 1, "the caller returns with another request");
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_with_many_parked_calls_ends_no_call_of_others() {
        let parked_calls = ParkedCalls::default();
        let (ann, eve) = (Principal::local().agent("ann"), Principal::local().agent("eve"));
        let park = |name: &str, who: &Principal| {
            parked_calls.put(name, ParkedCall::start(who.clone(), |_| Box::pin(pending())));
        };
        park("ann", &ann);
        park("0", &eve);
        tokio::time::advance(Duration::from_secs(1)).await;
        for number in 1..MAX_PARKED {
            park(&number.to_string(), &eve);
        }
        assert_eq!(parked_calls.len(), MAX_PARKED);
        assert!(parked_calls.take("ann", &ann).is_ok());
        assert!(parked_calls.take("0", &eve).is_err(), "the oldest of the caller with the most");
        assert!(parked_calls.take("1", &eve).is_ok());
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
