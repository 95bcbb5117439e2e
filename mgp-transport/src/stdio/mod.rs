//! The process's own stdin and stdout as a protocol channel.
//!
//! MGP §2 runs over MCP's stdio transport: one JSON-RPC message a line, and nothing else on
//! stdout. [`take`] enforces the second half: it moves both descriptors away, leaves
//! `/dev/null` on descriptor 0 and stderr on descriptor 1, so that a stray `println!`, or a child
//! that inherits descriptor 1, ends in the log and not on the wire.
//!
//! How bytes travel depends on what the parent handed over, as `fstat` tells it:
//!
//! | Descriptor | Who does that | Transport |
//! |---|---|---|
//! | pipe | Python, Rust, Go, shells | non-blocking, on the runtime's poller |
//! | socket | Node, inetd, systemd | non-blocking, on the runtime's poller |
//! | file, terminal, `/dev/null`, other | people, tests | one blocking thread a direction |
//!
//! `tokio::io::stdin` is a blocking read on the pool for each of them, about ten context switches
//! a call; here only the last row pays for a thread, and that thread reads ahead.
//!
//! # Descriptors that others share
//!
//! `O_NONBLOCK` belongs to the open file description, which a shell may share with us. On Linux an
//! anonymous pipe is therefore opened again through `/proc/self/fd`, which makes a description of
//! our own. Where that is not possible (sockets, named pipes, other systems) the flag is set on
//! the shared description and taken back when the reader or writer is dropped. A process that
//! ends without dropping them (`std::process::exit`) leaves the flag set.
//!
//! *Applies to: inbound.*

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::thread::{ThreadReader, ThreadWriter};

#[cfg(not(unix))]
mod other;
#[cfg(not(unix))]
use self::other as imp;
mod thread;
#[cfg(unix)]
mod unix;
#[cfg(unix)]
use self::unix as imp;

/// Whether the descriptors were handed out already.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes the process's stdin and stdout as the two ends of a protocol channel.
///
/// Afterwards descriptor 0 is `/dev/null` and descriptor 1 is stderr, for this process and for
/// the children it starts. On Windows the handles stay where they are.
///
/// Take the channel before anything reads `std::io::stdin`: what that has buffered is lost here.
/// Text that `std::io::stdout` has buffered goes to stderr.
///
/// # Errors
///
/// [`StdioError::NoRuntime`] outside a tokio runtime, [`StdioError::AlreadyTaken`] from the second
/// time on. After [`StdioError::Stdin`] and [`StdioError::Stdout`], a descriptor that is closed or
/// unusable, both are as they were and the call may be repeated; after [`StdioError::Redirect`]
/// and [`StdioError::Thread`] the channel is lost.
///
/// # Panics
///
/// If the runtime has no I/O driver (`enable_io`).
pub fn take() -> Result<(StdioReader, StdioWriter), StdioError> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(StdioError::NoRuntime);
    }
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Err(StdioError::AlreadyTaken);
    }
    let taken = imp::take();
    if matches!(taken, Err(StdioError::Stdin(_) | StdioError::Stdout(_))) {
        TAKEN.store(false, Ordering::Release);
    }
    taken
}

/// Reads what the parent writes: the taken stdin.
///
/// A read that is dropped before it completes loses nothing.
pub struct StdioReader {
    input: Input,
    kind: StdioKind,
    #[cfg(unix)]
    _flags: unix::Flags,
}

/// Writes what the parent reads: the taken stdout.
///
/// On pipes and sockets a completed write is in the kernel's hands. On files and terminals a
/// write fills a buffer of 256 KiB that a thread empties: flush, or shut down, before the process
/// ends. Shutting down closes the descriptor, so the parent sees the end of the stream.
pub struct StdioWriter {
    output: Output,
    kind: StdioKind,
    #[cfg(unix)]
    flags: unix::Flags,
}

/// What a standard descriptor turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StdioKind {
    /// A pipe, named or not.
    Pipe,
    /// A stream socket.
    Socket,
    /// A regular file.
    File,
    /// A terminal.
    Terminal,
    /// `/dev/null` or any other device.
    Device,
}

/// Why stdin and stdout could not be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StdioError {
    /// The caller is not inside a tokio runtime.
    #[error("stdin and stdout can only be taken inside a tokio runtime")]
    NoRuntime,
    /// Somebody took them before.
    #[error("stdin and stdout were taken already; a process has one protocol channel on them")]
    AlreadyTaken,
    /// Descriptor 0 is closed or cannot be read.
    #[error("stdin is not usable")]
    Stdin(#[source] io::Error),
    /// Descriptor 1 is closed or cannot be written.
    #[error("stdout is not usable")]
    Stdout(#[source] io::Error),
    /// The standard descriptors could not be pointed at `/dev/null` and stderr.
    #[error("stdin and stdout could not be pointed away from the protocol channel")]
    Redirect(#[source] io::Error),
    /// A thread for blocking reads or writes did not start.
    #[error("the thread for a blocking descriptor did not start")]
    Thread(#[source] io::Error),
}

enum Input {
    #[cfg(unix)]
    Pipe(tokio::net::unix::pipe::Receiver),
    #[cfg(unix)]
    Socket(tokio::net::UnixStream),
    Thread(ThreadReader),
}

enum Output {
    #[cfg(unix)]
    Pipe(tokio::net::unix::pipe::Sender),
    #[cfg(unix)]
    Socket(tokio::net::UnixStream),
    Thread(ThreadWriter),
    Closed,
}

// === impl StdioReader ===

impl StdioReader {
    /// Returns what descriptor 0 is.
    #[must_use]
    pub fn kind(&self) -> StdioKind {
        self.kind
    }
}

impl AsyncRead for StdioReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.input {
            #[cfg(unix)]
            Input::Pipe(pipe) => Pin::new(pipe).poll_read(cx, buf),
            #[cfg(unix)]
            Input::Socket(socket) => Pin::new(socket).poll_read(cx, buf),
            Input::Thread(thread) => thread.poll_read(cx, buf),
        }
    }
}

impl fmt::Debug for StdioReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioReader").field("kind", &self.kind).finish_non_exhaustive()
    }
}

// === impl StdioWriter ===

impl StdioWriter {
    /// Returns what descriptor 1 was.
    #[must_use]
    pub fn kind(&self) -> StdioKind {
        self.kind
    }

    fn close(&mut self) {
        self.output = Output::Closed;
        #[cfg(unix)]
        {
            self.flags = unix::Flags::default();
        }
    }
}

impl AsyncWrite for StdioWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.output {
            #[cfg(unix)]
            Output::Pipe(pipe) => Pin::new(pipe).poll_write(cx, buf),
            #[cfg(unix)]
            Output::Socket(socket) => Pin::new(socket).poll_write(cx, buf),
            Output::Thread(thread) => thread.poll_write(cx, buf),
            Output::Closed => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.output {
            #[cfg(unix)]
            Output::Pipe(pipe) => Pin::new(pipe).poll_write_vectored(cx, bufs),
            #[cfg(unix)]
            Output::Socket(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Output::Thread(thread) => {
                let first = bufs.iter().find(|buf| !buf.is_empty());
                thread.poll_write(cx, first.map_or(&[], |buf| buf))
            }
            Output::Closed => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        !matches!(self.output, Output::Thread(_) | Output::Closed)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.output {
            Output::Thread(thread) => thread.poll_flush(cx),
            // The kernel has every byte that was accepted.
            #[cfg(unix)]
            Output::Pipe(_) | Output::Socket(_) => Poll::Ready(Ok(())),
            Output::Closed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = match &mut self.output {
            // Stdin may be the same socket, so closing alone would not end the stream.
            #[cfg(unix)]
            Output::Socket(socket) => Pin::new(socket).poll_shutdown(cx),
            #[cfg(unix)]
            Output::Pipe(_) => Poll::Ready(Ok(())),
            Output::Thread(thread) => thread.poll_shutdown(cx),
            Output::Closed => Poll::Ready(Ok(())),
        };
        if done.is_ready() {
            self.close();
        }
        done
    }
}

impl fmt::Debug for StdioWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioWriter").field("kind", &self.kind).finish_non_exhaustive()
    }
}
