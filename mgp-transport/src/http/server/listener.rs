//! Accepts connections and passes their requests to a service.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower_service::Service;

use super::accept_failures::AcceptFailures;
use super::address_limit::{AddressCounts, CountedConnection};
#[cfg(feature = "http2")]
use super::http2;
use super::refusal::Refusal;
use super::timeout_socket::TimeoutSocket;
use super::tls::ServerTls;
use super::tracking::{Activity, TrackedService};

/// The limits for the connections of a listener.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionLimits {
    /// The maximum number of open connections; further connections wait to be accepted. Default: 32,768.
    pub connections: usize,
    /// The maximum number of connections from one IPv4 address or one 64-bit IPv6 network; further connections are
    /// closed, without TLS usually after an answer with 429. Default: 256.
    ///
    /// Behind a proxy, all connections have the proxy's address, so this limit must be raised there.
    pub per_address: usize,
    /// The maximum number of connections from one loopback address, as local proxies and tests use. Default: 16,384.
    pub per_loopback: usize,
    /// The time within which the head of a request must arrive, counted from the start of the connection or the last
    /// answer. It is checked in intervals of this length, so a slow client can take up to twice as long. Default: 30 s.
    pub head_timeout: Duration,
    /// The maximum length of the head of a request. A head that is incomplete after this many bytes gets 431, as does a
    /// head with more than 100 headers. Default: 64 KiB, at least 8 KiB.
    pub head_bytes: usize,
    /// The time within which a client must read at least 4 KiB while data waits for it; a slower client is
    /// disconnected. Over HTTP/2, a client must also read at least 16 KiB of each answer that waits for it; otherwise,
    /// this answer ends, and the others continue. Default: 30 s.
    pub stall_timeout: Duration,
    /// The time for which running answers can continue after the listener was stopped. Default: 5 s.
    pub drain_timeout: Duration,
    /// The counter of the listener's open connections.
    pub open: OpenConnections,
}

/// The number of a listener's open connections; clones share one counter.
#[derive(Clone, Debug, Default)]
pub struct OpenConnections(Arc<AtomicUsize>);

impl OpenConnections {
    /// Returns the number of open connections.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn enter(&self) -> OpenGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        OpenGuard(self.clone())
    }
}

struct OpenGuard(OpenConnections);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 32_768,
            per_address: 256,
            per_loopback: 16_384,
            head_timeout: Duration::from_secs(30),
            head_bytes: 64 * 1024,
            stall_timeout: Duration::from_secs(30),
            drain_timeout: Duration::from_secs(5),
            open: OpenConnections::default(),
        }
    }
}

/// The delay before the next accept after a failure, e.g. because the system has no more descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// The maximum number of rejected connections that are being answered; further rejected connections are closed without
/// an answer.
const MAX_REJECTIONS: usize = 64;

/// The maximum time for answering one connection that the listener rejects.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// The last second that an HTTP date can express, counted from the start of 1970: the end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// A listener that is bound to an address, with or without TLS.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    tls: Option<ServerTls>,
}

impl From<TcpListener> for Listener {
    fn from(tcp: TcpListener) -> Self {
        Self { tcp, tls: None }
    }
}

impl Listener {
    /// Makes the listener use TLS on all connections.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self
    }
}

/// Serves connections until `stop` completes, then waits until the running answers are sent, for up to
/// [`drain_timeout`](ConnectionLimits::drain_timeout).
///
/// # Cancel safety
/// Dropping the future ends all connections immediately.
pub async fn listen<S, R>(
    listener: impl Into<Listener>,
    service: S,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) where
    S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let Listener { tcp: listener, tls } = listener.into();
    let room = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let addresses = Arc::new(AddressCounts::new(&limits));
    let rejections = Arc::new(Semaphore::new(MAX_REJECTIONS));
    let (stopping, stopped) = watch::channel(false);
    let (mut connections, mut failures) = (JoinSet::new(), AcceptFailures::default());
    let mut stop = pin!(stop);
    loop {
        // Forget the tasks of connections that have ended.
        while connections.try_join_next().is_some() {}
        let accepted = pin!(async {
            // The permit is always `Some`, because the semaphore is never closed.
            let permit = Arc::clone(&room).acquire_owned().await.ok();
            (listener.accept().await, permit)
        });
        let (accepted, permit) = match select(accepted, stop.as_mut()).await {
            Either::Left((accepted, _)) => accepted,
            Either::Right(_) => break,
        };
        match accepted {
            Ok((socket, from)) => {
                let counted = match admit(&addresses, from.ip(), SystemTime::now()) {
                    Ok(counted) => counted,
                    Err(refusal) => {
                        log_rejection(&refusal, from, &mut failures);
                        // A client that expects TLS could not read an unencrypted answer, so it gets none.
                        let answers =
                            tls.is_none().then(|| Arc::clone(&rejections).try_acquire_owned());
                        if let Some(Ok(rejection)) = answers {
                            connections.spawn(reject(socket, refusal, (rejection, permit)));
                        }
                        continue;
                    }
                };
                let guards = (limits.open.enter(), counted, permit);
                let serving = (service.clone(), limits.clone(), stopped.clone());
                spawn(&mut connections, (socket, from, tls.clone()), guards, serving);
            }
            Err(error) => {
                failures.log(&error);
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    drop(listener);
    stopping.send_replace(true);
    drain(connections, limits.drain_timeout).await;
}

/// Counts a connection, or returns the reason to reject it.
fn admit(
    addresses: &Arc<AddressCounts>,
    from: IpAddr,
    now: SystemTime,
) -> Result<CountedConnection, Refusal> {
    // Hyper writes the time into each answer, and panics at a time that has no HTTP date, so reject the connection
    // then.
    if !now.duration_since(UNIX_EPOCH).is_ok_and(|time| time.as_secs() <= LAST_SECOND) {
        return Err(Refusal::Clock);
    }
    addresses.count(from).ok_or(Refusal::Connections)
}

fn log_rejection(refusal: &Refusal, from: SocketAddr, failures: &mut AcceptFailures) {
    if matches!(refusal, Refusal::Clock) {
        // The operator must correct the clock, so this is a warning.
        failures.log(&io::Error::other(refusal.to_string()));
    } else {
        tracing::debug!(%from, reason = %refusal, "rejected a connection");
    }
}

/// Starts the task of a connection; the task holds `guards` until the connection ends.
fn spawn<S, R>(
    connections: &mut JoinSet<()>,
    (socket, from, tls): (TcpStream, SocketAddr, Option<ServerTls>),
    guards: impl Send + 'static,
    (service, limits, stopped): (S, ConnectionLimits, watch::Receiver<bool>),
) where
    S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // Send small answers immediately, instead of collecting them.
    let _ = socket.set_nodelay(true);
    let Some(tls) = tls else {
        connections.spawn(async move {
            #[cfg(feature = "http2")]
            match http2::is_opened(&socket, &limits, stopped.clone()).await {
                Some(false) => {}
                Some(true) => {
                    Box::pin(http2::serve(socket, service, limits, stopped)).await;
                    return drop(guards);
                }
                None => return drop(guards),
            }
            serve(socket, service, limits, stopped).await;
            drop(guards);
        });
        return;
    };
    connections.spawn(async move {
        let accepting = timeout(limits.head_timeout, tls.accept(socket)).await;
        match accepting.unwrap_or_else(|elapsed| Err(elapsed.into())) {
            #[cfg(feature = "http2")]
            Ok(socket) if ServerTls::has_http2(&socket) => {
                Box::pin(http2::serve(socket, service, limits, stopped)).await;
            }
            Ok(socket) => serve(socket, service, limits, stopped).await,
            Err(error) => tracing::debug!(%error, %from, "TLS handshake failed"),
        }
        drop(guards);
    });
}

async fn drain(mut connections: JoinSet<()>, grace: Duration) {
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(grace, all).await.is_err() {
        tracing::debug!("drain timeout: connections were cut");
    }
}

/// Answers a rejected connection with the reason; a client that does not read the answer in time is disconnected. Holds
/// `guards` until then.
async fn reject(mut socket: TcpStream, refusal: Refusal, guards: impl Send) {
    let status = refusal.status();
    let body = refusal.into_message(None);
    let mut answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(&body);
    let answering = async {
        socket.write_all(&answer).await?;
        socket.shutdown().await?;
        // Reads what the client sent: if unread bytes remained, closing the socket would reset the connection, and the
        // answer would be lost.
        let mut rest = [0; 1024];
        while socket.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    let _ = timeout(REJECTION_TIMEOUT, answering).await;
    drop(guards);
}

async fn serve<T, S, R>(
    socket: T,
    service: S,
    limits: ConnectionLimits,
    stopped: watch::Receiver<bool>,
) where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let activity = Arc::<Activity>::default();
    let io = TokioIo::new(TimeoutSocket::new(socket, &limits, Arc::clone(&activity)));
    let connection = http1::Builder::new()
        // `TimeoutSocket` limits the time for the head of a request instead.
        .header_read_timeout(None)
        .max_buf_size(limits.head_bytes.max(8 * 1024))
        .serve_connection(io, TrackedService { service, activity, is_multiplexed: false });
    run_until_stopped(pin!(connection), stopped, http1::Connection::graceful_shutdown).await;
}

/// Drives a connection until it ends. After `stopped`, calls `shut_down`, so that only the running requests are
/// answered.
///
/// The caller pins the connection: if this function did, its future would have the size of two connections.
pub(super) async fn run_until_stopped<C>(
    mut connection: Pin<&mut C>,
    mut stopped: watch::Receiver<bool>,
    shut_down: impl FnOnce(Pin<&mut C>),
) where
    C: Future<Output = hyper::Result<()>>,
{
    let stopping = pin!(async {
        let _ = stopped.wait_for(|stopped| *stopped).await;
    });
    let ended = match select(connection.as_mut(), stopping).await {
        Either::Left((ended, _)) => ended,
        Either::Right(((), _)) => {
            shut_down(connection.as_mut());
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejection_because_of_the_clock_is_logged_as_a_failure() {
        for (refusal, is_failure) in [(Refusal::Clock, true), (Refusal::Connections, false)] {
            let mut failures = AcceptFailures::default();
            log_rejection(&refusal, ([127, 0, 0, 1], 1).into(), &mut failures);
            assert_eq!(failures.count().is_none(), is_failure, "{refusal}");
        }
    }

    #[test]
    fn connections_are_rejected_while_the_clock_shows_a_time_without_an_http_date() {
        let addresses = Arc::new(AddressCounts::new(&ConnectionLimits::default()));
        let second = Duration::from_secs(1);
        let last = UNIX_EPOCH + Duration::from_secs(LAST_SECOND);
        for (now, is_served) in [
            (UNIX_EPOCH - second, false),
            (UNIX_EPOCH, true),
            (SystemTime::now(), true),
            (last, true),
            (last + second, false),
        ] {
            match admit(&addresses, [127, 0, 0, 1].into(), now) {
                Ok(_) => assert!(is_served, "{now:?}"),
                Err(refusal) => assert!(!is_served && matches!(refusal, Refusal::Clock), "{now:?}"),
            }
        }
    }
}
