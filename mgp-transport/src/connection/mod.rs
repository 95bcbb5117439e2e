//! Connections over a byte stream: they convert bytes to calls, and calls to bytes.
//!
//! One task reads, dispatches, drives the calls and writes. It never waits for a handler before it reads on. Every
//! queue is bounded; [`Limits`] documents what happens when a queue is full.

mod answering;
mod closing;
mod dispatch;
mod driver;
mod gauges;
mod line_joiner;
mod link;
mod notifications;
mod outbox;
mod pending;
mod priority;
mod read_pause;
mod reading;
mod running;
mod stray_lines;
mod writing;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use mgp_types::service::{Context, Peer, Principal, Scope, ScopeKind, Stack};
use tokio::io::{AsyncRead, AsyncWrite};

use self::link::ConnectionLink;
pub(crate) use self::link::SendHalf;
#[cfg(feature = "http")]
pub(crate) use self::link::{read_reply, write_cancelled};
#[cfg(feature = "http")]
pub(crate) use self::notifications::NotificationQueue;
#[cfg(feature = "http")]
pub(crate) use self::pending::{PendingRequests, SlotEvent};
#[cfg(feature = "http")]
pub(crate) use self::priority::{MAX_PING_BYTES, is_ping};
#[cfg(feature = "http")]
pub(crate) use self::running::MAX_SHORT_ANSWER;
use self::stray_lines::StrayLines;

/// Limits of a connection, and what happens when each is reached.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limits {
    /// The maximum length of a line. A longer line is refused; the lines after it are handled
    /// as usual. Default: 16 MiB.
    pub line_bytes: usize,
    /// The maximum number of the peer's requests that run at the same time. At the limit, reading pauses until a
    /// request ends, but for 50 ms at most; after that, further requests are answered with code 3001 (resource
    /// exhausted). Pings need not wait: up to 16 of them can run beyond the limit, and up to 1 MiB is read ahead during
    /// a pause to find them. Requests for the server's health or shutdown can use up to 8 of these 16 places. Default:
    /// 1024.
    pub in_flight: usize,
    /// The maximum total size of the params of running requests, of waiting notifications, and of the answers of
    /// batches that are not complete. A request that exceeds it is answered with code 3001 (resource exhausted). Two
    /// kinds of requests are exempt: a request that runs alone, and a small request that is a ping or asks for the
    /// server's health or shutdown. For a notification, only the other waiting notifications count, so a single one may
    /// be of any size. A notification that exceeds the limit is dropped if it only reports something (progress, logs,
    /// chunks); otherwise the connection ends. A long answer of a batch is replaced by an error with code 5000
    /// (upstream error). Partial results of calls that this side made have a separate limit of the same size; those
    /// that exceed it are dropped and counted. Default: 64 MiB.
    pub held_bytes: usize,
    /// The maximum number of queued notifications; a further notification is dropped or ends the connection, like a
    /// notification that exceeds `held_bytes`. Default: 65,536.
    pub notifications: usize,
    /// The number of bytes, queued for the peer or being written, at which senders wait, and at which the connection
    /// ends if the peer reads nothing for [`stall_timeout`](Self::stall_timeout). At 4 times this number, reading
    /// stops; at 8 times this number, the answers of finished calls wait until the peer reads. Default: 1 MiB.
    pub unread_bytes: usize,
    /// The maximum time for which the peer reads nothing while at least [`unread_bytes`](Self::unread_bytes) bytes are
    /// queued or being written; after it, the connection ends, even if no sender waits. A
    /// [child](Connection::for_child) gets more time while it has a call that it has not answered. Default: 30 s.
    pub stall_timeout: Duration,
    /// The maximum time for running calls to complete after the peer closed its side, or this side
    /// [closed](Connection::close_handle) the connection. If the peer closed its side, streams of changes
    /// (`subscriptions/listen`) end once all other calls have completed and nothing was sent for 100 ms. While a peer
    /// reads, but slower than this side writes, the time starts again, up to [`stall_timeout`](Self::stall_timeout) in
    /// total. Default: 2 s.
    pub linger_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            line_bytes: 16 << 20,
            in_flight: 1024,
            held_bytes: 64 << 20,
            notifications: 65_536,
            unread_bytes: 1 << 20,
            stall_timeout: Duration::from_secs(30),
            linger_timeout: Duration::from_secs(2),
        }
    }
}

/// The reason why a connection ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer closed its side. Answers were still written, within [`Limits::linger_timeout`].
    #[error("the peer closed the connection")]
    Eof,
    /// This side closed the connection.
    #[error("the connection was closed on this side")]
    Local,
    /// The peer read nothing for the given time, although at least [`Limits::unread_bytes`] bytes were queued for it or
    /// being written.
    #[error("the peer did not read for {}", mgp_types::duration_words(*.0))]
    Stalled(Duration),
    /// Notifications arrived faster than they could be handled.
    #[error("more notifications than can be held")]
    Flooded,
    /// Reading or writing failed.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
}

/// A connection over a reader and a writer. It does nothing until [`run`](Self::run) is called
/// and its future is polled.
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
    send_half: Arc<SendHalf>,
    counters: Arc<Counters>,
    peer_kind: PeerKind,
}

/// The kind of the peer: it determines which mistakes of the peer are tolerated.
enum PeerKind {
    /// A peer that sends one message per line and nothing else.
    Exact,
    /// A child process, i.e. a server whose stdout this side reads. Programs print to it by mistake, and some write
    /// messages in other forms, so:
    /// - Lines that are not messages are reported, and not answered unless they have an `id` and a `method`.
    /// - A message may follow escape sequences of a terminal, or have line breaks. Part of a message is ignored at the
    ///   end of the stream.
    /// - The params of a request may be `null`, and an array may contain answers in any revision.
    /// - A request that the child printed back is not answered.
    /// - The child may read nothing for longer than the stall timeout while it has a call.
    Child(StrayLines),
}

impl<R, W> Connection<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    /// Creates a connection that dispatches the peer's calls to `stack`, with the default limits and the local
    /// principal.
    pub fn new(reader: R, writer: W, stack: Stack) -> Self {
        let limits = Limits::default();
        Self {
            reader,
            writer,
            stack,
            principal: Principal::local(),
            scope: Scope::new(ScopeKind::Connection),
            send_half: Arc::new(SendHalf::new(&limits)),
            counters: Arc::default(),
            peer_kind: PeerKind::Exact,
            limits,
        }
    }

    /// Sets the limits of this connection; the default is [`Limits::default`].
    pub fn limits(mut self, limits: Limits) -> Self {
        self.send_half.outbox.set_high_mark(limits.unread_bytes);
        self.send_half.pending.set_bound(limits.held_bytes);
        self.limits = limits;
        self
    }

    /// Sets the principal for whom the peer's calls are made. Default: the local principal.
    pub fn principal(mut self, principal: Principal) -> Self {
        self.principal = principal;
        self
    }

    /// Declares the peer a child process, whose stdout this side reads. Servers print other lines to it by mistake,
    /// which this side then does not answer, because the server might print the answer too. Messages in arrays, with
    /// line breaks or after escape sequences are read, requests that the child prints back are ignored, and a child
    /// that runs a call need not read (see [`Limits::stall_timeout`]).
    ///
    /// The callback receives the first 20 lines that are not messages and not blank. Each line is cut to 4 KiB, and its
    /// control characters are escaped. The callback runs on the task that reads, so it must not block.
    pub fn for_child(mut self, on_stray_line: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.peer_kind = PeerKind::Child(StrayLines::new(on_stray_line));
        self
    }

    /// Returns a handle through which this side calls the peer.
    pub fn peer(&self) -> Peer {
        Peer::new(Arc::new(ConnectionLink(Arc::clone(&self.send_half))))
    }

    /// Returns the scope of this connection.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Creates a context for a call from this side to the peer.
    pub fn context(&self) -> Context {
        Context::new(self.peer(), self.scope.clone(), self.principal.clone())
    }

    /// Returns a handle to the counters of this connection, for health answers and tests.
    pub fn monitor(&self) -> ConnectionMonitor {
        ConnectionMonitor {
            send_half: Arc::clone(&self.send_half),
            counters: Arc::clone(&self.counters),
        }
    }

    /// Returns a handle for ending the connection gracefully from another task.
    pub fn close_handle(&self) -> CloseHandle {
        CloseHandle(Arc::clone(&self.send_half))
    }

    /// Drives the connection until it ends.
    ///
    /// # Cancel safety
    /// Dropping the future ends the connection: running calls are dropped, calls that wait for an answer fail, and the
    /// scope ends.
    pub async fn run(self) -> CloseReason {
        driver::Driver::new(self).run().await
    }
}

impl<R, W> Connection<R, W> {
    fn is_child(&self) -> bool {
        matches!(self.peer_kind, PeerKind::Child(_))
    }

    /// Fails the unanswered requests of this side, drops the queued bytes and ends the scope; a
    /// second call does nothing.
    fn end(&self) {
        self.send_half.outbox.close();
        self.send_half.outbox.discard();
        self.send_half.pending.close("the connection ended");
        self.scope.end();
    }
}

/// Ends the connection even if it is dropped while it runs, or before it was run.
impl<R, W> Drop for Connection<R, W> {
    fn drop(&mut self) {
        self.end();
    }
}

mgp_types::opaque_debug!(Connection<R, W> { principal, scope, limits });

/// A handle that ends a connection gracefully.
///
/// ```
/// use mgp_transport::{CloseReason, Connection, duplex};
/// use mgp_types::service::{Router, Stack};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let (_here, there) = duplex();
/// let connection = Connection::new(there.reader, there.writer, Stack::new(Router::new()));
/// let ending = connection.close_handle();
/// let running = tokio::spawn(connection.run());
/// ending.drain();
/// assert!(matches!(running.await.unwrap(), CloseReason::Local));
/// # });
/// ```
#[derive(Clone, Debug)]
pub struct CloseHandle(Arc<SendHalf>);

impl CloseHandle {
    /// Announces the end of the connection: running calls complete and queue their answers, even
    /// if the peer does not read.
    ///
    /// The peer can still send new requests, as long as it reads the answers.
    pub fn announce(&self) {
        self.0.outbox.accept_all_answers();
    }

    /// Stops reading. Running calls, and requests that have been read already, are still answered; the connection ends
    /// after the last answer.
    ///
    /// Calls that take too long are dropped; see [`Limits::linger_timeout`].
    pub fn drain(&self) {
        self.0.outbox.drain();
    }
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) running: AtomicUsize,
    pub(crate) held: AtomicUsize,
    /// The number of queued notifications. Only the HTTP client uses it; the driver of a byte stream counts its own
    /// queue.
    #[cfg(feature = "http")]
    pub(crate) waiting: AtomicUsize,
    /// The ability of the peer to send requests, as far as it is known.
    #[cfg(feature = "http")]
    pub(crate) back_channel: crate::http::SeenBackChannel,
    pub(crate) shed: AtomicU64,
    pub(crate) dropped: AtomicU64,
}

/// The counters of a running connection.
#[derive(Clone, Debug)]
pub struct ConnectionMonitor {
    send_half: Arc<SendHalf>,
    counters: Arc<Counters>,
}

impl ConnectionMonitor {
    #[cfg(feature = "http")]
    pub(crate) fn new(send_half: Arc<SendHalf>, counters: Arc<Counters>) -> Self {
        Self { send_half, counters }
    }

    /// Returns the number of this side's requests that the peer has not answered.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.send_half.pending.len()
    }

    /// Returns the number of the peer's requests that are running.
    #[must_use]
    pub fn running(&self) -> usize {
        self.counters.running.load(Ordering::Relaxed)
    }

    /// Returns the total size, in bytes, of the params of running requests, of waiting notifications, and of the
    /// answers of batches that are not complete.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.counters.held.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that are queued for the peer or being written.
    #[must_use]
    pub fn unread_bytes(&self) -> usize {
        self.send_half.outbox.unwritten()
    }

    /// Returns the size, in bytes, of partial results that the callers on this side have not consumed yet.
    #[must_use]
    pub fn inbox_bytes(&self) -> usize {
        self.send_half.pending.inbox().held()
    }

    /// Returns the number of partial results that were dropped because their callers consumed them too slowly.
    #[must_use]
    pub fn dropped_items(&self) -> u64 {
        self.send_half.pending.inbox().lost()
    }

    /// Returns the number of requests answered with code 3001 because a limit was reached.
    #[must_use]
    pub fn shed(&self) -> u64 {
        self.counters.shed.load(Ordering::Relaxed)
    }

    /// Returns the number of notifications dropped because a limit was reached.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.counters.dropped.load(Ordering::Relaxed)
    }

    /// Returns whether the peer, if it is a legacy server, can send requests to this side while it answers a call.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn back_channel(&self) -> crate::http::BackChannel {
        self.counters.back_channel.get()
    }

    /// Returns whether the peer, a legacy server at a URL, has opened a stream for messages outside of calls.
    #[cfg(feature = "http")]
    #[must_use]
    pub fn has_session_stream(&self) -> bool {
        self.counters.back_channel.has_session_stream()
    }
}
