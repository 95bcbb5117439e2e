//! The permits of requests that run at the same time. One caller can have only a share of them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mgp_types::service::Principal;
use mgp_types::sync::Mutex;
use tokio::sync::oneshot;

use crate::http::caller_share::{Caller, max_share};

/// A limited number of permits. Each caller can have only a share of them, so that some permits of a large limit are
/// left for other callers.
pub(super) struct Permits {
    bound: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    taken: usize,
    /// The sequence number for the next request that has to wait.
    next: u64,
    /// The callers that have permits or wait for a permit.
    callers: HashMap<Caller, CallerPermits, ahash::RandomState>,
}

#[derive(Default)]
struct CallerPermits {
    taken: usize,
    /// The waiting requests, in the order of arrival.
    waiting: BTreeMap<u64, oneshot::Sender<Permit>>,
}

/// A permit. When it is dropped, a waiting request gets a permit.
pub(super) struct Permit {
    permits: Arc<Permits>,
    caller: Caller,
}

/// A guard for a request's place in the queue of its caller. Dropping the guard removes the request from the queue.
struct QueuePlace<'a> {
    permits: &'a Permits,
    caller: Caller,
    number: u64,
}

impl Permits {
    pub(super) fn new(bound: usize) -> Arc<Self> {
        Arc::new(Self { bound, state: Mutex::default() })
    }

    /// Returns a permit if the caller can have one now.
    pub(super) fn try_acquire(self: &Arc<Self>, principal: &Principal) -> Option<Permit> {
        let caller = Caller::of(principal);
        let is_taken = self.state.lock().take(&caller, self.bound);
        is_taken.then(|| self.permit(caller))
    }

    /// Waits for a permit. The requests of one caller get their permits in the order of arrival.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped; the request leaves the queue.
    pub(super) async fn acquire(self: &Arc<Self>, principal: &Principal) -> Permit {
        let (granted, place) = {
            let caller = Caller::of(principal);
            let mut state = self.state.lock();
            if state.take(&caller, self.bound) {
                drop(state);
                return self.permit(caller);
            }
            let number = state.next;
            state.next += 1;
            let (permit, granted) = oneshot::channel();
            state.callers.entry(caller.clone()).or_default().waiting.insert(number, permit);
            (granted, QueuePlace { permits: self, caller, number })
        };
        let permit = granted.await.expect("`place` keeps the sender in the queue");
        drop(place);
        permit
    }

    fn permit(self: &Arc<Self>, caller: Caller) -> Permit {
        Permit { permits: Arc::clone(self), caller }
    }
}

impl State {
    /// Counts a permit for a caller and returns `true`, unless the caller has used up its share or already has requests
    /// that wait.
    fn take(&mut self, caller: &Caller, bound: usize) -> bool {
        let most = max_share(bound, self.taken);
        let own = self.callers.get(caller);
        if own.map_or(0, |own| own.taken) >= most || own.is_some_and(|own| !own.waiting.is_empty())
        {
            return false;
        }
        self.taken += 1;
        self.callers.entry(caller.clone()).or_default().taken += 1;
        true
    }

    /// Removes the waiting request that gets the next permit: the oldest request of the caller with the fewest permits.
    /// Returns `None` if no request waits, or if the callers of all waiting requests have their share.
    fn next_waiting(&mut self, bound: usize) -> Option<(Caller, oneshot::Sender<Permit>)> {
        let most = max_share(bound, self.taken);
        let (caller, own) = self
            .callers
            .iter_mut()
            .filter(|(_, own)| !own.waiting.is_empty() && own.taken < most)
            .min_by_key(|(_, own)| own.taken)?;
        let (_, permit) = own.waiting.pop_first()?;
        own.taken += 1;
        self.taken += 1;
        Some((caller.clone(), permit))
    }

    /// Removes the entry of a caller that has no permits and no waiting requests.
    fn forget_idle(&mut self, caller: &Caller) {
        if self.callers.get(caller).is_some_and(|own| own.taken == 0 && own.waiting.is_empty()) {
            self.callers.remove(caller);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut granted = Vec::new();
        {
            let mut state = self.permits.state.lock();
            state.taken -= 1;
            if let Some(own) = state.callers.get_mut(&self.caller) {
                own.taken -= 1;
            }
            while let Some((caller, waiting)) = state.next_waiting(self.permits.bound) {
                granted.push((waiting, self.permits.permit(caller)));
            }
            state.forget_idle(&self.caller);
        }
        // A permit whose request was dropped meanwhile is dropped too, so it is granted again.
        for (waiting, permit) in granted {
            let _ = waiting.send(permit);
        }
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut state = self.permits.state.lock();
        let waiting =
            state.callers.get_mut(&self.caller).and_then(|own| own.waiting.remove(&self.number));
        state.forget_idle(&self.caller);
        drop(state);
        drop(waiting);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn caller(name: &str) -> Principal {
        Principal::new("t", name)
    }

    fn flood(permits: &Arc<Permits>, name: &str) -> Vec<Permit> {
        std::iter::from_fn(|| permits.try_acquire(&caller(name))).collect()
    }

    fn is_unused(permits: &Permits) -> bool {
        let state = permits.state.lock();
        state.taken == 0 && state.callers.is_empty()
    }

    #[test]
    fn a_caller_with_many_slow_requests_leaves_permits_for_others() {
        let permits = Permits::new(9);
        let ann = flood(&permits, "ann");
        assert_eq!(ann.len(), 8);
        assert!(permits.acquire(&caller("ann")).now_or_never().is_none(), "it waits for its own");
        let bob = permits.acquire(&caller("bob")).now_or_never();
        assert!(bob.is_some());
        drop((ann, bob));
        assert!(is_unused(&permits));
    }

    #[test]
    fn a_free_permit_goes_to_the_caller_with_the_fewest_and_then_in_order() {
        let permits = Permits::new(2);
        let mut running = flood(&permits, "ann");
        assert_eq!(running.len(), 2);
        let (ann, bob) = (caller("ann"), caller("bob"));
        let mut gone = Box::pin(permits.acquire(&ann));
        let mut first = Box::pin(permits.acquire(&ann));
        let mut second = Box::pin(permits.acquire(&ann));
        let mut other = Box::pin(permits.acquire(&bob));
        for waiting in [&mut gone, &mut first, &mut second, &mut other] {
            assert!(waiting.now_or_never().is_none());
        }
        drop(gone);
        running.pop();
        // The next permit goes to the caller without a permit, and the permit after it to the oldest request.
        assert!((&mut first).now_or_never().is_none());
        drop((&mut other).now_or_never().unwrap());
        assert!((&mut second).now_or_never().is_none());
        drop((&mut first).now_or_never().unwrap());
        // A permit that was granted but never received must be granted again.
        drop(second);
        running.clear();
        assert!(is_unused(&permits));
    }
}
