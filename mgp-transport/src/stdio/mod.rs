//! The process's own stdin and stdout as a protocol channel.
//!
//! MGP §2 runs over MCP's stdio transport: one JSON-RPC message per line, and nothing else on stdout. [`take`]
//! ensures that nothing else is written there: it moves both descriptors to other numbers, and leaves `/dev/null` on
//! descriptor 0 and stderr on descriptor 1. A stray `println!`, or a child that inherits descriptor 1, then writes to
//! stderr and not into the protocol stream.
//!
//! How bytes are read and written depends on the descriptors that the parent process passed, as reported by
//! `fstat`:
//!
//! | Descriptor | Typical parent | Transport |
//! |---|---|---|
//! | pipe | Python, Rust, Go, shells | non-blocking, registered with the runtime |
//! | socket | Node, inetd, systemd | non-blocking, registered with the runtime |
//! | file, terminal, `/dev/null`, other | people, tests | one blocking thread per direction |
//!
//! In contrast, `tokio::io::stdin` reads on the blocking thread pool for all of these kinds, which takes about ten
//! context switches per call. Here, only the kinds in the last row use a thread, and that thread reads ahead.
//!
//! # Shared descriptors
//!
//! `O_NONBLOCK` belongs to the open file description, which a shell might share with this process. On Linux an
//! anonymous pipe is therefore opened again through `/proc/self/fd`, which creates a separate description. Where that
//! is not possible (sockets, named pipes, other systems) the flag is set on the shared description and removed when the
//! reader or writer is dropped. A process that ends without dropping them (`std::process::exit`) leaves the flag set.

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

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Takes over the process's stdin and stdout as the two ends of a protocol channel.
///
/// Afterwards, descriptor 0 is `/dev/null` and descriptor 1 is stderr, or `/dev/null` if stderr is the same file as
/// stdout. This applies to this process and to children that it starts later. On Windows, the handles stay unchanged.
///
/// The channel must be taken before other code reads `std::io::stdin`, because bytes that are buffered there are lost.
/// Text that `std::io::stdout` has buffered is written to stderr.
///
/// # Errors
///
/// Returns [`StdioError::NoRuntime`] outside a tokio runtime, and [`StdioError::AlreadyTaken`] if the channel was taken
/// before. [`StdioError::Stdin`] and [`StdioError::Stdout`] report a descriptor that is closed or unusable; both
/// descriptors are then unchanged, and the call can be repeated. After [`StdioError::Redirect`] and
/// [`StdioError::Thread`], the channel is lost.
///
/// # Panics
///
/// Panics if the runtime has no I/O driver (`enable_io`).
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

/// A reader of the process's original stdin.
///
/// If a read is dropped before it completes, no data is lost.
pub struct StdioReader {
    input: Input,
    kind: StdioKind,
    #[cfg(unix)]
    _nonblock: unix::NonblockGuard,
}

/// A writer to the process's original stdout.
///
/// On pipes and sockets, data has been passed to the operating system when the write completes. On files and terminals,
/// a write fills a buffer of 256 KiB that a thread empties, so the caller must flush or shut down before the process
/// ends. Shutting down closes the descriptor, so that the parent process detects the end of the stream.
pub struct StdioWriter {
    output: Output,
    kind: StdioKind,
    #[cfg(unix)]
    nonblock: unix::NonblockGuard,
}

/// The kind of a standard descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StdioKind {
    /// The descriptor is a pipe, named or not.
    Pipe,
    /// The descriptor is a stream socket.
    Socket,
    /// The descriptor is a regular file.
    File,
    /// The descriptor is a terminal.
    Terminal,
    /// The descriptor is `/dev/null` or any other device.
    Device,
}

/// The reason why stdin and stdout could not be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StdioError {
    /// The caller is not inside a tokio runtime.
    #[error("stdin and stdout can only be taken inside a tokio runtime")]
    NoRuntime,
    /// The channel over standard input and output was taken before.
    #[error("stdin and stdout were taken already; a process has one protocol channel on them")]
    AlreadyTaken,
    /// Descriptor 0 is closed or cannot be read.
    #[error("stdin is not usable")]
    Stdin(#[source] io::Error),
    /// Descriptor 1 is closed or cannot be written.
    #[error("stdout is not usable")]
    Stdout(#[source] io::Error),
    /// The standard descriptors could not be replaced by `/dev/null` and stderr.
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

impl StdioReader {
    /// Returns the kind of descriptor 0.
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

mgp_types::opaque_debug!(StdioReader { kind });

impl StdioWriter {
    /// Returns the kind of the original descriptor 1.
    #[must_use]
    pub fn kind(&self) -> StdioKind {
        self.kind
    }

    fn close(&mut self) {
        self.output = Output::Closed;
        #[cfg(unix)]
        {
            self.nonblock = unix::NonblockGuard::default();
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
            // There is nothing to flush, because all accepted bytes have been passed to the operating system.
            #[cfg(unix)]
            Output::Pipe(_) | Output::Socket(_) => Poll::Ready(Ok(())),
            Output::Closed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = match &mut self.output {
            // Stdin might be the same socket, so closing stdout alone would not end the stream.
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

mgp_types::opaque_debug!(StdioWriter { kind });
