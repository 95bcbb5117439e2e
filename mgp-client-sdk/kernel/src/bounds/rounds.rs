//! The calls of modern callers that the kernel expects to be repeated with answers to questions (the next round). All
//! rounds of a call count once for its limits.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use mgp_lifecycle::never_ran;
use mgp_types::RpcError;
use mgp_types::service::{CallerAccess, CallerChannel, Context, Reply, ServerId};
use mgp_types::sync::Mutex;
use tokio::time::Instant;

/// The maximum number of calls that wait for their next round. At this limit, the kernel forgets the oldest call of the
/// caller with the most waiting calls; the next round of that call counts as a new call.
const MAX_WAITING: usize = 1024;

/// The maximum number of further rounds of a call that do not count as calls. It is at least the number of rounds that
/// a call can have. Without this limit, a caller could repeat the same round endlessly.
const MAX_ROUNDS: u32 = 16;

/// The calls that wait for their next round. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(super) struct WaitingCalls(Arc<Mutex<HashMap<CallId, WaitingCall>>>);

/// The identity of a call, which all its rounds share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct CallId {
    logical: String,
    who: String,
    server: ServerId,
    tool: String,
}

/// A call that has passed the limits of calls a minute. The kernel expects its caller to repeat it with answers to
/// questions.
#[derive(Clone, Copy, Debug)]
struct WaitingCall {
    since: Instant,
    /// `true` if the quotas were charged for the call.
    is_charged: bool,
    /// The number of rounds after the first one.
    rounds: u32,
}

pub(super) struct Round {
    waiting: WaitingCalls,
    id: CallId,
    asker: Arc<dyn CallerChannel>,
    /// The state after the previous round; `None` if this is the first round.
    previous: Option<WaitingCall>,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    /// `true` if the quotas were charged in this round.
    is_charged: bool,
    /// `true` if the call was passed to the server in this round.
    has_run: bool,
    has_ended: bool,
}

#[derive(Clone, Copy, Debug)]
enum RoundEnd {
    /// The round was dropped before it had an answer, because it asked the caller, or because the caller cancelled it
    /// or disconnected.
    Dropped,
    /// The round ended with questions to the caller.
    Asked,
    /// The round ended with an error that shows that it had no effect.
    Refused,
    /// The round ended with the answer to the call.
    Answered,
}

/// A guard of a running round. On its drop, the call begins to wait for its next round if this round asked the caller.
/// If this is a later round that did not run, the call waits for the same round again.
pub(super) struct RoundGuard {
    round: Arc<Round>,
    end: RoundEnd,
}

impl WaitingCalls {
    /// Begins a round of a call. Returns `None` if the caller answers questions while the call runs, so that the call
    /// has only one round.
    ///
    /// From now on, the call does not wait for this round any more. So a second request with the same round counts as a
    /// new call.
    pub(super) fn begin(
        &self,
        cx: &Context,
        who: &str,
        server: &ServerId,
        tool: &str,
    ) -> Option<Arc<Round>> {
        let logical = cx.logical.as_deref()?.to_owned();
        let CallerAccess::Channel(asker) = &cx.caller_access else { return None };
        let (who, tool) = (who.to_owned(), tool.to_owned());
        let id = CallId { logical, who, server: server.clone(), tool };
        let (waiting, asker) = (self.clone(), Arc::clone(asker));
        let previous = waiting.0.lock().remove(&id);
        Some(Arc::new(Round { waiting, id, asker, previous, progress: Mutex::default() }))
    }

    fn insert(&self, id: CallId, call: WaitingCall) {
        let mut waiting = self.0.lock();
        waiting.insert(id, call);
        if waiting.len() > MAX_WAITING
            && let Some(oldest) = oldest_of_most(&waiting)
        {
            waiting.remove(&oldest);
        }
    }
}

/// Returns the oldest waiting call of the caller with the most waiting calls.
fn oldest_of_most(waiting: &HashMap<CallId, WaitingCall>) -> Option<CallId> {
    let mut counts = HashMap::<&str, usize>::new();
    for id in waiting.keys() {
        *counts.entry(&id.who).or_default() += 1;
    }
    let order = |(id, call): &(&CallId, &WaitingCall)| {
        (Reverse(counts.get(id.who.as_str()).copied()), call.since)
    };
    waiting.iter().min_by_key(order).map(|(id, _)| id.clone())
}

impl Round {
    /// Returns whether an earlier round of the call has passed the limits of calls a minute.
    pub(super) fn is_later(&self) -> bool {
        self.previous.is_some()
    }

    /// Returns whether the quotas were charged for the call in an earlier round.
    pub(super) fn was_charged(&self) -> bool {
        self.previous.is_some_and(|call| call.is_charged)
    }

    /// Records that the quotas were charged for the call.
    pub(super) fn set_charged(&self) {
        let mut progress = self.progress.lock();
        progress.is_charged = true;
        if progress.has_ended {
            // Record the charge in the waiting call too: a call to a legacy server continues to run after this round,
            // so the kernel may already wait for a later round.
            self.wait(true, self.rounds() + 1);
        }
    }

    /// Records that the call is passed to the server.
    pub(super) fn set_running(&self) {
        self.progress.lock().has_run = true;
    }

    /// Returns the number of rounds after the first one, including this one.
    fn rounds(&self) -> u32 {
        self.previous.map_or(0, |call| call.rounds)
    }

    fn wait(&self, is_charged: bool, rounds: u32) {
        let call = WaitingCall { since: Instant::now(), is_charged, rounds };
        self.waiting.insert(self.id.clone(), call);
    }

    fn end(&self, end: RoundEnd) {
        let mut progress = self.progress.lock();
        progress.has_ended = true;
        let goes_on = match end {
            RoundEnd::Dropped => {
                self.asker.has_suspended() || (self.is_later() && !progress.has_run)
            }
            RoundEnd::Asked => self.asker.has_suspended(),
            // Do not wait for a repetition of a first round that was refused, because the repetition must count as a
            // call.
            RoundEnd::Refused => self.is_later(),
            RoundEnd::Answered => false,
        };
        let later = self.waiting.0.lock().remove(&self.id);
        let is_charged =
            progress.is_charged || self.was_charged() || later.is_some_and(|call| call.is_charged);
        let rounds = self.rounds() + 1;
        if goes_on && rounds <= MAX_ROUNDS {
            self.wait(is_charged, rounds);
        }
    }
}

impl RoundGuard {
    pub(super) fn new(round: &Arc<Round>) -> Self {
        Self { round: Arc::clone(round), end: RoundEnd::Dropped }
    }

    /// Records the answer of the round.
    pub(super) fn note(&mut self, answer: &Result<Reply, RpcError>) {
        self.end = match answer {
            Ok(Reply::InputRequired(_)) => RoundEnd::Asked,
            Err(error) if never_ran(error) => RoundEnd::Refused,
            _ => RoundEnd::Answered,
        };
    }
}

impl Drop for RoundGuard {
    fn drop(&mut self) {
        self.round.end(self.end);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mgp_lifecycle::LifecycleError;
    use mgp_types::service::{CallerRequest, Peer, Principal, Rounds, Scope, ScopeKind};
    use mgp_types::{ErrorCode, Payload};

    use super::*;

    impl WaitingCalls {
        fn round(&self, logical: &str) -> (Arc<Round>, Rounds) {
            let (scope, asker) = (Scope::new(ScopeKind::Request), Rounds::default());
            let mut cx = Context::new(Peer::none(), scope, Principal::local());
            cx.logical = Some(logical.to_owned().into());
            cx.caller_access = CallerAccess::Channel(Arc::new(asker.clone()));
            (self.begin(&cx, "local/ann", &"s".into(), "t").unwrap(), asker)
        }

        /// Runs a round that charges the call and asks its caller; returns whether an earlier round was charged.
        fn ask(&self, logical: &str) -> bool {
            let (round, asker) = self.round(logical);
            let _guard = RoundGuard::new(&round);
            if !round.was_charged() {
                round.set_charged();
            }
            drop(asker.ask("key", CallerRequest::new("elicitation/create", Payload::null())));
            assert!(asker.take_suspended().is_some());
            round.was_charged()
        }
    }

    #[test]
    fn each_round_is_free_once_and_only_after_a_question() {
        let waiting = WaitingCalls::default();
        assert!(!waiting.ask("a"));
        let (round, _) = waiting.round("a");
        assert!(round.is_later() && round.was_charged());
        assert!(!waiting.round("a").0.is_later(), "the same round a second time");
        // If the caller cancels a round while it runs, the call ends.
        round.set_running();
        drop(RoundGuard::new(&round));
        assert!(!waiting.round("a").0.is_later());

        assert!(!waiting.ask("b"));
        assert!(waiting.ask("b"));
        let mut guard = RoundGuard::new(&waiting.round("b").0);
        guard.note(&Ok(Reply::empty()));
        drop(guard);
        assert!(waiting.0.lock().is_empty(), "the call has its answer");
    }

    #[test]
    fn a_later_round_that_did_not_run_is_free_again() {
        let waiting = WaitingCalls::default();
        let refuse = |round: &Arc<Round>, code: ErrorCode| {
            RoundGuard::new(round).note(&Err(RpcError::new(code, "no")));
        };
        refuse(&waiting.round("a").0, ErrorCode::RESOURCE_EXHAUSTED);
        assert!(!waiting.round("a").0.is_later(), "the first round of a call has counted");

        assert!(!waiting.ask("a"));
        refuse(&waiting.round("a").0, ErrorCode::RESOURCE_EXHAUSTED);
        // Simulate a call whose deadline passes while it waits, because the maximum number of calls is already running.
        let late = LifecycleError::NotStarted(Duration::from_secs(1)).into();
        RoundGuard::new(&waiting.round("a").0).note(&Err(late));
        // Simulate a connection that breaks before the round has an answer.
        drop(RoundGuard::new(&waiting.round("a").0));
        let (round, _) = waiting.round("a");
        assert!(round.is_later() && round.was_charged());
        refuse(&round, ErrorCode::UPSTREAM_ERROR);
        assert!(!waiting.round("a").0.is_later(), "the call ran and failed");

        assert!(!waiting.ask("b"));
        let free = (0..2 * MAX_ROUNDS).map(|_| waiting.round("b").0).take_while(|round| {
            refuse(round, ErrorCode::RATE_LIMITED);
            round.is_later()
        });
        assert_eq!(free.count(), 16);
    }

    #[test]
    fn a_caller_with_many_waiting_calls_does_not_end_the_wait_of_others() {
        let waiting = WaitingCalls::default();
        let insert = |who: &str, logical: String| {
            let (who, tool) = (who.to_owned(), "t".to_owned());
            let id = CallId { logical, who, server: "s".into(), tool };
            waiting.insert(id, WaitingCall { since: Instant::now(), is_charged: true, rounds: 1 });
        };
        insert("local/ann", "a".to_owned());
        for number in 0..MAX_WAITING {
            insert("local/eve", number.to_string());
        }
        assert_eq!(waiting.0.lock().len(), MAX_WAITING);
        assert!(waiting.round("a").0.is_later());
    }

    #[test]
    fn a_call_that_is_charged_while_its_second_round_runs_is_not_charged_in_the_third() {
        let waiting = WaitingCalls::default();
        let ask = |round: &Arc<Round>, asker: &Rounds| {
            let guard = RoundGuard::new(round);
            drop(asker.ask("key", CallerRequest::new("elicitation/create", Payload::null())));
            assert!(asker.take_suspended().is_some());
            guard
        };
        let (first, asker) = waiting.round("a");
        drop(ask(&first, &asker));
        let (second, asker) = waiting.round("a");
        assert!(second.is_later() && !second.was_charged());
        first.set_charged();
        drop(ask(&second, &asker));
        assert!(waiting.round("a").0.was_charged());
    }

    #[test]
    fn waiting_calls_and_their_free_rounds_are_bounded() {
        let waiting = WaitingCalls::default();
        let free = (0..2 * MAX_ROUNDS).filter(|_| waiting.ask("again")).count();
        assert_eq!(free, 30, "every seventeenth round counts");
        for number in 0..=MAX_WAITING {
            waiting.ask(&number.to_string());
        }
        assert_eq!(waiting.0.lock().len(), MAX_WAITING);
    }
}
