//! Serves a connection over HTTP/2, if the TLS handshake selected it, or if the client begins the connection with it.

use std::convert::Infallible;
use std::error::Error;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Sleep, sleep, timeout};
use tower_service::Service;

use super::listener::{ConnectionLimits, run_until_stopped};
use super::timeout_socket::TimeoutSocket;
use super::tracking::{Activity, TrackedService, observe_body};

/// The first bytes that an HTTP/2 client sends; no method that this server accepts begins with them.
const PREFACE: &[u8] = b"PR";

/// The time between two checks of a connection that has sent a single byte so far.
const PEEK_INTERVAL: Duration = Duration::from_millis(20);

/// The maximum number of requests of one connection that run at the same time.
const MAX_STREAMS: u32 = 128;

/// The maximum number of bytes of one response that wait until the client reads them.
const MAX_SEND_BYTES: usize = 256 * 1024;

/// The time between two pings, which detect whether the client is still connected.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Returns whether the client begins with HTTP/2; `None` if it sends too little in time, or the listener was stopped.
/// No byte is consumed.
pub(super) async fn is_opened(
    socket: &TcpStream,
    limits: &ConnectionLimits,
    mut stopped: watch::Receiver<bool>,
) -> Option<bool> {
    let looking = async {
        let mut first = [0; PREFACE.len()];
        loop {
            match socket.peek(&mut first).await.ok()? {
                1 if first[0] == PREFACE[0] => sleep(PEEK_INTERVAL).await,
                read => return Some(first[..read] == *PREFACE),
            }
        }
    };
    let stopping = pin!(stopped.wait_for(|stopped| *stopped));
    match select(pin!(timeout(limits.head_timeout, looking)), stopping).await {
        Either::Left((opened, _)) => opened.ok()?,
        Either::Right(_) => None,
    }
}

/// An executor that starts each request of a connection as a [`RequestTask`].
#[derive(Clone)]
struct RequestExecutor {
    stall_timeout: Duration,
}

impl<F> Executor<F> for RequestExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        tokio::spawn(RequestTask { future, stall_timeout: self.stall_timeout, waiting: None });
    }
}

pin_project! {
    /// The task of a request. It ends early, which resets the stream of the request, if data of the answer wait too
    /// long for the client.
    ///
    /// While data waits, hyper does not poll the body of the answer, so a call that the body drives is suspended, and
    /// its own timeouts have no effect. Other requests of the connection continue, because they can belong to other
    /// clients behind the same proxy.
    struct RequestTask<F> {
        #[pin]
        future: F,
        stall_timeout: Duration,
        // A timer that runs while data wait for the client.
        waiting: Option<Pin<Box<Sleep>>>,
    }
}

impl<F: Future<Output = ()>> Future for RequestTask<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<()> {
        let this = self.project();
        let (polled, handed_out) = observe_body(|| this.future.poll(task));
        if polled.is_ready() {
            return Poll::Ready(());
        }
        match handed_out {
            Some(true) => *this.waiting = Some(Box::pin(sleep(*this.stall_timeout))),
            Some(false) => *this.waiting = None,
            None => {}
        }
        let Some(timer) = this.waiting else { return Poll::Pending };
        ready!(timer.as_mut().poll(task));
        tracing::debug!("ended an answer that its client does not read");
        Poll::Ready(())
    }
}

/// Serves a connection until it ends; after `stopped` completes, only the running requests are answered.
pub(super) async fn serve<T, S, R>(
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
    let head_bytes = u32::try_from(limits.head_bytes).unwrap_or(u32::MAX);
    let connection = http2::Builder::new(RequestExecutor { stall_timeout: limits.stall_timeout })
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(head_bytes)
        .max_send_buf_size(MAX_SEND_BYTES)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(limits.stall_timeout)
        .serve_connection(io, TrackedService { service, activity, is_multiplexed: true });
    run_until_stopped(pin!(connection), stopped, http2::Connection::graceful_shutdown).await;
}
