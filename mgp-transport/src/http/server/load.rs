//! The load of a server, and the share of it that each caller can use.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mgp_types::service::Principal;
use mgp_types::sync::Mutex;

use super::refusal::Refusal;
use crate::connection::MAX_PING_BYTES;
use crate::http::caller_share::{Caller, max_share};

/// The maximum number of requests that are read at the same time although the limit of running requests is reached, to
/// check whether they are pings, answers or cancellations.
const MAX_EXTRA_REQUESTS: usize = 64;

/// The maximum size, in bytes, of the body of a request that is above a limit. An answer with the fields of a form fits
/// into this size.
const MAX_EXTRA_BYTES: usize = 64 * 1024;

/// The counts of the running requests of a server and the bytes of their bodies, in total and for each caller.
#[derive(Debug, Default)]
pub(super) struct Load {
    running: AtomicUsize,
    body_bytes: AtomicUsize,
    callers: Mutex<HashMap<Caller, Arc<CallerLoad>, ahash::RandomState>>,
}

/// The load of one caller; removed when the caller's last request ends.
#[derive(Debug)]
struct CallerLoad {
    caller: Caller,
    requests: AtomicUsize,
    running: AtomicUsize,
    body_bytes: AtomicUsize,
}

impl Load {
    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Returns the total size, in bytes, of the request bodies in memory.
    pub(super) fn body_bytes(&self) -> usize {
        self.body_bytes.load(Ordering::Relaxed)
    }

    /// Counts a request of a caller until the returned guard is dropped; fails if the request exceeds a limit.
    pub(super) fn admit(
        self: &Arc<Self>,
        principal: &Principal,
        bound: usize,
    ) -> Result<LoadGuard, Refusal> {
        let guard = self.admit_extra(principal, bound)?;
        guard.refusal().map_or(Ok(guard), Err)
    }

    /// Admits a request like [`admit`](Self::admit), but also up to 64 requests that exceed a limit. These are served
    /// only if they are pings, answers or cancellations.
    pub(super) fn admit_extra(
        self: &Arc<Self>,
        principal: &Principal,
        bound: usize,
    ) -> Result<LoadGuard, Refusal> {
        let share = self.add_request(principal);
        let before = self.running.fetch_add(1, Ordering::Relaxed);
        let own = share.running.fetch_add(1, Ordering::Relaxed);
        let most = max_share(bound, before);
        let exceeded = if before >= bound {
            Some(ExceededLimit::Server)
        } else if own >= most {
            Some(ExceededLimit::Caller)
        } else {
            None
        };
        let guard = LoadGuard { load: Arc::clone(self), share, runs: true, bytes: 0, exceeded };
        if before >= bound.saturating_add(MAX_EXTRA_REQUESTS) {
            return Err(Refusal::Busy);
        }
        if own >= most.saturating_add(MAX_EXTRA_REQUESTS) {
            Err(Refusal::CallerBusy)
        } else {
            Ok(guard)
        }
    }

    fn add_request(&self, principal: &Principal) -> Arc<CallerLoad> {
        let caller = Caller::of(principal);
        let mut callers = self.callers.lock();
        if let Some(share) = callers.get(&caller) {
            share.requests.fetch_add(1, Ordering::Relaxed);
            return Arc::clone(share);
        }
        let share = Arc::new(CallerLoad {
            caller: caller.clone(),
            requests: AtomicUsize::new(1),
            running: AtomicUsize::new(0),
            body_bytes: AtomicUsize::new(0),
        });
        callers.insert(caller, Arc::clone(&share));
        share
    }
}

/// A guard that counts one running request, and the bytes of its body, until the guard is dropped.
#[derive(Debug)]
pub(super) struct LoadGuard {
    load: Arc<Load>,
    share: Arc<CallerLoad>,
    runs: bool,
    bytes: usize,
    /// The limit that the request exceeds, if any; such a request is served only if it is a ping, an answer or a
    /// cancellation.
    exceeded: Option<ExceededLimit>,
}

/// The limit that a request exceeds.
#[derive(Clone, Copy, Debug)]
enum ExceededLimit {
    /// A limit for the requests of all callers together.
    Server,
    /// The share of one caller in a limit for all callers.
    Caller,
}

impl LoadGuard {
    /// Counts bytes of the body; fails if they exceed a limit, unless the body is still short enough for a ping.
    pub(super) fn add_bytes(&mut self, bytes: usize, bound: usize) -> Result<(), Refusal> {
        self.bytes += bytes;
        let all = self.load.body_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let own = self.share.body_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // A body is always accepted if no other body is in memory, whatever `bound` is.
        let most = max_share(bound, all);
        if all > bound && all > self.bytes {
            self.exceeded = Some(ExceededLimit::Server);
        } else if own > most && own > self.bytes {
            self.exceeded.get_or_insert(ExceededLimit::Caller);
        } else {
            return self.check_extra_size(self.bytes);
        }
        // Every running request can exceed the limit of bytes, so each may do so only with a body that is short enough
        // for a ping.
        if self.bytes > MAX_PING_BYTES { self.refusal().map_or(Ok(()), Err) } else { Ok(()) }
    }

    /// Stops counting bytes that exceeded a limit, so that fewer bytes can be added instead.
    pub(super) fn remove_bytes(&mut self, bytes: usize) {
        self.exceeded = None;
        self.bytes -= bytes;
        self.load.body_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.share.body_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Returns a guard that counts further bytes for the same caller, and no running request.
    pub(super) fn for_more_bytes(&self) -> Self {
        self.share.requests.fetch_add(1, Ordering::Relaxed);
        let (load, share) = (Arc::clone(&self.load), Arc::clone(&self.share));
        Self { load, share, runs: false, bytes: 0, exceeded: None }
    }

    /// Returns whether the request is served only if it is a ping, an answer or a cancellation.
    pub(super) fn is_extra(&self) -> bool {
        self.exceeded.is_some()
    }

    /// Returns the refusal of a request that exceeds a limit.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.exceeded.map(|limit| match limit {
            ExceededLimit::Server => Refusal::Busy,
            ExceededLimit::Caller => Refusal::CallerBusy,
        })
    }

    /// If a limit is exceeded, refuses the request unless its body is short enough for a ping, an answer or a
    /// cancellation, which are served even then.
    pub(super) fn check_extra_size(&self, bytes: usize) -> Result<(), Refusal> {
        if bytes > MAX_EXTRA_BYTES { self.refusal().map_or(Ok(()), Err) } else { Ok(()) }
    }

    /// Stops counting the request as running, because it only waits for events; its bytes are still counted.
    pub(super) fn stop_running(&mut self) {
        if std::mem::take(&mut self.runs) {
            self.load.running.fetch_sub(1, Ordering::Relaxed);
            self.share.running.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.stop_running();
        self.load.body_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.share.body_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.share.requests.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut callers = self.load.callers.lock();
            // Check again under the lock: meanwhile, a new request of the caller may use this entry, or another guard
            // may have removed it and a still later request may have added a new entry.
            let is_this = |known: &Arc<CallerLoad>| Arc::ptr_eq(known, &self.share);
            if self.share.requests.load(Ordering::Acquire) == 0
                && callers.get(&self.share.caller).is_some_and(is_this)
            {
                callers.remove(&self.share.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(name: &str) -> Principal {
        Principal::new("t", name)
    }

    /// Starts requests of a caller until a request is refused.
    fn flood(load: &Arc<Load>, name: &str, bound: usize) -> Vec<LoadGuard> {
        std::iter::from_fn(|| load.admit(&caller(name), bound).ok()).collect()
    }

    #[test]
    fn a_flood_leaves_room_for_others() {
        let load = Arc::new(Load::default());
        let ann = flood(&load, "ann", 900);
        assert_eq!(ann.len(), 800);
        assert!(matches!(load.admit(&caller("ann"), 900), Err(Refusal::CallerBusy)));
        let bob = flood(&load, "bob", 900);
        assert_eq!(bob.len(), 89);
        let cyd = flood(&load, "cyd", 900);
        assert!(!cyd.is_empty() && load.running() < 900);
        // When the first caller releases its requests, the other callers get more, so the first caller cannot get its
        // old share again.
        drop(ann);
        let more = flood(&load, "bob", 900);
        assert!(bob.len() + more.len() > 700);
        assert!(flood(&load, "ann", 900).len() < 100);
        drop((bob, cyd, more));
        assert_eq!((load.running(), load.body_bytes(), load.callers.lock().len()), (0, 0, 0));
    }

    #[test]
    fn the_key_of_one_agent_leaves_room_for_the_other_agents_of_the_user() {
        let load = Arc::new(Load::default());
        let greedy = || load.admit(&caller("local").agent("greedy"), 900).ok();
        let all: Vec<_> = std::iter::from_fn(greedy).collect();
        assert_eq!(all.len(), 800);
        assert!(load.admit(&caller("local").agent("quiet"), 900).is_ok());
    }

    #[test]
    fn a_single_caller_gets_all_of_a_small_limit() {
        for bound in 1..9 {
            let load = Arc::new(Load::default());
            assert_eq!(flood(&load, "ann", bound).len(), bound);
            let all = flood(&load, "ann", bound);
            assert!(matches!(load.admit(&caller("bob"), bound), Err(Refusal::Busy)));
            drop(all);
            assert_eq!(load.callers.lock().len(), 0);
        }
    }

    #[test]
    fn bytes_have_shares_too_and_one_body_always_fits() {
        let load = Arc::new(Load::default());
        let mut first = load.admit(&caller("ann"), 99).unwrap();
        first.add_bytes(1_000, 1_000).unwrap();
        drop(first);
        let mut bodies: Vec<_> = (0..9).map(|_| load.admit(&caller("ann"), 99).unwrap()).collect();
        for body in &mut bodies[..8] {
            body.add_bytes(10_000, 90_000).unwrap();
        }
        assert!(matches!(bodies[8].add_bytes(10_000, 90_000), Err(Refusal::CallerBusy)));
        bodies.pop();
        let mut other = load.admit(&caller("bob"), 99).unwrap();
        other.add_bytes(10_000, 90_000).unwrap();
        assert!(matches!(other.add_bytes(10_000, 90_000), Err(Refusal::Busy)));
        drop((bodies, other));
        assert_eq!((load.running(), load.body_bytes(), load.callers.lock().len()), (0, 0, 0));
    }

    #[test]
    fn a_request_beyond_the_limit_has_room_for_an_answer_and_no_more() {
        let load = Arc::new(Load::default());
        let _running = load.admit(&caller("ann"), 1).unwrap();
        let mut extra = load.admit_extra(&caller("ann"), 1).unwrap();
        assert!(extra.is_extra());
        extra.add_bytes(MAX_EXTRA_BYTES, 1 << 20).unwrap();
        assert!(matches!(extra.add_bytes(1, 1 << 20), Err(Refusal::Busy)));
    }

    #[test]
    fn a_listening_request_takes_no_share_of_the_running_ones() {
        let load = Arc::new(Load::default());
        let mut listens = load.admit(&caller("ann"), 1).unwrap();
        listens.stop_running();
        assert!(load.admit(&caller("ann"), 1).is_ok());
        drop(listens);
        assert_eq!((load.running(), load.callers.lock().len()), (0, 0));
    }
}
