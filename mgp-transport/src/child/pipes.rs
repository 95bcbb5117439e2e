//! The pipes of a child: its stdin and stdout.
//!
//! A client uses them as its stdio transport (MGP §2). Both pipes are non-blocking and registered with the runtime.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mgp_types::sync::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};

/// A reader of the child's stdout. After the child has ended, the reader still returns the remaining output.
///
/// If a read is dropped before it completes, no data is lost.
pub struct ChildReader {
    stdout: ChildStdout,
}

/// A writer to the child's stdin. Stdin is closed when the writer is shut down or dropped, and
/// when the child is shut down.
///
/// A write waits until the child reads; it blocks nothing else.
pub struct ChildWriter {
    stdin: Arc<Mutex<Stdin>>,
}

/// A handle that can close stdin independently of the writer.
pub(super) struct StdinHandle {
    stdin: Arc<Mutex<Stdin>>,
}

struct Stdin {
    pipe: Option<ChildStdin>,
    /// The task that waits until the pipe has room; it is woken when stdin is closed.
    waker: Option<Waker>,
}

pub(super) fn pipes(
    stdin: ChildStdin,
    stdout: ChildStdout,
) -> (StdinHandle, ChildReader, ChildWriter) {
    let stdin = Arc::new(Mutex::new(Stdin { pipe: Some(stdin), waker: None }));
    let handle = StdinHandle { stdin: Arc::clone(&stdin) };
    (handle, ChildReader { stdout }, ChildWriter { stdin })
}

impl AsyncRead for ChildReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stdout).poll_read(cx, buf)
    }
}

mgp_types::opaque_debug!(ChildReader);

impl ChildWriter {
    fn write<T>(
        &self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut ChildStdin>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let mut stdin = self.stdin.lock();
        let Some(pipe) = &mut stdin.pipe else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        let written = write(Pin::new(pipe), cx);
        if written.is_pending() {
            stdin.waker = Some(cx.waker().clone());
        }
        written
    }
}

impl AsyncWrite for ChildWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |pipe, cx| pipe.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |pipe, cx| pipe.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.stdin.lock().pipe.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.write(cx, AsyncWrite::poll_flush)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = self.write(cx, AsyncWrite::poll_shutdown);
        if done.is_pending() {
            return done;
        }
        close(&self.stdin);
        Poll::Ready(Ok(()))
    }
}

impl Drop for ChildWriter {
    fn drop(&mut self) {
        close(&self.stdin);
    }
}

mgp_types::opaque_debug!(ChildWriter);

impl StdinHandle {
    /// Closes stdin; a write that is waiting fails with a broken pipe.
    pub(super) fn close(&self) {
        close(&self.stdin);
    }
}

fn close(stdin: &Mutex<Stdin>) {
    let (pipe, waker) = {
        let mut stdin = stdin.lock();
        (stdin.pipe.take(), stdin.waker.take())
    };
    drop(pipe);
    if let Some(waker) = waker {
        waker.wake();
    }
}
