//! Accepts connections and passes their requests to a service.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

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

use super::address_limit::AddressCounts;
#[cfg(feature = "http2")]
use super::http2;
use super::refusal::Refusal;
use super::tls::ServerTls;
use super::tracking::{Activity, TimeoutSocket, TrackedService};

/// Limits of the connections of a listener.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionLimits {
    /// Connections at once; further ones wait to be accepted. Default: 32,768.
    pub connections: usize,
    /// Maximum number of connections from one IPv4 address or one 64-bit IPv6 network; further ones get 429 and are
    /// closed. Default: 256.
    ///
    /// Behind a proxy, all connections come from the proxy's address, so raise this limit there.
    pub per_address: usize,
    /// Maximum number of connections from one loopback address, which local proxies and tests use. Default: 16,384.
    pub per_loopback: usize,
    /// Time for the head of a request, counted from the connection or the last answer. It is checked in steps of this
    /// length, so a slow client has up to twice as long. Default: 30 s.
    pub head_timeout: Duration,
    /// Maximum length of a head; a longer one gets 431. Default: 64 KiB.
    pub head_bytes: usize,
    /// Time within which a client must read at least 4 KiB while bytes wait for it; a slower one is disconnected.
    /// Default: 30 s.
    pub stall_timeout: Duration,
    /// Time for running answers after the listener was stopped. Default: 5 s.
    pub drain_timeout: Duration,
    /// Counter of the listener's connections.
    pub open: OpenConnections,
}

/// Number of open connections of a listener; clones share one counter.
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

/// Delay of the next accept when the system has run out of descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Maximum number of rejected connections that are being answered; beyond it they are closed without an answer.
const MAX_REJECTIONS: usize = 64;

/// Maximum time for answering one rejected connection.
const REJECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// A bound address, with or without TLS.
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
    /// Serves TLS on all connections.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self
    }
}

/// Serves connections until `stop` completes, then lets the running answers finish.
///
/// # Cancel safety
/// Dropping the future ends all connections at once.
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
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        // Removes the tasks that have ended.
        while connections.try_join_next().is_some() {}
        let accepted = pin!(async {
            // `ok` is always `Some`: the semaphore is never closed.
            let permit = Arc::clone(&room).acquire_owned().await.ok();
            (listener.accept().await, permit)
        });
        let (accepted, permit) = match select(accepted, stop.as_mut()).await {
            Either::Left((accepted, _)) => accepted,
            Either::Right(_) => break,
        };
        match accepted {
            Ok((socket, from)) => {
                let Some(counted) = addresses.count(from.ip()) else {
                    tracing::debug!(%from, "rejected a connection: too many from this address");
                    // A TLS client could not read the answer.
                    let answers =
                        tls.is_none().then(|| Arc::clone(&rejections).try_acquire_owned());
                    if let Some(Ok(rejection)) = answers {
                        connections.spawn(async move {
                            reject(socket).await;
                            drop((rejection, permit));
                        });
                    }
                    continue;
                };
                let guards = (limits.open.enter(), counted, permit);
                let serving = (service.clone(), limits.clone(), stopped.clone());
                spawn(&mut connections, (socket, from, tls.clone()), guards, serving);
            }
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                sleep(ACCEPT_RETRY_DELAY).await;
            }
        }
    }
    drop(listener);
    stopping.send_replace(true);
    drain(connections, limits.drain_timeout).await;
}

/// Starts the task of a connection, which keeps `guards` until it ends.
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
    // Small answers are sent at once.
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

/// Answers a connection that is not served with the reason; a client that does not read it is cut off.
async fn reject(mut socket: TcpStream) {
    let body = Refusal::Connections.into_message(None);
    let mut answer = format!(
        "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    answer.extend_from_slice(&body);
    let answering = async {
        socket.write_all(&answer).await?;
        socket.shutdown().await?;
        // Reads what the client sent: closing a socket with unread bytes would reset it and destroy the answer.
        let mut rest = [0; 1024];
        while socket.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    let _ = timeout(REJECTION_TIMEOUT, answering).await;
}

async fn serve<T, S, R>(
    socket: T,
    service: S,
    limits: ConnectionLimits,
    mut stopped: watch::Receiver<bool>,
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
        // `TimeoutSocket` bounds the time of a head.
        .header_read_timeout(None)
        .max_buf_size(limits.head_bytes.max(8 * 1024))
        .serve_connection(io, TrackedService { service, activity, is_multiplexed: false });
    let mut connection = pin!(connection);
    let stopping = pin!(async {
        let _ = stopped.wait_for(|stopped| *stopped).await;
    });
    let ended = match select(connection.as_mut(), stopping).await {
        Either::Left((ended, _)) => ended,
        Either::Right(((), _)) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection failed");
    }
}
