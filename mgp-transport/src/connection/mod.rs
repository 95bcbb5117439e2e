//! The connection driver: bytes to calls and calls to bytes (DESIGN §3 A, D, H).
//!
//! One task reads, dispatches, drives the calls and writes.
//! The reader never waits for a handler; every queue is bounded, its overflow rule is written at [`Limits`].
//!
//! Applies to: both.

mod ahead;
mod batch;
mod driver;
mod lane;
mod link;
mod outbox;
mod pending;
mod running;
mod sign;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use mgp_types::service::{Context, Peer, Principal, Scope, ScopeKind, Stack};
use tokio::io::{AsyncRead, AsyncWrite};

#[cfg(feature = "http")]
pub(crate) use self::lane::Lane;
pub(crate) use self::link::Shared;
use self::link::WireLink;
#[cfg(feature = "http")]
pub(crate) use self::link::{read_reply, write_abandoned};
use self::outbox::Outbox;
#[cfg(feature = "http")]
pub(crate) use self::pending::Next;
pub(crate) use self::pending::Pending;
#[cfg(feature = "http")]
pub(crate) use self::sign::{SIGN_BYTES, asks_for_life};

/// The bounds of a connection and what happens at each.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The longest line; a longer one is refused, the next one works. 16 MiB.
    pub line_bytes: usize,
    /// Requests of the peer that run at once; reading pauses a moment (50 ms) for one to end,
    /// then more are answered 3001. Pings wait for nothing, and 16 more of them may run: to find them 1 MiB is read ahead
    /// while reading pauses, and no more. Of these 16 up to 8 may ask for the health of the server, or shut it down. 1024.
    pub in_flight: usize,
    /// Bytes of params held for running requests and waiting notifications; requests over it are answered 3001,
    /// notifications over it are dropped if they only report, else they end the connection.
    /// As many again may wait as partial results of our own calls; those over it are dropped and counted. 64 MiB.
    pub held_bytes: usize,
    /// Notifications waiting for the one being handled; same rule. 65,536.
    pub notifications: usize,
    /// Bytes to the peer above which senders wait; at 4 times as much nothing more is read,
    /// at 8 times as much finished calls keep their answers. 1 MiB.
    pub unread_bytes: usize,
    /// How long a peer may read nothing while senders wait; then the connection ends. 30 s.
    pub stall: Duration,
    /// How long running calls may go on after the peer closed its side, or this side [ended](Connection::ending);
    /// then a peer that reads on may take [`stall`](Self::stall) in all. 2 s.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: 16 << 20,
            in_flight: 1024,
            held_bytes: 64 << 20,
            notifications: 65_536,
            unread_bytes: 1 << 20,
            stall: Duration::from_secs(30),
            linger: Duration::from_secs(2),
        }
    }
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Closed {
    /// The peer closed its side and all answers are written.
    #[error("the peer closed the connection")]
    Eof,
    /// This side closed it.
    #[error("the connection was closed on this side")]
    Local,
    /// The peer stopped reading.
    #[error("the peer did not read for {0:?}")]
    Stalled(Duration),
    /// Notifications came faster than they could be handled.
    #[error("more notifications than can be held")]
    Flooded,
    /// Reading or writing failed.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
}

/// A connection that is not driven yet.
///
/// ```
/// use mgp_transport::{Connection, duplex};
/// use mgp_types::Payload;
/// use mgp_types::method::Ping;
/// use mgp_types::service::{Call, Router, Stack};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (here, there) = duplex();
/// let router = Router::new().on::<Ping, _, _>(|_cx, _params| async { Ok(Default::default()) });
/// tokio::spawn(Connection::new(there.reader, there.writer, Stack::new(router)).run());
///
/// let connection = Connection::new(here.reader, here.writer, Stack::new(Router::new()));
/// let (peer, cx) = (connection.peer(), connection.context());
/// tokio::spawn(connection.run());
/// let reply = peer.send(Call::ask::<Ping>(&Default::default(), cx).unwrap()).await.unwrap();
/// assert_eq!(reply.as_body().unwrap().as_raw().as_str(), "{}");
/// # });
/// ```
#[must_use = "a connection does nothing until it is run"]
pub struct Connection<R, W> {
    reader: R,
    writer: W,
    stack: Stack,
    limits: Limits,
    principal: Principal,
    scope: Scope,
    shared: Arc<Shared>,
    counters: Arc<Counters>,
}

impl<R, W> Connection<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// A connection whose calls go to a stack, with the default limits, for the local principal.
    pub fn new(reader: R, writer: W, stack: Stack) -> Self {
        let limits = Limits::default();
        Self {
            reader,
            writer,
            stack,
            principal: Principal::local(),
            scope: Scope::new(ScopeKind::Connection),
            shared: shared(&limits),
            counters: Arc::default(),
            limits,
        }
    }

    /// Sets the bounds.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.shared.outbox.bound(limits.unread_bytes);
        self.shared.pending.bound(limits.held_bytes);
        self.limits = limits;
        self
    }

    /// Sets who the other end is.
    pub fn principal(mut self, principal: Principal) -> Self {
        self.principal = principal;
        self
    }

    /// The other end.
    pub fn peer(&self) -> Peer {
        Peer::new(Arc::new(WireLink(Arc::clone(&self.shared))))
    }

    /// The scope of this connection.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The surroundings of a call of our own to the other end.
    pub fn context(&self) -> Context {
        Context::new(self.peer(), self.scope.clone(), self.principal.clone())
    }

    /// A look at its tables, for health answers and tests.
    pub fn monitor(&self) -> Monitor {
        Monitor { shared: Arc::clone(&self.shared), counters: Arc::clone(&self.counters) }
    }

    /// Lets the connection be ended gracefully, while it runs.
    pub fn ending(&self) -> Ending {
        Ending(Arc::clone(&self.shared))
    }

    /// Drives the connection until it ends.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection: running calls are dropped, waiting ones fail, the scope ends.
    pub async fn run(self) -> Closed {
        driver::Driver::new(self).run().await
    }
}

pub(crate) fn shared(limits: &Limits) -> Arc<Shared> {
    Arc::new(Shared {
        outbox: Outbox::new(limits.unread_bytes),
        pending: Pending::new(limits.held_bytes),
    })
}

impl<R, W> Connection<R, W> {
    /// Fails our calls, ends the scope, lets go of what nobody will write; once more is nothing.
    fn end(&self) {
        self.shared.outbox.close();
        self.shared.outbox.discard();
        self.shared.pending.close("the connection ended");
        self.scope.end();
    }
}

/// Also when it is dropped half-way, or was never driven.
impl<R, W> Drop for Connection<R, W> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<R, W> fmt::Debug for Connection<R, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("principal", &self.principal)
            .field("scope", &self.scope)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Ends a connection gracefully.
///
/// ```
/// use mgp_transport::{Closed, Connection, duplex};
/// use mgp_types::service::{Router, Stack};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (_here, there) = duplex();
/// let connection = Connection::new(there.reader, there.writer, Stack::new(Router::new()));
/// let ending = connection.ending();
/// let running = tokio::spawn(connection.run());
/// ending.begin();
/// assert!(matches!(running.await.unwrap(), Closed::Local));
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct Ending(Arc<Shared>);

impl Ending {
    /// Says that the end is near: what runs gives its answer away and is done, however little the peer reads.
    ///
    /// What the peer asks anew is still bounded by how much it reads.
    pub fn announce(&self) {
        self.0.outbox.take_all();
    }

    /// Nothing more is read; what runs is answered, and with the last answer the connection ends.
    ///
    /// Calls that take longer than [`Limits::linger`] end with it.
    pub fn begin(&self) {
        self.0.outbox.leave();
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) running: AtomicUsize,
    pub(crate) held: AtomicUsize,
    /// Notifications that wait for the one before; a driver counts them in its lane.
    #[cfg(feature = "http")]
    pub(crate) waiting: AtomicUsize,
    unwritten: AtomicUsize,
    pub(crate) shed: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// Figures of a connection while it runs.
#[derive(Clone, Debug)]
pub struct Monitor {
    shared: Arc<Shared>,
    counters: Arc<Counters>,
}

impl Monitor {
    #[cfg(feature = "http")]
    pub(crate) fn new(shared: Arc<Shared>, counters: Arc<Counters>) -> Self {
        Self { shared, counters }
    }

    /// Requests of ours the peer has not answered.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.shared.pending.len()
    }

    /// Requests of the peer that run.
    #[must_use]
    pub fn running(&self) -> usize {
        self.counters.running.load(Ordering::Relaxed)
    }

    /// Bytes of params held for them and for waiting notifications.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.counters.held.load(Ordering::Relaxed)
    }

    /// Bytes on their way that the peer has not read.
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        self.shared.outbox.len() + self.counters.unwritten.load(Ordering::Relaxed)
    }

    /// Bytes of partial results that wait for the callers of our requests.
    #[must_use]
    pub fn inbox_bytes(&self) -> usize {
        self.shared.pending.inbox().held()
    }

    /// Partial results dropped because their callers are slow.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.shared.pending.inbox().lost()
    }

    /// Requests answered 3001 because a bound was reached.
    #[must_use]
    pub fn shed(&self) -> u64 {
        self.counters.shed.load(Ordering::Relaxed)
    }

    /// Notifications dropped because a bound was reached.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.counters.dropped.load(Ordering::Relaxed)
    }
}
