//! Calls that wait until their modern caller has sent an answer.
//!
//! A call to a legacy callee, or a call that waits for the task of a modern callee, is parked: it continues to run, and
//! is cancelled when its entry is dropped. Any other call to a modern callee has ended its round. Of such a call only
//! the id is stored, so that the callee does not count as idle. The number of entries is limited, and each has a time
//! limit. A parked call belongs to the principal that made it, and ends with the connection or session of its caller,
//! if it has one.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mgp_types::service::{CallerAccess, Context, EndGuard, Principal, Scope, ScopeKind};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};
use tokio::time::Instant;

use super::parked_call::ParkedCall;

/// The maximum number of parked calls without arguments, and separately of stored ids of calls to modern callees. At
/// the limit of parked calls, the principal whose calls weigh most loses the call that expires first.
const MAX_PARKED: usize = 1024;
/// The weight of a parked call without arguments. Each byte of its arguments adds one, because the arguments stay in
/// memory: all parked calls together have at most 256 MiB of them.
const CALL_WEIGHT: usize = 256 << 10;
/// The default time limit for the caller of a waiting call to send the answer.
const PARK_TTL: Duration = Duration::from_mins(15);
/// The upper bound of the time limit that can be set for answers.
const MAX_PARK_TTL: Duration = Duration::from_hours(365 * 24);
/// The longest interval between sweeps that drop expired calls.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);

/// The calls that wait for answers of their callers.
#[derive(Clone, Default)]
pub(crate) struct ParkedCalls(Arc<Mutex<Table>>);

struct Table {
    /// The parked calls, by random names that cannot be guessed.
    parked: HashMap<String, Entry>,
    /// The times when calls to modern callees expire, by the ids of the logical calls.
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
    /// Removes and returns the expired parked calls. The caller drops them after it has released the lock, because
    /// they own values of their callers.
    fn take_expired(&mut self) -> Vec<(String, Entry)> {
        let now = Instant::now();
        self.parked.extract_if(|_, entry| entry.until <= now).collect()
    }

    /// Returns whether a further parked call would exceed the limit.
    fn has_no_room_for(&self, call: &ParkedCall) -> bool {
        let parked = self.parked.values().map(|entry| weight(&entry.call));
        parked.sum::<usize>().saturating_add(weight(call)) > MAX_PARKED * CALL_WEIGHT
    }

    /// Returns the name of the parked call that expires first, among those of the principal whose calls weigh most.
    fn first_of_most(&self) -> Option<String> {
        let mut weights = HashMap::<&Principal, usize>::new();
        for entry in self.parked.values() {
            *weights.entry(&entry.call.principal).or_default() += weight(&entry.call);
        }
        let order = |(_, entry): &(&String, &Entry)| {
            (Reverse(weights.get(&entry.call.principal).copied()), entry.until)
        };
        self.parked.iter().min_by_key(order).map(|(name, _)| name.clone())
    }
}

fn weight(call: &ParkedCall) -> usize {
    call.size.saturating_add(CALL_WEIGHT)
}

impl ParkedCalls {
    /// Sets the time limit for callers to send answers.
    pub(crate) fn set_ttl(&self, ttl: Duration) {
        self.0.lock().ttl = ttl.min(MAX_PARK_TTL);
    }

    /// Parks a call; dropping the entry cancels the call. If too many calls or arguments are parked, first drops calls
    /// of the principal whose calls weigh most.
    pub(crate) fn put(&self, name: &str, mut call: ParkedCall) {
        call.detach();
        let max_ttl = call.max_ttl();
        let mut table = self.0.lock();
        let mut ended = table.take_expired();
        while table.has_no_room_for(&call)
            && let Some(first) = table.first_of_most()
        {
            ended.extend(table.parked.remove_entry(&first));
        }
        let until = Instant::now() + table.ttl.min(max_ttl);
        table.parked.insert(name.to_owned(), Entry { until, call, hook: None });
        if !std::mem::replace(&mut table.has_sweeper, true) {
            // Start a task, so that entries expire even if the table is not used again.
            tokio::spawn(drop_expired(Arc::downgrade(&self.0)));
        }
        drop(table);
        drop(ended);
    }

    /// Removes and returns a parked call; fails if the call has expired, or if another principal parked it.
    pub(crate) fn take(&self, name: &str, principal: &Principal) -> Result<ParkedCall, RpcError> {
        match self.take_entry(name, principal) {
            Some(Entry { until, call, .. }) if until > Instant::now() => Ok(call),
            _ => Err(RpcError::new(
                ErrorCode::TIMEOUT,
                "the call no longer waits for this answer; make it again from the start",
            )),
        }
    }

    /// Removes and returns a parked call; fails if the call has expired, or if its gates no longer admit it with the
    /// credentials of its caller's current request.
    pub(super) fn take_allowed(&self, name: &str, cx: &Context) -> Result<ParkedCall, RpcError> {
        let call = self.take(name, &cx.principal)?;
        call.recheck.run(cx).map(|()| call)
    }

    /// Cancels a parked call of a principal; returns whether the call was parked.
    pub(super) fn end(&self, name: &str, principal: &Principal) -> bool {
        self.take_entry(name, principal).is_some()
    }

    pub(super) fn end_all(&self) {
        let ended = std::mem::take(&mut self.0.lock().parked);
        drop(ended);
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

    /// Makes a parked call end with the connection or session of its caller. A caller without either can return on any
    /// connection, so its call waits until its time limit.
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

    /// Records that a call to a modern callee waits for answers. If too many such calls wait, does not record this
    /// call.
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

/// Returns whether the round of a call has ended with questions to its caller, who is expected to repeat the call with
/// the answers.
fn has_suspended(cx: &Context) -> bool {
    matches!(&cx.caller_access, CallerAccess::Channel(asker) if asker.has_suspended())
}

/// A guard of a parked call while its caller is asked. Dropping the guard cancels the call, e.g. with its task, unless
/// the caller's round has ended with the questions.
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

    /// Removes the call from the table and returns it; fails if the call has expired or is no longer allowed.
    pub(super) fn take(self) -> Result<ParkedCall, RpcError> {
        // Dropping the guard has no effect afterwards, because the table no longer contains the call.
        self.parked_calls.take_allowed(self.name, self.cx)
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

/// A guard of a call to a modern callee that waits for answers. Dropping the guard ends the count of the call as
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

/// Drops expired calls until no call is parked. One such task serves all parked calls.
async fn drop_expired(table: Weak<Mutex<Table>>) {
    loop {
        let next = {
            let Some(parked_calls) = table.upgrade().map(ParkedCalls) else { return };
            let mut table = parked_calls.0.lock();
            let ended = table.take_expired();
            let next = table.parked.values().map(|entry| entry.until).min();
            table.has_sweeper = next.is_some();
            drop(table);
            drop(ended);
            let Some(next) = next else { return };
            next
        };
        // Do not sleep longer than [`SWEEP_INTERVAL`], because a call that is parked meanwhile may expire before
        // `next`.
        tokio::time::sleep_until(next.min(Instant::now() + SWEEP_INTERVAL)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use mgp_types::Payload;
    use mgp_types::service::{CallerChannel as _, CallerRequest, Peer, Rounds};

    use super::*;
    use crate::tool_router::parked_call::PROGRAM_TTL;

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
            let mut channel = None;
            let call = ParkedCall::start(Principal::local(), |asker| {
                channel = Some(asker);
                Box::pin(pending())
            });
            let ask = CallerRequest::new(method, Payload::empty_object());
            open.push(channel.unwrap().ask("a", ask));
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
    async fn long_arguments_of_parked_calls_are_limited() {
        let parked_calls = ParkedCalls::default();
        let (ann, eve) = (Principal::local().agent("ann"), Principal::local().agent("eve"));
        let park = |name: &str, who: &Principal, size: usize| {
            let mut call = ParkedCall::start(who.clone(), |_| Box::pin(pending()));
            call.size = size;
            parked_calls.put(name, call);
        };
        for number in 0..8 {
            park(&format!("ann{number}"), &ann, 100);
        }
        for number in 0..100 {
            park(&number.to_string(), &eve, 15 * CALL_WEIGHT);
        }
        assert_eq!(parked_calls.len(), 8 + 63, "the long ones fill the rest");
        assert!((0..8).all(|at| parked_calls.take(&format!("ann{at}"), &ann).is_ok()));
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
