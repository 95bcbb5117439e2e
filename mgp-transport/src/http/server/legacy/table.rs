//! The sessions of a server: bounded in number and in idle time.
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgp_types::service::Principal;
use tokio::time::{Instant, sleep};

use super::super::refusal::Refusal;
use super::super::stream::Store;
use super::session::Session;

/// A session used more recently does not make room for another.
const FRESH: Duration = Duration::from_mins(1);

/// Into how many shares the table is divided where it is full.
const SHARES: usize = 8;

type Known = HashMap<String, Arc<Session>, ahash::RandomState>;

/// The table.
pub(in super::super) struct Sessions {
    known: Mutex<Known>,
    store: Arc<Store>,
    bound: usize,
    idle: Duration,
    start: Instant,
    is_swept: AtomicBool,
    /// Until when, in seconds, there is no room: nobody was idle long enough when it was looked for.
    full_until: AtomicU64,
}

impl Sessions {
    pub(in super::super) fn new(bound: usize, idle: Duration, store: Arc<Store>) -> Self {
        Self {
            known: Mutex::default(),
            store,
            bound,
            idle,
            start: Instant::now(),
            is_swept: AtomicBool::new(false),
            full_until: AtomicU64::new(0),
        }
    }

    /// Opens a session for a principal.
    pub(in super::super) fn open(
        self: &Arc<Self>,
        principal: Principal,
    ) -> Result<Arc<Session>, Refusal> {
        let session = Session::new(principal, Arc::clone(&self.store))
            .map_err(|error| Refusal::Message(error, None))?;
        self.touch(&session);
        let made_room = {
            let mut known = self.known();
            let made_room = if known.len() >= self.bound {
                self.make_room(&mut known, session.principal())?
            } else {
                Vec::new()
            };
            known.insert(session.id().to_owned(), Arc::clone(&session));
            made_room
        };
        for left in made_room {
            left.end();
        }
        self.sweep_from_now_on();
        Ok(session)
    }

    /// Finds a session of a principal; one of somebody else's is as unknown as any other.
    pub(in super::super) fn find(&self, id: &str, principal: &Principal) -> Option<Arc<Session>> {
        let session = self.known().get(id).cloned()?;
        if session.principal() != principal {
            return None;
        }
        // A handler may have closed it.
        if session.is_over() {
            self.known().remove(id);
            return None;
        }
        self.touch(&session);
        Some(session)
    }

    /// Ends a session.
    pub(in super::super) fn close(&self, session: &Session) {
        let known = self.known().remove(session.id());
        session.end();
        drop(known);
    }

    pub(in super::super) fn len(&self) -> usize {
        self.known().len()
    }

    /// Ends the streams that belong to no call.
    pub(in super::super) fn end_streams(&self) {
        let all: Vec<_> = self.known().values().cloned().collect();
        for session in all {
            // A stream that was not opened yet ends for who opens it now.
            session.standalone().end();
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_secs()
    }

    fn touch(&self, session: &Session) {
        session.used.store(self.now(), Ordering::Relaxed);
    }

    fn idle_for(&self, session: &Session) -> Duration {
        Duration::from_secs(self.now().saturating_sub(session.used.load(Ordering::Relaxed)))
    }

    /// Takes out the sessions that are idle longest: several, so that the next ones need no look at all of them.
    ///
    /// Who has more than a share of them makes room among its own, so that nobody shuts out everybody else.
    fn make_room(
        &self,
        known: &mut Known,
        principal: &Principal,
    ) -> Result<Vec<Arc<Session>>, Refusal> {
        let now = self.now();
        if now < self.full_until.load(Ordering::Relaxed) {
            return Err(Refusal::TooManySessions);
        }
        let of_its_own = |session: &&Arc<Session>| session.principal() == principal;
        let has_its_share = known.values().filter(of_its_own).count() > self.bound / SHARES;
        let mut idle: Vec<_> = known
            .values()
            .filter(|session| !has_its_share || of_its_own(session))
            .map(|session| (self.idle_for(session), session))
            .filter(|(idle, session)| *idle >= FRESH && session.is_idle())
            .map(|(idle, session)| (idle, session.id().to_owned()))
            .collect();
        if idle.is_empty() {
            if !has_its_share {
                self.full_until.store(now + 1, Ordering::Relaxed);
            }
            return Err(Refusal::TooManySessions);
        }
        idle.sort_unstable_by(|one, other| other.cmp(one));
        idle.truncate((self.bound / 100).max(1));
        Ok(idle.into_iter().filter_map(|(_, id)| known.remove(&id)).collect())
    }

    // === Idle sessions ===

    /// Sees that idle sessions end, as long as the table lives.
    fn sweep_from_now_on(self: &Arc<Self>) {
        if self.is_swept.swap(true, Ordering::Relaxed) {
            return;
        }
        let table = Arc::downgrade(self);
        let pause = (self.idle / 4).clamp(Duration::from_millis(100), Duration::from_mins(1));
        tokio::spawn(async move {
            loop {
                sleep(pause).await;
                let Some(table) = table.upgrade() else { return };
                table.sweep();
            }
        });
    }

    fn sweep(&self) {
        let over: Vec<_> = {
            let mut known = self.known();
            let is_over = |session: &Session| {
                let idle = session.is_idle();
                if !idle {
                    self.touch(session);
                }
                idle && self.idle_for(session) >= self.idle
            };
            known.extract_if(|_, session| is_over(session)).map(|(_, session)| session).collect()
        };
        if !over.is_empty() {
            tracing::debug!(sessions = over.len(), "idle sessions ended");
        }
        for session in over {
            session.end();
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sessions end with the server they belong to.
impl Drop for Sessions {
    fn drop(&mut self) {
        for session in std::mem::take(&mut *self.known()).into_values() {
            session.end();
        }
    }
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({})", self.len())
    }
}
