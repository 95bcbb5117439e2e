//! Detects the end of a connection and its reason: the exit code, if the server is a child process.

use std::future::{Future, pending};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use futures_util::future::{Either, select};
use mgp_transport::{Child, CloseReason, Connection};
use mgp_types::service::{
    BoxFuture, Call, HttpFailure, Peer, Reply, connection_closed, connection_lost,
    is_connection_lost,
};
use mgp_types::{ErrorCode, RpcError};
use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tower_service::Service;

/// The time to wait for the child's exit after its pipe broke, so that errors of calls can name the exit code.
const EXIT_CODE_TIMEOUT: Duration = Duration::from_millis(250);
/// The time that bytes from an exited child may still take to arrive.
///
/// The child's exit normally also ends its output. The exception is a process that left the child's group and still has
/// the pipe open.
const LAST_BYTES_TIMEOUT: Duration = Duration::from_secs(1);

/// The state of one connection: open, or ended with a reason.
#[derive(Clone)]
pub(crate) struct Liveness {
    ended: watch::Receiver<Option<Arc<str>>>,
    child: Option<Arc<Child>>,
    /// The number of answers that the server has sent.
    answer_count: Arc<AtomicU64>,
}

impl Liveness {
    pub(crate) fn is_over(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Returns why the connection ended, if it has.
    pub(crate) fn reason(&self) -> Option<Arc<str>> {
        self.ended.borrow().clone()
    }

    /// Returns how many answers the server has sent; the health monitor compares two readings.
    pub(crate) fn answer_count(&self) -> u64 {
        self.answer_count.load(Ordering::Relaxed)
    }

    /// Waits until the connection has ended.
    pub(crate) async fn ended(&self) {
        // Ignore an error: it means that the driver was dropped, so the connection has ended too.
        let _ = self.ended.clone().wait_for(Option::is_some).await;
    }

    /// Adds the reason of the connection's end to the error of a call that found the connection closed.
    async fn explain(self, error: RpcError) -> RpcError {
        match self.end_text().await {
            // The new error must still show whether the call may have run on the server.
            Some(end_text) if is_connection_lost(&error) => connection_lost(&end_text),
            Some(end_text) => match error.as_recovery() {
                Some(hints) => connection_closed(&end_text).recovery(hints.clone()),
                None => connection_closed(&end_text),
            },
            None => error,
        }
    }

    /// Waits until the connection has ended and returns the reason.
    pub(crate) async fn end_reason(self) -> String {
        self.end_text().await.unwrap_or_else(|| "the client was dropped".to_owned())
    }

    /// Waits for the end of the connection; returns `None` if its driver was dropped.
    async fn end_text(&self) -> Option<String> {
        let mut ended = self.ended.clone();
        let reason = ended.wait_for(Option::is_some).await.ok()?.clone();
        if let Some(child) = &self.child
            && let Ok(report) = timeout(EXIT_CODE_TIMEOUT, child.wait()).await
        {
            return Some(format!("the server {report}"));
        }
        Some(reason.as_deref().unwrap_or("the connection ended").to_owned())
    }
}

mgp_types::opaque_debug!(Liveness);

// === Driving ===

/// A guard of a task: dropping the guard aborts the task.
pub(crate) struct TaskGuard(JoinHandle<()>);

impl TaskGuard {
    pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(task))
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Drives a connection until it ends, its reader ends, or its child exits.
///
/// The end does not wait for requests of the server that are still being answered, because these answers are not needed
/// any more.
pub(crate) fn spawn_connection<R, W>(
    connection: Connection<EofReader<R>, W>,
    eof: Arc<Notify>,
    child: Option<Arc<Child>>,
) -> (Liveness, TaskGuard)
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let own = child.clone();
    let connection_run = async move {
        let connection_run = Box::pin(connection.run());
        let stopped = Box::pin(async move {
            let exited = Box::pin(exited(child));
            select(Box::pin(eof.notified()), exited).await;
        });
        // Poll the end of the reader after the connection, so that the last messages are dispatched first.
        match select(connection_run, stopped).await {
            Either::Left((closed, _)) => closed,
            Either::Right(_) => CloseReason::Eof,
        }
    };
    spawn_driver(connection_run, own)
}

/// Drives a connection of any kind until it ends.
pub(crate) fn spawn_driver(
    connection_run: impl Future<Output = CloseReason> + Send + 'static,
    child: Option<Arc<Child>>,
) -> (Liveness, TaskGuard) {
    let (sender, ended) = watch::channel(None);
    let life = Liveness { ended, child, answer_count: Arc::default() };
    let task = tokio::spawn(async move {
        let closed = connection_run.await;
        sender.send_replace(Some(closed.to_string().into()));
    });
    (life, TaskGuard(task))
}

async fn exited(child: Option<Arc<Child>>) {
    match child {
        Some(child) => {
            child.wait().await;
            sleep(LAST_BYTES_TIMEOUT).await;
        }
        None => pending().await,
    }
}

/// A reader that signals its end.
#[derive(Debug)]
pub(crate) struct EofReader<R> {
    reader: R,
    eof: Arc<Notify>,
}

impl<R> EofReader<R> {
    pub(crate) fn new(reader: R) -> (Self, Arc<Notify>) {
        let eof = Arc::new(Notify::new());
        (Self { reader, eof: Arc::clone(&eof) }, eof)
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for EofReader<R> {
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

/// Returns whether an outcome certainly came from the server. A notification that was sent has no answer. The client
/// itself can create the errors 2000, 2002 and 3003, the errors of HTTP exchanges without a JSON-RPC answer (e.g. if a
/// proxy answers for the server), and the errors of refused or missing credentials.
pub(crate) fn is_answer(outcome: &Result<Reply, RpcError>) -> bool {
    let error = match outcome {
        Ok(reply) => return !matches!(reply, Reply::None),
        Err(error) => error,
    };
    match (HttpFailure::from_error(error), error.code()) {
        (_, ErrorCode::SERVER_NOT_READY | ErrorCode::SERVER_RESTARTING | ErrorCode::TIMEOUT) => {
            false
        }
        (Some(failure), _) => matches!(failure, HttpFailure::StatusWithError(_)),
        (None, code) => !matches!(code, ErrorCode::AUTH_REQUIRED | ErrorCode::AUTH_EXPIRED),
    }
}

/// The peer of a connection; errors of a closed connection name the reason.
#[derive(Clone, Debug)]
pub(crate) struct LivenessPeer {
    peer: Peer,
    life: Liveness,
}

impl LivenessPeer {
    pub(crate) fn new(peer: Peer, life: Liveness) -> Self {
        Self { peer, life }
    }

    pub(crate) fn peer(&self) -> &Peer {
        &self.peer
    }
}

impl Service<Call> for LivenessPeer {
    type Response = Reply;
    type Error = RpcError;
    type Future = ResponseFuture;
    mgp_types::always_ready!(innermost);

    fn call(&mut self, call: Call) -> ResponseFuture {
        ResponseFuture {
            sending: self.peer.send(call),
            peer: self.peer.clone(),
            life: self.life.clone(),
            explain: None,
        }
    }
}

pin_project! {
    pub(crate) struct ResponseFuture {
        #[pin]
        sending: BoxFuture<'static, Result<Reply, RpcError>>,
        peer: Peer,
        life: Liveness,
        // The future is created only if the connection is closed.
        explain: Option<BoxFuture<'static, RpcError>>,
    }
}

impl Future for ResponseFuture {
    type Output = Result<Reply, RpcError>;

    fn poll(self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if this.explain.is_none() {
            match ready!(this.sending.poll(task)) {
                Err(error)
                    if error.code() == ErrorCode::SERVER_NOT_READY && this.peer.is_closed() =>
                {
                    *this.explain = Some(Box::pin(this.life.clone().explain(error)));
                }
                outcome => {
                    if is_answer(&outcome) {
                        this.life.answer_count.fetch_add(1, Ordering::Relaxed);
                    }
                    return Poll::Ready(outcome);
                }
            }
        }
        match this.explain {
            Some(explain) => explain.as_mut().poll(task).map(Err),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_that_was_sent_is_no_sign_of_life() {
        assert!(!is_answer(&Ok(Reply::None)));
        assert!(is_answer(&Ok(Reply::empty())));
        assert!(is_answer(&Err(RpcError::internal("the tool failed"))));
        assert!(!is_answer(&Err(connection_closed("the server ended"))));
    }
}
