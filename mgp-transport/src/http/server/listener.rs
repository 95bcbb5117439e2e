//! Accepts connections and gives their requests to a service.
//!
//! Applies to: inbound.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower_service::Service;

use super::socket::{Activity, Impatient, Served};

/// The bounds of the connections of a listener.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectionLimits {
    /// Connections at once; further ones wait to be accepted. 32,768.
    pub connections: usize,
    /// How long a client may take to send the head of a request, from the connection or the last answer on; it is looked
    /// at in steps of this length, so that a slow one has up to twice as long. 30 s.
    pub head_time: Duration,
    /// Bytes of a head; a longer one is 431. 64 KiB.
    pub head_bytes: usize,
    /// How long a client that is sent more than it takes may take next to nothing, less than 4 KiB. 30 s.
    pub stall: Duration,
    /// How long answers may take once the listener was told to stop. 5 s.
    pub grace: Duration,
    /// Counts the connections of the listener while it runs.
    pub open: OpenConnections,
}

/// How many connections a listener has; clones look at the same one.
#[derive(Clone, Debug, Default)]
pub struct OpenConnections(Arc<AtomicUsize>);

impl OpenConnections {
    /// Connections that are open now.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    fn enter(&self) -> Open {
        self.0.fetch_add(1, Ordering::Relaxed);
        Open(self.clone())
    }
}

/// A connection that is open.
struct Open(OpenConnections);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 32_768,
            head_time: Duration::from_secs(30),
            head_bytes: 64 * 1024,
            stall: Duration::from_secs(30),
            grace: Duration::from_secs(5),
            open: OpenConnections::default(),
        }
    }
}

/// How long accepting pauses when the system has no descriptor left.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// Serves connections until `stop` completes, then lets the running answers finish.
///
/// # Cancel safety
/// Dropping the future ends all connections at once.
pub async fn listen<S, R>(
    listener: TcpListener,
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
    let room = Arc::new(Semaphore::new(limits.connections.min(Semaphore::MAX_PERMITS)));
    let (stopping, stopped) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        // Those that ended are forgotten.
        while connections.try_join_next().is_some() {}
        let accepted = pin!(async {
            // The semaphore is never closed.
            let permit = Arc::clone(&room).acquire_owned().await.ok();
            (listener.accept().await, permit)
        });
        let (accepted, permit) = match select(accepted, stop.as_mut()).await {
            Either::Left((accepted, _)) => accepted,
            Either::Right(_) => break,
        };
        match accepted {
            Ok((socket, _)) => {
                let serving = serve(socket, service.clone(), limits.clone(), stopped.clone());
                let open = limits.open.enter();
                connections.spawn(async move {
                    let _open = open;
                    serving.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                sleep(EXHAUSTED).await;
            }
        }
    }
    drop(listener);
    stopping.send_replace(true);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(limits.grace, all).await.is_err() {
        tracing::debug!("connections were cut: they did not end in time");
    }
}

async fn serve<S, R>(
    socket: TcpStream,
    service: S,
    limits: ConnectionLimits,
    mut stopped: watch::Receiver<bool>,
) where
    S: Service<Request<Incoming>, Response = Response<R>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Into<Box<dyn Error + Send + Sync>>,
{
    // Small answers leave at once.
    let _ = socket.set_nodelay(true);
    let activity = Arc::<Activity>::default();
    let io = TokioIo::new(Impatient::new(socket, &limits, Arc::clone(&activity)));
    let connection = http1::Builder::new()
        // The socket itself knows how long a head may take.
        .header_read_timeout(None)
        .max_buf_size(limits.head_bytes.max(8 * 1024))
        .serve_connection(io, Served { service, activity });
    let mut connection = pin!(connection);
    let told = pin!(async {
        let _ = stopped.wait_for(|stopped| *stopped).await;
    });
    let ended = match select(connection.as_mut(), told).await {
        Either::Left((ended, _)) => ended,
        Either::Right(((), _)) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection failed");
    }
}
