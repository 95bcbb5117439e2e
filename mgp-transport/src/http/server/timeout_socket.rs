//! A socket that disconnects slow peers.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Task, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop::has_budget_remaining;
use tokio::time::{Sleep, sleep};

use super::listener::ConnectionLimits;
use super::tracking::Activity;

/// The number of bytes that a client must read while the timer runs; far less than any usable connection transfers.
const MIN_READ_BYTES: usize = 4 * 1024;

/// A socket that fails if the peer does not send a request, or does not read an answer, in time.
pub(super) struct TimeoutSocket<T> {
    socket: T,
    head_timeout: Duration,
    stall: Duration,
    activity: Arc<Activity>,
    /// The timer of the periodic check whether a request has begun. It runs all the time, because starting a timer for
    /// each request would cost more.
    reading: Option<Pin<Box<Sleep>>>,
    /// The waker that is registered with the timer `reading`.
    reader: Option<Waker>,
    /// The number of requests that had begun at the last check.
    begun: usize,
    /// A timer that is started when a write has to wait, and stopped when everything is written.
    writing: Option<Pin<Box<Sleep>>>,
    /// The number of bytes that were written since the timer `writing` was started.
    written: usize,
}

impl<T> TimeoutSocket<T> {
    pub(super) fn new(socket: T, limits: &ConnectionLimits, activity: Arc<Activity>) -> Self {
        let (head_timeout, stall) = (limits.head_timeout, limits.stall_timeout);
        Self {
            socket,
            head_timeout,
            stall,
            activity,
            reading: None,
            reader: None,
            begun: 0,
            writing: None,
            written: 0,
        }
    }

    /// Checks the read timeout; called when the socket has no data to read.
    fn check_read_timeout(&mut self, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        let head_timeout = self.head_timeout;
        let timer = self.reading.get_or_insert_with(|| Box::pin(sleep(head_timeout)));
        // The timer is running, and will wake this task, so it need not be polled.
        if !timer.is_elapsed()
            && self.reader.as_ref().is_some_and(|waker| waker.will_wake(task.waker()))
        {
            return Poll::Pending;
        }
        // If tokio's task budget is used up, the timer registers no waker, so store none; tokio polls this task again
        // anyway.
        self.reader = has_budget_remaining().then(|| task.waker().clone());
        while timer.as_mut().poll(task).is_ready() {
            let begun = self.activity.begun();
            let idle = begun == self.activity.ended();
            if idle && begun == self.begun {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.begun = begun;
            self.reader = None;
            timer.set(sleep(head_timeout));
        }
        Poll::Pending
    }

    fn check_write_timeout(
        &mut self,
        written: Poll<io::Result<usize>>,
        task: &mut Task<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(outcome) = written {
            self.written += outcome.as_ref().map_or(0, |count| *count);
            return Poll::Ready(outcome);
        }
        let stall = self.stall;
        if self.writing.is_none() {
            self.written = 0;
        }
        let timer = self.writing.get_or_insert_with(|| Box::pin(sleep(stall)));
        while timer.as_mut().poll(task).is_ready() {
            if self.written < MIN_READ_BYTES {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
            self.written = 0;
            timer.set(sleep(stall));
        }
        Poll::Pending
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for TimeoutSocket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.socket).poll_read(task, buf) {
            Poll::Pending => self.check_read_timeout(task),
            read @ Poll::Ready(_) => read,
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for TimeoutSocket<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(task, bytes);
        self.check_write_timeout(written, task)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        task: &mut Task<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(task, pieces);
        self.check_write_timeout(written, task)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        // hyper flushes only after it has written everything, so the timer can stop.
        self.writing = None;
        Pin::new(&mut self.socket).poll_flush(task)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(task)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::consume_budget;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_head_times_out_even_if_the_task_had_no_budget() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _silent = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let head_time = Duration::from_millis(20);
        let limits = ConnectionLimits { head_timeout: head_time, ..ConnectionLimits::default() };
        let mut socket = TimeoutSocket::new(socket, &limits, Arc::default());
        let (mut is_first, mut space) = (true, [0; 8]);
        let read = poll_fn(|task| {
            let spends = std::mem::take(&mut is_first);
            while spends && has_budget_remaining() {
                let _ = std::pin::pin!(consume_budget()).poll(task);
            }
            Pin::new(&mut socket).poll_read(task, &mut ReadBuf::new(&mut space))
        });
        let read = timeout(Duration::from_secs(10), read).await.unwrap();
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
