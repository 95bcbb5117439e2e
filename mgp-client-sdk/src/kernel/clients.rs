//! Who is connected to a kernel.
//!
//! Applies to: inbound.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use mgp_types::Timestamp;
use mgp_types::service::Principal;
use tokio::sync::watch;

/// The connections of a kernel that last, a cheap handle: whoever accepts one enters it here.
///
/// Requests over HTTP come and go, and are not among them.
///
/// ```
/// use mgp_client_sdk::{Carrier, Clients};
/// use mgp_client_sdk::types::service::Principal;
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
    there: BTreeMap<u64, Connected>,
}

/// A connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Connected {
    /// Who is at its other end.
    pub principal: Principal,
    /// What it comes over.
    pub carrier: Carrier,
    /// Since when.
    pub since: Timestamp,
}

/// What a connection comes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Carrier {
    /// The standard streams of the kernel's own process.
    Stdio,
    /// The local socket.
    Socket,
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
        let connected = Connected { principal, carrier, since: Timestamp::now() };
        let number = self.change(|table| {
            let number = table.next;
            table.next += 1;
            table.there.insert(number, connected);
            number
        });
        Present { clients: self.clone(), number }
    }

    /// All connections, the longest first.
    #[must_use]
    pub fn list(&self) -> Vec<Connected> {
        let table = self.0.table.lock().unwrap_or_else(PoisonError::into_inner);
        table.there.values().cloned().collect()
    }

    /// How many there are.
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
        while self.0.table.lock().unwrap_or_else(PoisonError::into_inner).next == 0 {
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
        self.0.count.send_replace(table.there.len());
        changed
    }
}

impl fmt::Debug for Clients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list()).finish()
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
}
