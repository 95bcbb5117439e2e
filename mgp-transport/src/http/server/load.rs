//! What a server holds at once, of all its callers, and which share of it is whose.
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_types::service::Principal;

use super::refusal::Refusal;
use crate::connection::MAX_PING_BYTES;

/// Requests beyond the bound that may be read to find out whether they ask for a sign of life.
const SPARE: usize = 64;

/// What one caller may have, measured by what is free: so there is always room for somebody new.
///
/// A caller alone gets to eight ninths of all there is; two get to eight seventeenths each, and so on.
const TIMES_WHAT_IS_FREE: usize = 8;

/// The gauges.
#[derive(Debug, Default)]
pub(super) struct Load {
    running: AtomicUsize,
    held: AtomicUsize,
    shares: Mutex<HashMap<Who, Arc<Share>, ahash::RandomState>>,
}

/// A caller, whatever agent it acts through: tenant and subject.
#[derive(Clone, Debug)]
struct Who(Principal);

/// The gauges of one caller; forgotten with its last request.
#[derive(Debug)]
struct Share {
    who: Who,
    requests: AtomicUsize,
    running: AtomicUsize,
    held: AtomicUsize,
}

impl Load {
    /// Requests that run.
    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::Relaxed)
    }

    /// Bytes of their bodies.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Counts a request of a caller until the guard is dropped.
    pub(super) fn enter(
        self: &Arc<Self>,
        principal: &Principal,
        bound: usize,
    ) -> Result<Busy, Refusal> {
        let busy = self.enter_for_life(principal, bound)?;
        busy.refusal().map_or(Ok(busy), Err)
    }

    /// The same, but beyond a bound a few more are let in to say what they want: they may only ask for a sign of life.
    pub(super) fn enter_for_life(
        self: &Arc<Self>,
        principal: &Principal,
        bound: usize,
    ) -> Result<Busy, Refusal> {
        let share = self.share(principal);
        let before = self.running.fetch_add(1, Ordering::Relaxed);
        let own = share.running.fetch_add(1, Ordering::Relaxed);
        let most = bound.saturating_sub(before).saturating_mul(TIMES_WHAT_IS_FREE);
        let spare = match () {
            () if before >= bound => Some(Beyond::Bound),
            () if own >= most => Some(Beyond::Share),
            () => None,
        };
        let busy = Busy { load: Arc::clone(self), share, runs: true, bytes: 0, spare };
        if before >= bound.saturating_add(SPARE) {
            return Err(Refusal::Busy);
        }
        if own >= most.saturating_add(SPARE) { Err(Refusal::Share) } else { Ok(busy) }
    }

    /// The share of a caller, with one more request in it.
    fn share(&self, principal: &Principal) -> Arc<Share> {
        let who = Who(principal.clone());
        let mut shares = self.shares();
        if let Some(share) = shares.get(&who) {
            share.requests.fetch_add(1, Ordering::Relaxed);
            return Arc::clone(share);
        }
        let share = Arc::new(Share {
            who: who.clone(),
            requests: AtomicUsize::new(1),
            running: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
        });
        shares.insert(who, Arc::clone(&share));
        share
    }

    fn shares(&self) -> MutexGuard<'_, HashMap<Who, Arc<Share>, ahash::RandomState>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request that runs, and the bytes of its body.
#[derive(Debug)]
pub(super) struct Busy {
    load: Arc<Load>,
    share: Arc<Share>,
    runs: bool,
    bytes: usize,
    /// Beyond which bound it is: then it may only ask for a sign of life.
    spare: Option<Beyond>,
}

/// What there is no more room in.
#[derive(Clone, Copy, Debug)]
enum Beyond {
    /// The server.
    Bound,
    /// What one caller may have.
    Share,
}

impl Busy {
    /// Holds so many bytes more.
    pub(super) fn hold(&mut self, bytes: usize, bound: usize) -> Result<(), Refusal> {
        self.bytes += bytes;
        let held = self.load.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let own = self.share.held.fetch_add(bytes, Ordering::Relaxed) + bytes;
        // A single body within its own bound always fits an idle server.
        let most = bound.saturating_sub(held).saturating_mul(TIMES_WHAT_IS_FREE);
        if held > bound && held > self.bytes {
            self.spare = Some(Beyond::Bound);
        } else if own > most && own > self.bytes {
            self.spare.get_or_insert(Beyond::Share);
        }
        self.within_spare(self.bytes)
    }

    /// Whether it may only ask for a sign of life.
    pub(super) fn is_spare(&self) -> bool {
        self.spare.is_some()
    }

    /// What it is told where it asks for anything else.
    pub(super) fn refusal(&self) -> Option<Refusal> {
        self.spare.map(|beyond| match beyond {
            Beyond::Bound => Refusal::Busy,
            Beyond::Share => Refusal::Share,
        })
    }

    /// Refuses a body that is too long for a sign of life, where it may be nothing else.
    pub(super) fn within_spare(&self, bytes: usize) -> Result<(), Refusal> {
        if bytes > MAX_PING_BYTES { self.refusal().map_or(Ok(()), Err) } else { Ok(()) }
    }

    /// Holds on to its bytes only: it waits for news and does nothing.
    pub(super) fn stop_running(&mut self) {
        if std::mem::take(&mut self.runs) {
            self.load.running.fetch_sub(1, Ordering::Relaxed);
            self.share.running.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop_running();
        self.load.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.share.held.fetch_sub(self.bytes, Ordering::Relaxed);
        if self.share.requests.fetch_sub(1, Ordering::AcqRel) == 1 {
            let mut shares = self.load.shares();
            // Another may have come since, and have gone; then a later one has a share of its own there.
            let is_this = |known: &Arc<Share>| Arc::ptr_eq(known, &self.share);
            if self.share.requests.load(Ordering::Acquire) == 0
                && shares.get(&self.share.who).is_some_and(is_this)
            {
                shares.remove(&self.share.who);
            }
        }
    }
}

// === impl Who ===

impl PartialEq for Who {
    fn eq(&self, other: &Self) -> bool {
        self.0.subject() == other.0.subject() && self.0.tenant() == other.0.tenant()
    }
}

impl Eq for Who {}

impl Hash for Who {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.tenant().hash(state);
        self.0.subject().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(name: &str) -> Principal {
        Principal::new("t", name)
    }

    /// As many requests as a caller gets in.
    fn flood(load: &Arc<Load>, name: &str, bound: usize) -> Vec<Busy> {
        std::iter::from_fn(|| load.enter(&who(name), bound).ok()).collect()
    }

    #[test]
    fn a_flood_leaves_room_for_others() {
        let load = Arc::new(Load::default());
        let ann = flood(&load, "ann", 900);
        assert_eq!(ann.len(), 800);
        assert!(matches!(load.enter(&who("ann").agent("x"), 900), Err(Refusal::Share)));
        let bob = flood(&load, "bob", 900);
        assert_eq!(bob.len(), 89);
        let cyd = flood(&load, "cyd", 900);
        assert!(!cyd.is_empty() && load.running() < 900);
        // Once the first gives back, the others grow, and it cannot come back to where it was.
        drop(ann);
        let more = flood(&load, "bob", 900);
        assert!(bob.len() + more.len() > 700);
        assert!(flood(&load, "ann", 900).len() < 100);
        drop((bob, cyd, more));
        assert_eq!((load.running(), load.held(), load.shares().len()), (0, 0, 0));
    }

    #[test]
    fn small_bounds_are_there_for_one_caller_as_well() {
        for bound in 1..9 {
            let load = Arc::new(Load::default());
            assert_eq!(flood(&load, "ann", bound).len(), bound);
            let all = flood(&load, "ann", bound);
            assert!(matches!(load.enter(&who("bob"), bound), Err(Refusal::Busy)));
            drop(all);
            assert_eq!(load.shares().len(), 0);
        }
    }

    #[test]
    fn bytes_have_shares_too_and_one_body_always_fits() {
        let load = Arc::new(Load::default());
        let mut first = load.enter(&who("ann"), 99).unwrap();
        first.hold(1_000, 1_000).unwrap();
        drop(first);
        let mut bodies: Vec<_> = (0..9).map(|_| load.enter(&who("ann"), 99).unwrap()).collect();
        for body in &mut bodies[..8] {
            body.hold(10_000, 90_000).unwrap();
        }
        assert!(matches!(bodies[8].hold(10_000, 90_000), Err(Refusal::Share)));
        bodies.pop();
        let mut other = load.enter(&who("bob"), 99).unwrap();
        other.hold(10_000, 90_000).unwrap();
        assert!(matches!(other.hold(10_000, 90_000), Err(Refusal::Busy)));
        drop((bodies, other));
        assert_eq!((load.running(), load.held(), load.shares().len()), (0, 0, 0));
    }

    #[test]
    fn who_only_listens_takes_no_share_of_what_runs() {
        let load = Arc::new(Load::default());
        let mut listens = load.enter(&who("ann"), 1).unwrap();
        listens.stop_running();
        assert!(load.enter(&who("ann"), 1).is_ok());
        drop(listens);
        assert_eq!((load.running(), load.shares().len()), (0, 0));
    }
}
