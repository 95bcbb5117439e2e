//! Descriptors with blocking I/O; each direction uses one thread.
//!
//! Used for stdio where non-blocking I/O is not possible: files, terminals, devices. Both directions are bounded. The
//! reader queues at most [`MAX_CHUNKS`] chunks of [`CHUNK_SIZE`] bytes and then stops reading. The writer stores at
//! most [`MAX_BUFFERED`] bytes, plus the same number that its thread is writing, and then the caller waits. The threads
//! are detached, so a thread that is blocked in a system call does not prevent the process from ending.

use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use bytes::{Buf, Bytes};
use tokio::io::ReadBuf;
use tokio::sync::mpsc;

/// The number of bytes that one blocking read requests.
const CHUNK_SIZE: usize = 64 * 1024;

/// The maximum number of chunks that wait for the reader.
const MAX_CHUNKS: usize = 4;

/// The maximum number of bytes that wait for the writing thread.
const MAX_BUFFERED: usize = 256 * 1024;

/// A reader of the data that a thread has read ahead.
pub(super) struct ThreadReader {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

/// A writer into a buffer that a thread empties.
pub(super) struct ThreadWriter {
    queue: Arc<WriteQueue>,
}

struct WriteQueue {
    state: Mutex<WriteState>,
    work: Condvar,
}

#[derive(Default)]
struct WriteState {
    /// The bytes that the thread has not taken yet.
    waiting: Vec<u8>,
    /// `true` while the thread has bytes that are not written.
    writing: bool,
    /// If set, no more bytes will be added.
    closing: bool,
    /// If set, the thread has closed the descriptor.
    closed: bool,
    /// The error after which nothing more can be written.
    failed: Option<io::ErrorKind>,
    /// The task that writes, flushes or shuts down; there is only one.
    waker: Option<Waker>,
}

impl ThreadReader {
    pub(super) fn start(source: impl Read + Send + 'static) -> io::Result<Self> {
        let (sender, chunks) = mpsc::channel(MAX_CHUNKS);
        thread::Builder::new()
            .name("mgp-stdin".to_owned())
            .spawn(move || read_ahead(source, &sender))?;
        Ok(Self { chunks, current: Bytes::new() })
    }

    pub(super) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.current.is_empty() && buf.remaining() > 0 {
            match std::task::ready!(self.chunks.poll_recv(cx)) {
                Some(chunk) => self.current = chunk?,
                None => return Poll::Ready(Ok(())),
            }
        }
        let fits = self.current.len().min(buf.remaining());
        buf.put_slice(&self.current[..fits]);
        self.current.advance(fits);
        Poll::Ready(Ok(()))
    }
}

fn read_ahead(mut source: impl Read, sender: &mpsc::Sender<io::Result<Bytes>>) {
    let mut buffer = vec![0; CHUNK_SIZE];
    loop {
        let chunk = match source.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => Ok(Bytes::copy_from_slice(&buffer[..read])),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let last = chunk.is_err();
        if sender.blocking_send(chunk).is_err() || last {
            return;
        }
    }
}

impl ThreadWriter {
    pub(super) fn start(target: impl Write + Send + 'static) -> io::Result<Self> {
        let queue = Arc::new(WriteQueue { state: Mutex::default(), work: Condvar::new() });
        let thread_queue = Arc::clone(&queue);
        thread::Builder::new()
            .name("mgp-stdout".to_owned())
            .spawn(move || write_behind(target, &thread_queue))?;
        Ok(Self { queue })
    }

    pub(super) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut state = self.queue.lock();
        if let Some(kind) = state.failed {
            return Poll::Ready(Err(kind.into()));
        }
        if state.closing {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let fits = buf.len().min(MAX_BUFFERED - state.waiting.len());
        if fits == 0 && !buf.is_empty() {
            return state.wait(cx);
        }
        state.waiting.extend_from_slice(&buf[..fits]);
        drop(state);
        self.queue.work.notify_one();
        Poll::Ready(Ok(fits))
    }

    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.queue.lock();
        match state.failed {
            Some(kind) => Poll::Ready(Err(kind.into())),
            None if state.waiting.is_empty() && !state.writing => Poll::Ready(Ok(())),
            None => state.wait(cx),
        }
    }

    pub(super) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.queue.lock();
        if !state.closing {
            state.closing = true;
            self.queue.work.notify_one();
        }
        match state.failed {
            Some(kind) => Poll::Ready(Err(kind.into())),
            None if state.closed => Poll::Ready(Ok(())),
            None => state.wait(cx),
        }
    }
}

impl Drop for ThreadWriter {
    /// Makes the thread end once it has written the remaining bytes; does not wait for the thread.
    fn drop(&mut self) {
        self.queue.lock().closing = true;
        self.queue.work.notify_one();
    }
}

impl WriteQueue {
    fn lock(&self) -> MutexGuard<'_, WriteState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for bytes and moves them to `buffer`; returns `false` if no more bytes will be added.
    fn collect(&self, buffer: &mut Vec<u8>) -> bool {
        let mut state = self.lock();
        loop {
            if !state.waiting.is_empty() {
                std::mem::swap(&mut state.waiting, buffer);
                state.writing = true;
                state.wake();
                return true;
            }
            if state.closing {
                return false;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl WriteState {
    fn wait<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        self.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

fn write_behind(mut target: impl Write, queue: &WriteQueue) {
    let mut buffer = Vec::new();
    let mut failed = None;
    while failed.is_none() && queue.collect(&mut buffer) {
        failed = target.write_all(&buffer).and_then(|()| target.flush()).err();
        buffer.clear();
        let mut state = queue.lock();
        state.writing = false;
        state.failed = failed.as_ref().map(io::Error::kind);
        state.wake();
    }
    // Close the descriptor before the waiting task is notified of the end.
    drop(target);
    let mut state = queue.lock();
    state.closed = true;
    state.wake();
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// A writer that blocks until the test sends to its channel; then it fails, or counts the bytes.
    struct Gate {
        open: std::sync::mpsc::Receiver<io::Result<()>>,
        written: Arc<Mutex<usize>>,
    }

    impl Write for Gate {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            self.open.recv().unwrap_or(Ok(()))?;
            *self.written.lock().unwrap() += buf.len();
            Ok(buf.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    async fn write(writer: &mut ThreadWriter, bytes: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| writer.poll_write(cx, bytes)).await
    }

    #[tokio::test]
    async fn the_buffer_of_a_stuck_target_is_bounded() {
        let (open, gate) = std::sync::mpsc::channel();
        let written = Arc::new(Mutex::new(0));
        let target = Gate { open: gate, written: Arc::clone(&written) };
        let mut writer = ThreadWriter::start(target).unwrap();
        let block = vec![b'x'; CHUNK_SIZE];
        let mut accepted = 0;
        // The test writes far more bytes than are accepted without waiting, so the write must wait.
        let filling = async {
            for _ in 0..64 {
                accepted += write(&mut writer, &block).await.unwrap();
            }
        };
        let timeout = std::time::Duration::from_millis(300);
        assert!(tokio::time::timeout(timeout, filling).await.is_err());
        assert!((MAX_BUFFERED..=2 * MAX_BUFFERED).contains(&accepted), "{accepted}");
        drop(open);
        poll_fn(|cx| writer.poll_flush(cx)).await.unwrap();
        assert_eq!(*written.lock().unwrap(), accepted);
        poll_fn(|cx| writer.poll_shutdown(cx)).await.unwrap();
        assert!(write(&mut writer, b"more").await.is_err());
    }

    #[tokio::test]
    async fn a_failed_write_is_reported_from_then_on() {
        let (open, gate) = std::sync::mpsc::channel();
        open.send(Err(io::ErrorKind::StorageFull.into())).unwrap();
        let target = Gate { open: gate, written: Arc::default() };
        let mut writer = ThreadWriter::start(target).unwrap();
        write(&mut writer, b"x").await.unwrap();
        let full = io::ErrorKind::StorageFull;
        assert_eq!(poll_fn(|cx| writer.poll_flush(cx)).await.unwrap_err().kind(), full);
        assert_eq!(write(&mut writer, b"x").await.unwrap_err().kind(), full);
        assert_eq!(poll_fn(|cx| writer.poll_shutdown(cx)).await.unwrap_err().kind(), full);
    }

    #[tokio::test]
    async fn the_reader_hands_on_bytes_errors_and_the_end() {
        struct Source(Vec<io::Result<&'static [u8]>>);
        impl Read for Source {
            fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                let bytes = self.0.pop().unwrap_or(Ok(b""))?;
                buf[..bytes.len()].copy_from_slice(bytes);
                Ok(bytes.len())
            }
        }
        let interrupted = || Err(io::ErrorKind::Interrupted.into());
        let broken = Err(io::ErrorKind::ConnectionReset.into());
        let source = Source(vec![broken, Ok(b"cd"), interrupted(), Ok(b"ab")]);
        let mut reader = ThreadReader::start(source).unwrap();
        let mut read = Vec::new();
        loop {
            let mut space = [0; 1];
            let mut buf = ReadBuf::new(&mut space);
            match poll_fn(|cx| reader.poll_read(cx, &mut buf)).await {
                Ok(()) => read.extend_from_slice(buf.filled()),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
                    break;
                }
            }
        }
        assert_eq!(read, b"abcd");
        let mut buf = ReadBuf::new(&mut []);
        poll_fn(|cx| reader.poll_read(cx, &mut buf)).await.unwrap();
    }
}
