//! The limit for the events that all streams keep together, and the share of it that each caller can use.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mgp_types::service::Principal;
use mgp_types::sync::Mutex;

use super::config::HttpConfig;
use crate::http::caller_share::{Caller, max_share};

/// The divisor for the reserved part: a caller can use an eighth of its equal share even if the other callers have
/// filled the budget.
const RESERVED_PART: usize = 8;

/// The limit for the events that all streams of a server keep together, and the settings of these streams.
#[derive(Debug)]
pub(super) struct EventBudget {
    /// The total size of the events that are kept, in bytes.
    stored_bytes: AtomicUsize,
    /// The maximum of `stored_bytes` (`HttpConfig::store_bytes`).
    max_bytes: usize,
    /// The number of bytes that a single stream can keep for a client that resumes it (`HttpConfig::replay_bytes`).
    pub(super) replay_bytes: usize,
    /// The maximum time for which senders wait for a reader.
    pub(super) stall_timeout: Duration,
    /// The time that a client should wait before it resumes a stream.
    pub(super) retry_delay: Duration,
    /// The budgets of callers that have sessions.
    callers: Mutex<HashMap<Caller, Weak<CallerBudget>, ahash::RandomState>>,
    /// The number of callers' budgets that exist; it determines the equal share of each caller.
    count: AtomicUsize,
}

/// The events that the streams of one caller keep.
#[derive(Debug)]
pub(super) struct CallerBudget {
    pub(super) all: Arc<EventBudget>,
    /// The caller; `None` for the streams of all callers without sessions, which keep only unread events.
    caller: Option<Caller>,
    stored_bytes: AtomicUsize,
}

impl EventBudget {
    pub(super) fn new(config: &HttpConfig) -> Arc<Self> {
        Arc::new(Self {
            stored_bytes: AtomicUsize::new(0),
            max_bytes: config.store_bytes,
            replay_bytes: config.replay_bytes,
            stall_timeout: config.stall_timeout,
            retry_delay: config.retry_delay,
            callers: Mutex::default(),
            count: AtomicUsize::new(0),
        })
    }

    /// Returns the total size of the events that are kept, in bytes.
    pub(super) fn stored_bytes(&self) -> usize {
        self.stored_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn of_caller(self: &Arc<Self>, principal: &Principal) -> Arc<CallerBudget> {
        let caller = Caller::of(principal);
        let mut callers = self.callers.lock();
        if let Some(budget) = callers.get(&caller).and_then(Weak::upgrade) {
            return budget;
        }
        let budget = self.budget(Some(caller.clone()));
        callers.insert(caller, Arc::downgrade(&budget));
        budget
    }

    /// Returns the budget of streams without a session.
    pub(super) fn without_session(self: &Arc<Self>) -> Arc<CallerBudget> {
        self.budget(None)
    }

    fn budget(self: &Arc<Self>, caller: Option<Caller>) -> Arc<CallerBudget> {
        self.count.fetch_add(1, Ordering::Relaxed);
        Arc::new(CallerBudget { all: Arc::clone(self), caller, stored_bytes: AtomicUsize::new(0) })
    }
}

impl CallerBudget {
    /// Returns whether the caller has used up its share of the budget, so that its streams must not keep more events.
    pub(super) fn is_full(&self) -> bool {
        let own = self.stored_bytes.load(Ordering::Relaxed);
        if own <= max_share(self.all.max_bytes, self.all.stored_bytes()) {
            return false;
        }
        let callers = self.all.count.load(Ordering::Relaxed).max(1);
        own > self.all.max_bytes / callers / RESERVED_PART
    }

    /// Counts an event that a stream keeps.
    pub(super) fn add(&self, bytes: usize) {
        self.stored_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.all.stored_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Stops counting events that were dropped.
    pub(super) fn remove(&self, bytes: usize) {
        self.stored_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.all.stored_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for CallerBudget {
    fn drop(&mut self) {
        self.all.count.fetch_sub(1, Ordering::Relaxed);
        let Some(caller) = &self.caller else { return };
        let mut callers = self.all.callers.lock();
        // The caller might have opened another session meanwhile, and then has a newer budget, which must stay in the
        // table.
        if callers.get(caller).is_some_and(|known| known.strong_count() == 0) {
            callers.remove(caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budgets(bound: usize) -> (Arc<EventBudget>, impl Fn(&str) -> Arc<CallerBudget>) {
        let config = HttpConfig { store_bytes: bound, ..HttpConfig::default() };
        let all = EventBudget::new(&config);
        let own = Arc::clone(&all);
        (all, move |name: &str| own.of_caller(&Principal::new("t", name)))
    }

    #[test]
    fn a_caller_fills_its_share_and_leaves_room_for_others() {
        let (all, caller) = budgets(9_000);
        let ann = caller("ann");
        while !ann.is_full() {
            ann.add(100);
        }
        assert_eq!(all.stored_bytes(), 8_100);
        assert!(caller("ann").is_full(), "all sessions of a caller share its budget");
        let bob = caller("bob");
        bob.add(800);
        assert!(!bob.is_full());
        // Even if others exceed the budget, a caller has room for some events.
        ann.add(9_000);
        assert!(bob.is_full());
        bob.remove(400);
        assert!(!bob.is_full());
        ann.remove(17_100);
        bob.remove(400);
        drop((ann, bob));
        assert_eq!((all.stored_bytes(), all.callers.lock().len()), (0, 0));
    }
}
