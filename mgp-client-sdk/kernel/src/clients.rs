//! The clients that are connected to a kernel.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_types::Timestamp;
use mgp_types::service::{Principal, TenantId};
use mgp_types::sync::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

/// The time for which a caller without a connection or session stays in the list after its last call.
const RECENT_TTL: Duration = Duration::from_mins(5);

/// The maximum number of recent callers in the list. The kernel serves further callers too, but does not list them.
const MAX_RECENT: usize = 1024;

/// The clients of a kernel. This handle is cheap to clone.
///
/// A program that accepts connections adds its clients here. The kernel itself adds HTTP clients: sessions while they
/// last, and callers without a session for five minutes after their last call. HTTP clients appear in
/// [`list`](Self::list), but not in [`count`](Self::count).
///
/// ```
/// use mgp_kernel::{ClientTransport, Clients};
/// use mgp_types::service::Principal;
///
/// let clients = Clients::default();
/// let present = clients.add(Principal::local().agent("ada"), ClientTransport::Socket);
/// assert_eq!(clients.list()[0].principal.as_agent().unwrap().as_str(), "ada");
/// drop(present);
/// assert_eq!(clients.count(), 0);
/// ```
#[derive(Clone, Default)]
pub struct Clients(Arc<ClientTable>);

#[derive(Default)]
struct ClientTable {
    table: Mutex<Table>,
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct Table {
    next: u64,
    /// `true` once any client has connected over a transport other than HTTP.
    has_connected: bool,
    connected: BTreeMap<u64, ConnectedClient>,
    /// The callers over HTTP that have no session.
    recent: HashMap<Principal, RecentCaller, ahash::RandomState>,
}

struct RecentCaller {
    since: Timestamp,
    last_call: Instant,
}

/// A connection, a session, or a caller without either that has called recently.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectedClient {
    /// The principal on whose behalf the client calls.
    pub principal: Principal,
    /// The transport of the client.
    pub transport: ClientTransport,
    /// The time when the client connected, or made its first call.
    pub since: Timestamp,
    /// The time of the last call; set only for a caller without a connection or session.
    pub last_seen: Option<Timestamp>,
}

/// The transport of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ClientTransport {
    /// The standard streams of the kernel's own process.
    Stdio,
    /// The client is connected through the kernel's local socket.
    Socket,
    /// The client sends its requests over HTTP.
    Http,
}

/// An entry of [`Clients`]. The client counts as connected until this guard is dropped.
#[derive(Debug)]
#[must_use = "the client counts as disconnected when this is dropped"]
pub struct ClientGuard {
    clients: Clients,
    number: u64,
    /// `true` if [`Clients::count`] includes the client.
    is_counted: bool,
}

impl Clients {
    /// Adds a connected client, which is listed until the returned guard is dropped.
    pub fn add(&self, principal: Principal, transport: ClientTransport) -> ClientGuard {
        let since = Timestamp::now();
        let connected = ConnectedClient { principal, transport, since, last_seen: None };
        let is_counted = transport != ClientTransport::Http;
        let number = {
            let mut table = self.0.table.lock();
            table.has_connected |= is_counted;
            table.next += 1;
            let number = table.next;
            table.connected.insert(number, connected);
            number
        };
        self.0.count.send_modify(|count| *count += usize::from(is_counted));
        ClientGuard { clients: self.clone(), number, is_counted }
    }

    /// Adds a caller over HTTP that has no session, if there is room, or updates the time of its last call.
    pub(super) fn note_call(&self, principal: &Principal) {
        let mut table = self.0.table.lock();
        let (recent, now) = (&mut table.recent, Instant::now());
        if let Some(caller) = recent.get_mut(principal) {
            if !caller.is_recent(now) {
                caller.since = Timestamp::now();
            }
            caller.last_call = now;
            return;
        }
        if recent.len() >= MAX_RECENT {
            recent.retain(|_, caller| caller.is_recent(now));
        }
        if recent.len() < MAX_RECENT {
            let caller = RecentCaller { since: Timestamp::now(), last_call: now };
            recent.insert(principal.clone(), caller);
        }
    }

    /// Removes the recent callers of a removed tenant.
    pub(super) fn forget_tenant(&self, tenant: &TenantId) {
        self.0.table.lock().recent.retain(|principal, _| principal.tenant() != tenant);
    }

    /// Returns the connected clients, the oldest first, and then the recent callers.
    #[must_use]
    pub fn list(&self) -> Vec<ConnectedClient> {
        let mut all: Vec<_> = self.0.table.lock().connected.values().cloned().collect();
        all.extend(self.recent());
        all
    }

    /// Returns the recent callers over HTTP that have no session.
    pub(super) fn recent(&self) -> Vec<ConnectedClient> {
        let mut table = self.0.table.lock();
        let now = Instant::now();
        table.recent.retain(|_, caller| caller.is_recent(now));
        let mut all: Vec<_> = table
            .recent
            .iter()
            .map(|(principal, caller)| ConnectedClient {
                principal: principal.clone(),
                transport: ClientTransport::Http,
                since: caller.since.clone(),
                last_seen: Some((SystemTime::now() - caller.last_call.elapsed()).into()),
            })
            .collect();
        drop(table);
        all.sort_by(|one, other| one.since.as_str().cmp(other.since.as_str()));
        all
    }

    /// Returns the number of clients that are connected over transports other than HTTP.
    #[must_use]
    pub fn count(&self) -> usize {
        *self.0.count.borrow()
    }

    /// Waits until a client has connected over a transport other than HTTP.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time.
    pub async fn connected(&self) {
        let mut count = self.0.count.subscribe();
        while !self.0.table.lock().has_connected {
            // `self` owns the sender, so the channel cannot be closed here.
            let _ = count.changed().await;
        }
    }

    /// Waits until the [count](Self::count) has been zero for the given time without interruption.
    ///
    /// # Cancel safety
    /// May be dropped at any time; the next call waits for the whole time again.
    pub async fn idle_for(&self, time: Duration) {
        let mut count = self.0.count.subscribe();
        loop {
            let _ = count.wait_for(|count| *count == 0).await;
            if tokio::time::timeout(time, count.wait_for(|count| *count > 0)).await.is_err() {
                return;
            }
        }
    }
}

mgp_types::opaque_debug!(Clients);

impl RecentCaller {
    fn is_recent(&self, now: Instant) -> bool {
        now.duration_since(self.last_call) < RECENT_TTL
    }
}

impl ClientTransport {
    /// Returns the transport's name, as `mgp status` shows it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Socket => "socket",
            Self::Http => "http",
        }
    }
}

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.clients.0.table.lock().connected.remove(&self.number);
        self.clients.0.count.send_modify(|count| *count -= usize::from(self.is_counted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reconnects_ends_the_absence() {
        let clients = Clients::default();
        let (first, watched) =
            (clients.add(Principal::local(), ClientTransport::Socket), clients.clone());
        let waits = tokio::spawn(async move { watched.idle_for(Duration::from_secs(30)).await });
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(!waits.is_finished());
        drop(first);
        tokio::time::sleep(Duration::from_secs(29)).await;
        let second = clients.add(Principal::local(), ClientTransport::Stdio);
        tokio::time::sleep(Duration::from_secs(29)).await;
        assert!(!waits.is_finished());
        drop(second);
        tokio::time::sleep(Duration::from_secs(31)).await;
        assert!(waits.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn http_clients_are_listed_but_not_counted() {
        let clients = Clients::default();
        let session = clients.add(Principal::local().agent("ada"), ClientTransport::Http);
        clients.note_call(&Principal::local().agent("bob"));
        assert_eq!((clients.list().len(), clients.count()), (2, 0));
        let came = tokio::time::timeout(Duration::from_hours(1), clients.connected()).await;
        assert!(came.is_err(), "no client has connected by the socket");
        clients.idle_for(Duration::from_secs(30)).await;
        drop(session);
        assert!(clients.list().is_empty(), "the caller has not called for an hour");
    }

    #[test]
    fn the_cost_of_a_connection_does_not_grow_with_the_number_of_others() {
        let (clients, begun) = (Clients::default(), Instant::now());
        let connect = |_| clients.add(Principal::local(), ClientTransport::Http);
        let all: Vec<_> = (0..30_000).map(connect).collect();
        drop(all);
        assert!(clients.list().is_empty());
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_recent_caller_is_listed_for_five_minutes() {
        let (clients, ada) = (Clients::default(), Principal::local().agent("ada"));
        clients.note_call(&ada);
        tokio::time::advance(Duration::from_mins(4)).await;
        clients.note_call(&ada);
        tokio::time::advance(Duration::from_mins(4)).await;
        let listed = clients.list();
        assert_eq!((listed.len(), listed[0].transport), (1, ClientTransport::Http));
        assert!(listed[0].last_seen.is_some());
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(clients.list().is_empty());
    }

    #[test]
    fn the_recent_callers_of_a_removed_tenant_are_not_listed() {
        let (clients, local) = (Clients::default(), Principal::local().agent("ada"));
        clients.note_call(&local);
        clients.note_call(&Principal::new("acme", "ann").agent("ada"));
        clients.forget_tenant(&TenantId::from("acme"));
        let listed = clients.list();
        assert!(listed.len() == 1 && listed[0].principal == local, "{listed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_number_of_recent_callers_is_bounded() {
        let clients = Clients::default();
        for number in 0..2 * MAX_RECENT {
            clients.note_call(&Principal::local().agent(number.to_string().as_str()));
        }
        assert_eq!(clients.list().len(), MAX_RECENT);
        tokio::time::advance(RECENT_TTL).await;
        clients.note_call(&Principal::local().agent("ada"));
        assert_eq!(clients.list().len(), 1, "expired callers make room");
    }
}
