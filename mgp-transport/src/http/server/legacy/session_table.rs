//! The table of a server's sessions, with limits for their number and their idle time.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mgp_types::service::Principal;
use mgp_types::sync::Mutex;
use tokio::time::{Instant, sleep};

use super::super::event_budget::EventBudget;
use super::super::refusal::Refusal;
use super::session::Session;

/// The idle time after which a session can be evicted to make room for a new session.
const EVICTION_DELAY: Duration = Duration::from_mins(1);

/// The number of equal shares of a full table; a principal with more than one share evicts only its own sessions.
const SHARES: usize = 8;

type SessionMap = HashMap<String, Arc<Session>, ahash::RandomState>;

pub(in super::super) struct Sessions {
    table: Mutex<SessionMap>,
    budget: Arc<EventBudget>,
    bound: usize,
    idle: Duration,
    start: Instant,
    has_sweeper: AtomicBool,
    /// The end of the period in which new sessions are refused because a search found no session to evict, in seconds
    /// since `start`.
    full_until: AtomicU64,
}

impl Sessions {
    pub(in super::super) fn new(bound: usize, idle: Duration, budget: Arc<EventBudget>) -> Self {
        Self {
            table: Mutex::default(),
            budget,
            bound,
            idle,
            start: Instant::now(),
            has_sweeper: AtomicBool::new(false),
            full_until: AtomicU64::new(0),
        }
    }

    /// Opens a session for a principal.
    pub(in super::super) fn open(
        self: &Arc<Self>,
        principal: Principal,
    ) -> Result<Arc<Session>, Refusal> {
        let budget = self.budget.of_caller(&principal);
        let session =
            Session::new(principal, budget).map_err(|error| Refusal::Message(error, None))?;
        self.touch(&session);
        let evicted = {
            let mut sessions = self.table.lock();
            let evicted = if sessions.len() >= self.bound {
                self.evict(&mut sessions, session.principal())?
            } else {
                Vec::new()
            };
            sessions.insert(session.id().to_owned(), Arc::clone(&session));
            evicted
        };
        for session in evicted {
            session.end();
        }
        self.start_sweeper();
        Ok(session)
    }

    /// Finds a session of a principal; a session of another principal counts as unknown.
    pub(in super::super) fn find(&self, id: &str, principal: &Principal) -> Option<Arc<Session>> {
        let session = self.table.lock().get(id).cloned()?;
        if session.principal() != principal {
            return None;
        }
        // A handler might have closed the session meanwhile; such a session counts as unknown.
        if session.is_ended() {
            self.table.lock().remove(id);
            return None;
        }
        self.touch(&session);
        Some(session)
    }

    pub(in super::super) fn close(&self, session: &Session) {
        let removed = self.table.lock().remove(session.id());
        session.end();
        drop(removed);
    }

    pub(in super::super) fn len(&self) -> usize {
        self.table.lock().len()
    }

    /// Ends the GET stream of each session.
    pub(in super::super) fn end_streams(&self) {
        let all: Vec<_> = self.table.lock().values().cloned().collect();
        for session in all {
            // If the stream does not exist yet, it is created and ended here, so that it cannot be opened later.
            session.standalone().end();
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_secs()
    }

    fn touch(&self, session: &Session) {
        session.last_used.store(self.now(), Ordering::Relaxed);
    }

    fn idle_for(&self, session: &Session) -> Duration {
        Duration::from_secs(self.now().saturating_sub(session.last_used.load(Ordering::Relaxed)))
    }

    /// Removes the sessions that have been idle longest. Each search scans the whole table, so one search removes up to
    /// 1 % of the table.
    ///
    /// A principal with more than its share evicts only its own sessions, so that it cannot displace other principals.
    fn evict(
        &self,
        sessions: &mut SessionMap,
        principal: &Principal,
    ) -> Result<Vec<Arc<Session>>, Refusal> {
        let now = self.now();
        if now < self.full_until.load(Ordering::Relaxed) {
            return Err(Refusal::TooManySessions);
        }
        let is_own = |session: &&Arc<Session>| session.principal() == principal;
        let exceeds_share = sessions.values().filter(is_own).count() > self.bound / SHARES;
        let mut idle: Vec<_> = sessions
            .values()
            .filter(|session| !exceeds_share || is_own(session))
            .map(|session| (self.idle_for(session), session))
            .filter(|(idle, session)| *idle >= EVICTION_DELAY && session.is_idle())
            .map(|(idle, session)| (idle, session.id().to_owned()))
            .collect();
        if idle.is_empty() {
            if !exceeds_share {
                self.full_until.store(now + 1, Ordering::Relaxed);
            }
            return Err(Refusal::TooManySessions);
        }
        idle.sort_unstable_by(|one, other| other.cmp(one));
        idle.truncate((self.bound / 100).max(1));
        Ok(idle.into_iter().filter_map(|(_, id)| sessions.remove(&id)).collect())
    }

    // === Idle sessions ===

    /// Starts the task that ends idle sessions; the task runs as long as the table exists.
    fn start_sweeper(self: &Arc<Self>) {
        if self.has_sweeper.swap(true, Ordering::Relaxed) {
            return;
        }
        let table = Arc::downgrade(self);
        let interval = (self.idle / 4).clamp(Duration::from_millis(100), Duration::from_mins(1));
        tokio::spawn(async move {
            loop {
                sleep(interval).await;
                let Some(table) = table.upgrade() else { return };
                table.sweep();
            }
        });
    }

    fn sweep(&self) {
        let expired: Vec<_> = {
            let mut sessions = self.table.lock();
            let is_expired = |session: &Session| {
                let idle = session.is_idle();
                if !idle {
                    self.touch(session);
                }
                idle && self.idle_for(session) >= self.idle
            };
            sessions
                .extract_if(|_, session| is_expired(session))
                .map(|(_, session)| session)
                .collect()
        };
        if !expired.is_empty() {
            tracing::debug!(sessions = expired.len(), "ended idle sessions");
        }
        for session in expired {
            session.end();
        }
    }
}

/// Ends all sessions when the server is dropped.
impl Drop for Sessions {
    fn drop(&mut self) {
        for session in std::mem::take(&mut *self.table.lock()).into_values() {
            session.end();
        }
    }
}

mgp_types::opaque_debug!(Sessions);
