//! Whether the server is still there and, once it is not, why: its exit code where it was a child of ours.
//!
//! Applies to: outbound.

use std::fmt;
use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use futures_util::future::{Either, select};
use mgp_transport::{Child, Closed, Connection};
use mgp_types::service::{BoxFuture, Call, Peer, Reply, closed, is_lost, lost};
use mgp_types::{ErrorCode, RpcError};
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tower_service::Service;

/// How long the error of a call waits for the exit code of the child whose pipe broke.
const EXIT_CODE: Duration = Duration::from_millis(250);
/// How long a child that has ended may still have bytes on their way.
///
/// The end of its output comes by itself, unless a process that left its group holds the pipe.
const LAST_BYTES: Duration = Duration::from_secs(1);

/// What is known about the life of one connection.
#[derive(Clone)]
pub(crate) struct Life {
    ended: watch::Receiver<Option<Arc<str>>>,
    child: Option<Arc<Child>>,
    /// Counts what the server answered.
    answers: Arc<AtomicU64>,
}

impl Life {
    /// Whether it is over.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Why it is over, if it is.
    pub(crate) fn reason(&self) -> Option<Arc<str>> {
        self.ended.borrow().clone()
    }

    /// How much the server has answered; who watches over it compares.
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Relaxed)
    }

    /// Waits until it is over.
    pub(crate) async fn over(&self) {
        // An error means that nobody drives the connection any more.
        let _ = self.ended.clone().wait_for(Option::is_some).await;
    }

    /// Words the error of a call that found the connection gone.
    async fn why(self, error: RpcError) -> RpcError {
        match self.how().await {
            // Whether the call may have run stays as it was said.
            Some(how) if is_lost(&error) => lost(&how),
            Some(how) => match error.as_recovery() {
                Some(hints) => closed(&how).recovery(hints.clone()),
                None => closed(&how),
            },
            None => error,
        }
    }

    /// Waits until it is over and says how it ended.
    pub(crate) async fn ending(self) -> String {
        self.how().await.unwrap_or_else(|| "the client let go of it".to_owned())
    }

    /// How it ended, once it is over; none where nobody drives it any more.
    async fn how(&self) -> Option<String> {
        let mut ended = self.ended.clone();
        let reason = ended.wait_for(Option::is_some).await.ok()?.clone();
        if let Some(child) = &self.child
            && let Ok(report) = timeout(EXIT_CODE, child.wait()).await
        {
            return Some(format!("the server {report}"));
        }
        Some(reason.as_deref().unwrap_or("the connection ended").to_owned())
    }
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_over() { "Life(over)" } else { "Life" })
    }
}

// === Driving ===

/// Ends the driver with whoever holds it: the client, or a handshake that is given up half-way.
pub(crate) struct Driver(JoinHandle<()>);

impl Driver {
    /// Drives something else that belongs to the client.
    pub(crate) fn of(running: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(running))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Drives a connection until it ends, its reader ends, or the child behind it does.
///
/// The connection itself would linger for what still runs; a client has nothing to wait for.
pub(crate) fn drive<R, W>(
    connection: Connection<Watched<R>, W>,
    eof: Arc<Notify>,
    child: Option<Arc<Child>>,
) -> (Life, Driver)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let own = child.clone();
    let running = async move {
        let running = Box::pin(connection.run());
        let left = Box::pin(async move {
            let exited = Box::pin(exited(child));
            select(Box::pin(eof.notified()), exited).await;
        });
        // The reader's end is looked at second, so that what was read with it is dispatched before.
        match select(running, left).await {
            Either::Left((closed, _)) => closed,
            Either::Right(_) => Closed::Eof,
        }
    };
    attend(running, own)
}

/// Drives whatever carries a client until it ends.
pub(crate) fn attend(
    running: impl Future<Output = Closed> + Send + 'static,
    child: Option<Arc<Child>>,
) -> (Life, Driver) {
    let (tell, ended) = watch::channel(None);
    let life = Life { ended, child, answers: Arc::default() };
    let task = tokio::spawn(async move {
        let closed = running.await;
        tell.send_replace(Some(closed.to_string().into()));
    });
    (life, Driver(task))
}

async fn exited(child: Option<Arc<Child>>) {
    match child {
        Some(child) => {
            child.wait().await;
            sleep(LAST_BYTES).await;
        }
        None => pending().await,
    }
}

/// A reader that says when it has ended.
#[derive(Debug)]
pub(crate) struct Watched<R> {
    reader: R,
    eof: Arc<Notify>,
}

impl<R> Watched<R> {
    pub(crate) fn new(reader: R) -> (Self, Arc<Notify>) {
        let eof = Arc::new(Notify::new());
        (Self { reader, eof: Arc::clone(&eof) }, eof)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Watched<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (before, room) = (buf.filled().len(), buf.remaining());
        let read = ready!(Pin::new(&mut self.reader).poll_read(task, buf));
        if read.is_err() || (buf.filled().len() == before && room > 0) {
            self.eof.notify_one();
        }
        Poll::Ready(read)
    }
}

// === The innermost service ===

/// Whether an outcome came from the server: one that is gone, or did not answer in time, says nothing.
pub(crate) fn is_answer(outcome: &Result<Reply, RpcError>) -> bool {
    let code = outcome.as_ref().err().map(RpcError::code);
    !matches!(code, Some(ErrorCode::SERVER_NOT_READY | ErrorCode::TIMEOUT))
}

/// The other end, with errors that say what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Lively {
    peer: Peer,
    life: Life,
}

impl Lively {
    pub(crate) fn new(peer: Peer, life: Life) -> Self {
        Self { peer, life }
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }
}

impl Service<Call> for Lively {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Task<'_>) -> Poll<Result<(), RpcError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, call: Call) -> ResponseFuture {
        ResponseFuture {
            sending: self.peer.send(call),
            peer: self.peer.clone(),
            life: self.life.clone(),
            why: None,
        }
    }
}

pin_project! {
    /// Response future of [`Lively`].
    pub(crate) struct ResponseFuture {
        #[pin]
        sending: BoxFuture<'static, Result<Reply, RpcError>>,
        peer: Peer,
        life: Life,
        // Made only when the connection is gone.
        why: Option<BoxFuture<'static, RpcError>>,
    }
}

impl Future for ResponseFuture {
    type Output = Result<Reply, RpcError>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if this.why.is_none() {
            match ready!(this.sending.poll(task)) {
                Err(error)
                    if error.code() == ErrorCode::SERVER_NOT_READY && this.peer.is_closed() =>
                {
                    *this.why = Some(Box::pin(this.life.clone().why(error)));
                }
                outcome => {
                    if is_answer(&outcome) {
                        this.life.answers.fetch_add(1, Ordering::Relaxed);
                    }
                    return Poll::Ready(outcome);
                }
            }
        }
        match this.why {
            Some(why) => why.as_mut().poll(task).map(Err),
            None => Poll::Pending,
        }
    }
}
