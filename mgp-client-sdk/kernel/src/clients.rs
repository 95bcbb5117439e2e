//! Who is connected to a kernel.
//!
//! Applies to: inbound.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use mgp_types::Timestamp;
use mgp_types::service::Principal;
use tokio::sync::watch;
use tokio::time::Instant;

/// How long a caller counts as seen lately that has neither connection nor session.
const LATELY: Duration = Duration::from_mins(5);

/// So many of those are known; further ones are served all the same.
const CALLERS: usize = 1024;

/// Who talks to a kernel, a cheap handle: whoever accepts a connection that lasts enters it here.
///
/// The kernel adds who comes over HTTP: sessions as long as they last, and callers that stand alone for five minutes
/// after their last call. Nobody waits for those: they are in the list, and not in the count.
///
/// ```
/// use mgp_kernel::{Carrier, Clients};
/// use mgp_types::service::Principal;
///
/// let clients = Clients::default();
/// let present = clients.enter(Principal::local().agent("ada"), Carrier::Socket);
/// assert_eq!(clients.list()[0].principal.as_agent().unwrap().as_str(), "ada");
/// drop(present);
/// assert_eq!(clients.count(), 0);
/// ```
#[derive(Clone, Default)]
pub struct Clients(Arc<Inner>);

#[derive(Default)]
struct Inner {
    table: Mutex<Table>,
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// Whether anybody connected yet.
    came: bool,
    there: BTreeMap<u64, Connected>,
    /// Who called lately over HTTP, without a session.
    lately: HashMap<Principal, Called, ahash::RandomState>,
}

/// When somebody called.
struct Called {
    since: Timestamp,
    last: Instant,
}

/// A connection, a session, or a caller that stands alone.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Connected {
    /// Who is at its other end.
    pub principal: Principal,
    /// What it comes over.
    pub carrier: Carrier,
    /// Since when.
    pub since: Timestamp,
    /// When it last called, of one that is known by its calls only.
    pub last_seen: Option<Timestamp>,
}

/// What a connection comes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Carrier {
    /// The standard streams of the kernel's own process.
    Stdio,
    /// The local socket.
    Socket,
    /// HTTP.
    Http,
}

/// A connection is there as long as this lives.
#[derive(Debug)]
#[must_use = "the connection counts as gone when this is dropped"]
pub struct Present {
    clients: Clients,
    number: u64,
}

// === impl Clients ===

impl Clients {
    /// Notes a connection.
    pub fn enter(&self, principal: Principal, carrier: Carrier) -> Present {
        let connected = Connected { principal, carrier, since: Timestamp::now(), last_seen: None };
        let number = self.change(|table| {
            let number = table.next;
            table.came |= carrier != Carrier::Http;
            table.next += 1;
            table.there.insert(number, connected);
            number
        });
        Present { clients: self.clone(), number }
    }

    /// Notes a call over HTTP that belongs to no session.
    pub(super) fn called(&self, principal: &Principal) {
        let mut table = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        let (lately, now) = (&mut table.lately, Instant::now());
        if let Some(called) = lately.get_mut(principal) {
            if !called.is_lately(now) {
                called.since = Timestamp::now();
            }
            called.last = now;
            return;
        }
        if lately.len() >= CALLERS {
            lately.retain(|_, called| called.is_lately(now));
        }
        if lately.len() < CALLERS {
            lately.insert(principal.clone(), Called { since: Timestamp::now(), last: now });
        }
    }

    /// All that are there, the longest first, and then who called lately.
    #[must_use]
    pub fn list(&self) -> Vec<Connected> {
        let table = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = table.there.values().cloned().collect();
        drop(table);
        all.extend(self.lately());
        all
    }

    /// Who called lately over HTTP, without a session.
    pub(super) fn lately(&self) -> Vec<Connected> {
        let mut table = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        table.lately.retain(|_, called| called.is_lately(now));
        let mut all: Vec<_> = table
            .lately
            .iter()
            .map(|(principal, called)| Connected {
                principal: principal.clone(),
                carrier: Carrier::Http,
                since: called.since.clone(),
                last_seen: Some((SystemTime::now() - called.last.elapsed()).into()),
            })
            .collect();
        drop(table);
        all.sort_by(|one, other| one.since.as_str().cmp(other.since.as_str()));
        all
    }

    /// How many connections there are that the kernel stays for.
    #[must_use]
    pub fn count(&self) -> usize {
        *self.0.count.borrow()
    }

    /// Waits until somebody has been here.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn came(&self) {
        let mut count = self.0.count.subscribe();
        while !self.0.table.lock().unwrap_or_else(PoisonError::into_inner).came {
            // It is never closed: this handle holds it.
            let _ = count.changed().await;
        }
    }

    /// Waits until there was none for so long.
    ///
    /// # Cancel safety
    /// May be dropped at any time; called again the time begins anew.
    pub async fn absent(&self, so_long: Duration) {
        let mut count = self.0.count.subscribe();
        loop {
            // It is never closed: this handle holds it.
            let _ = count.wait_for(|count| *count == 0).await;
            if tokio::time::timeout(so_long, count.wait_for(|count| *count > 0)).await.is_err() {
                return;
            }
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = change(&mut table);
        let stays = table.there.values().filter(|one| one.carrier != Carrier::Http).count();
        self.0.count.send_replace(stays);
        changed
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list()).finish()
    }
}

// === impl Called ===

impl Called {
    fn is_lately(&self, now: Instant) -> bool {
        now.duration_since(self.last) < LATELY
    }
}

// === impl Carrier ===

impl Carrier {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Socket => "socket",
            Self::Http => "http",
        }
    }
}

// === impl Present ===

impl Drop for Present {
    fn drop(&mut self) {
        self.clients.change(|table| table.there.remove(&self.number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nobody_is_absent_who_came_back() {
        let clients = Clients::default();
        let (first, watched) =
            (clients.enter(Principal::local(), Carrier::Socket), clients.clone());
        let waits = tokio::spawn(async move { watched.absent(Duration::from_secs(30)).await });
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(!waits.is_finished());
        drop(first);
        tokio::time::sleep(Duration::from_secs(29)).await;
        let second = clients.enter(Principal::local(), Carrier::Stdio);
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert!(!waits.is_finished());
        drop(second);
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert!(waits.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_those_who_come_over_http() {
        let clients = Clients::default();
        let session = clients.enter(Principal::local().agent("ada"), Carrier::Http);
        clients.called(&Principal::local().agent("bob"));
        assert_eq!((clients.list().len(), clients.count()), (2, 0));
        let came = tokio::time::timeout(Duration::from_hours(1), clients.came()).await;
        assert!(came.is_err(), "whom a kernel was started for comes by the socket");
        clients.absent(Duration::from_secs(30)).await;
        drop(session);
        assert!(clients.list().is_empty(), "and he has not called for an hour");
    }

    #[tokio::test(start_paused = true)]
    async fn who_called_lately_is_known_for_five_minutes() {
        let (clients, ada) = (Clients::default(), Principal::local().agent("ada"));
        clients.called(&ada);
        tokio::time::advance(Duration::from_mins(4)).await;
        clients.called(&ada);
        tokio::time::advance(Duration::from_mins(4)).await;
        let known = clients.list();
        assert_eq!((known.len(), known[0].carrier), (1, Carrier::Http));
        assert!(known[0].last_seen.is_some());
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(clients.list().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_over_http_takes_no_more_room() {
        let clients = Clients::default();
        for number in 0..2 * CALLERS {
            clients.called(&Principal::local().agent(number.to_string().as_str()));
        }
        assert_eq!(clients.list().len(), CALLERS);
        tokio::time::advance(LATELY).await;
        clients.called(&Principal::local().agent("ada"));
        assert_eq!(clients.list().len(), 1, "those who left make room");
    }
}
