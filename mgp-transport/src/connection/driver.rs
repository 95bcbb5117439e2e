//! The loop that drives a connection.
//!
//! Each turn of the loop answers finished calls, drives the notification queue, writes, reads and dispatches. A call is
//! polled once when it is dispatched, so that a call that completes immediately needs neither a queue nor a wake-up.
//!
//! The states of a connection. The phases of its end are in `closing.rs`:
//!
//! ```text
//! state                   reads                      starts calls  runs calls  writes
//! open                    yes                        yes           yes         yes
//! too many calls (pause)  ahead, to find pings       pings         yes         yes
//! the peer closed         no                         no            yes         yes
//! draining                no                         no            yes         yes
//! flushing                no                         no            no          what is queued
//! a write failed          at most 64 more times (a)  no            no          no
//! ```
//!
//! (a) For answers to the requests of this side.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, Stream as _};
use mgp_types::service::Context;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::closing::{Closing, FlushReason};
use super::notifications::HeldNotifications;
use super::outbox::{CloseRequest, Outbox};
use super::read_pause::ReadPause;
use super::reading::{NoLine, Reading};
use super::running::Running;
use super::writing::Writing;
use super::{CloseReason, Connection};

/// The maximum number of finished calls that one turn answers before it writes and reads again.
const MAX_FINISHED_PER_TURN: usize = 128;
/// The maximum number of reads after a write failed, so that a peer that keeps sending cannot delay the end.
const MAX_LAST_READS: usize = 64;
/// The minimum time between two checks of a child that has a call and does not read.
const MIN_BUSY_INTERVAL: Duration = Duration::from_secs(1);

/// The effect of one step of the loop: if it changed anything, the loop must run the other steps again before it waits.
enum Progress {
    Made,
    None,
}

pub(super) struct Driver<R, W> {
    pub(super) connection: Connection<R, W>,
    /// The context that is cloned for each inbound call.
    pub(super) cx: Context,
    reading: Reading,
    pub(super) calls: FuturesUnordered<Running>,
    pub(super) notifications: HeldNotifications,
    pub(super) writing: Writing,
    pub(super) closing: Closing,
}

impl<R, W> Driver<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(connection: Connection<R, W>) -> Self {
        Self {
            cx: connection.context(),
            reading: Reading::new(connection.limits.line_bytes),
            calls: FuturesUnordered::new(),
            notifications: HeldNotifications::new(&connection.counters),
            writing: Writing::default(),
            closing: Closing::default(),
            connection,
        }
    }

    pub(super) async fn run(mut self) -> CloseReason {
        let closed = poll_fn(|task| self.drive(task)).await;
        self.end();
        if !matches!(closed, CloseReason::Io(_) | CloseReason::Stalled(_)) {
            // Shut the writer down, because a writer with a buffer of its own (a file, a terminal) has written
            // everything only then.
            let linger = self.connection.limits.linger_timeout;
            let _ = timeout(linger, self.connection.writer.shutdown()).await;
        }
        tracing::debug!(reason = %closed, "connection ended");
        closed
    }

    /// Repeats the steps of the loop until none of them makes progress, then waits or closes the connection.
    ///
    /// Other tasks run even if the peer sends without end: each read uses up a part of tokio's budget for this task.
    /// Without budget, tokio's readers return `Pending` and wake the task again.
    fn drive(&mut self, task: &mut Task<'_>) -> Poll<CloseReason> {
        loop {
            let has_more = self.answer_finished(task);
            self.notifications.poll(task);
            if let Err(error) = self.write(task) {
                self.read_arrived(task);
                return Poll::Ready(CloseReason::Io(error));
            }
            match self.read(task) {
                Ok(Progress::Made) => {}
                // Send the answers that are left: this turn has reached its maximum, or the answers were held back and
                // a write has made room for them. Nothing else would wake the task for them.
                Ok(Progress::None) if has_more && !self.holds_answers() => {}
                Ok(Progress::None) => return self.wait_or_close(task),
                Err(error) => return Poll::Ready(CloseReason::Io(error)),
            }
        }
    }

    /// Sends the answers of finished calls. Returns `true` if finished calls might be left, because it stopped after
    /// `MAX_FINISHED_PER_TURN` calls, or because too many answers wait for the peer to read them. The task is not woken
    /// for the calls that are left.
    fn answer_finished(&mut self, task: &mut Task<'_>) -> bool {
        for _ in 0..MAX_FINISHED_PER_TURN {
            if self.calls.is_empty() {
                return false;
            }
            if self.holds_answers() {
                return true;
            }
            let finished = Pin::new(&mut self.calls).poll_next(task);
            let Poll::Ready(Some((request, outcome))) = finished else { return false };
            if !self.has_too_many_calls() {
                self.reading.pause.end();
            }
            self.connection.answer(request, &outcome);
        }
        true
    }

    fn write(&mut self, task: &mut Task<'_>) -> std::io::Result<()> {
        if self.writing.write(&mut self.connection, task)? {
            self.closing.note_progress();
            if self.closing.is_closed_by_peer() && self.outbox().unwritten() > 0 {
                self.closing.note_slow_reader();
            }
        }
        Ok(())
    }

    /// Starts to close the connection if this side has requested it. Else dispatches buffered lines; if there are none,
    /// reads once and dispatches what arrived.
    fn read(&mut self, task: &mut Task<'_>) -> std::io::Result<Progress> {
        if !self.closing.is_open() {
            // A connection that is being drained can still be closed, which drops the calls that run.
            if self.closing.is_draining() && self.outbox().is_closed() {
                self.closing.start_flush(FlushReason::Local);
                return Ok(Progress::Made);
            }
            return Ok(Progress::None);
        }
        if let Some(request) = self.outbox().close_request() {
            self.start_closing(request, task);
            return Ok(Progress::Made);
        }
        match self.dispatch_lines(task) {
            // Return, so that the answers to these lines are written before more is read.
            Ok(()) => return Ok(Progress::Made),
            Err(NoLine::MustWait) => return Ok(Progress::None),
            Err(NoLine::NoneLeft) => {}
        }
        if !self.reading.is_eof {
            match self.reading.poll(&mut self.connection.reader, task) {
                Poll::Ready(result) => result?,
                Poll::Pending => return Ok(Progress::None),
            }
            // Ignore the result: it only shows whether the bytes that arrived completed a line.
            let _ = self.dispatch_lines(task);
        }
        if self.reading.is_eof && self.closing.is_open() {
            return Ok(self.dispatch_last(task));
        }
        Ok(Progress::Made)
    }

    fn start_closing(&mut self, request: CloseRequest, task: &mut Task<'_>) {
        match request {
            CloseRequest::Flush => self.closing.start_flush(FlushReason::Local),
            CloseRequest::Drain => {
                self.dispatch_all_lines(task);
                self.closing.start_draining(&self.connection.limits);
            }
        }
    }

    /// Dispatches the message after the last line end, because the peer has closed its side. Waits with it while other
    /// messages are queued during a pause.
    fn dispatch_last(&mut self, task: &mut Task<'_>) -> Progress {
        if self.reading.pause.has_messages() {
            return Progress::None;
        }
        if let Some((message, size)) = self.reading.last(&self.connection) {
            self.dispatch(message, size, None, task);
        }
        self.closing.start_lingering(&self.connection.limits);
        Progress::Made
    }

    /// Reads what arrived before a write failed, because it can contain answers to requests of this side. Nothing can
    /// be sent any more, so everything that is queued for the peer is dropped.
    fn read_arrived(&mut self, task: &mut Task<'_>) {
        self.writing.has_failed = true;
        self.writing.clear();
        self.outbox().discard();
        for _ in 0..MAX_LAST_READS {
            if !matches!(self.read(task), Ok(Progress::Made)) {
                return;
            }
            self.outbox().discard();
        }
    }

    /// Dispatches the lines that were read, as long as there is room for their answers. Returns an error if no
    /// line was taken.
    fn dispatch_lines(&mut self, task: &mut Task<'_>) -> Result<(), NoLine> {
        let mut result = Err(NoLine::MustWait);
        while self.closing.is_open() && !self.outbox().is_full() {
            // After a write failed, no call starts, so reading need not pause.
            let too_many_calls = !self.writing.has_failed && self.has_too_many_calls();
            match self.reading.next(too_many_calls, &self.connection, task) {
                Ok(Some((message, size))) => self.dispatch(message, size, None, task),
                Ok(None) => {}
                Err(no_line) => return result.or(Err(no_line)),
            }
            result = Ok(());
        }
        result
    }

    /// Dispatches the lines that were read. As these are the last ones, dispatching does not pause at the limit of
    /// calls: each request gets an answer, even if only an error.
    fn dispatch_all_lines(&mut self, task: &mut Task<'_>) {
        while self.closing.is_open()
            && let Ok(message) = self.reading.next(false, &self.connection, task)
        {
            if let Some((message, size)) = message {
                self.dispatch(message, size, None, task);
            }
        }
    }
}

impl<R, W> Driver<R, W> {
    /// Waits for the next event. Ends a closing connection once its work is done, and any connection at its deadline.
    fn wait_or_close(&mut self, task: &mut Task<'_>) -> Poll<CloseReason> {
        if let Some(reason) = self.closing.reason() {
            let linger = self.connection.limits.linger_timeout;
            if self.outbox().unwritten() > 0 || self.awaits_calls() {
                ready!(self.closing.poll_deadline(linger, task));
            } else if self.closing.is_closed_by_peer() && !self.calls.is_empty() {
                ready!(self.closing.poll_stream_deadline(linger, task));
            }
            return Poll::Ready(reason);
        }
        // A peer that reads nothing can block senders, reading and answers. So its time is limited as soon as
        // `Limits::unread_bytes` are unread.
        if !self.outbox().is_high() {
            return Poll::Pending;
        }
        let stall = self.connection.limits.stall_timeout;
        ready!(self.closing.poll_deadline(stall, task));
        if !self.is_child_busy() {
            return Poll::Ready(CloseReason::Stalled(stall));
        }
        self.closing.note_progress();
        // Set a new deadline and register the task for it. The result is `Pending`, because the deadline is later.
        let _ = self.closing.poll_deadline(stall.max(MIN_BUSY_INTERVAL), task);
        Poll::Pending
    }

    /// Returns whether the end of a closing connection waits for calls. Once the peer has closed its side, it does not
    /// wait for streams of changes: they would never end, and many clients kill a server that does not exit soon.
    fn awaits_calls(&self) -> bool {
        let is_closed_by_peer = self.closing.is_closed_by_peer();
        let is_awaited = |call: &Running| !(is_closed_by_peer && call.is_stream);
        !self.closing.drops_calls()
            && (!self.notifications.is_empty() || self.calls.iter().any(is_awaited))
    }

    /// Returns whether the peer is a child that has received a call and not answered it. Many servers run one call at a
    /// time and read nothing meanwhile, so such a child does not count as stalled; the time limit of the call ends the
    /// wait.
    fn is_child_busy(&self) -> bool {
        let pending = &self.connection.send_half.pending;
        self.connection.is_child()
            && pending.has_other_calls(&self.writing.unwritten_requests(self.outbox()))
    }

    fn outbox(&self) -> &Outbox {
        &self.connection.send_half.outbox
    }

    /// Returns whether at least as many calls run as the limit allows.
    pub(super) fn has_too_many_calls(&self) -> bool {
        self.calls.len() >= self.connection.limits.in_flight
    }

    /// Returns whether the answers of finished calls are held back until the peer reads.
    pub(super) fn holds_answers(&self) -> bool {
        self.outbox().holds_answers()
    }

    /// Drops the running calls, then ends everything else that belongs to the connection. A second call does nothing:
    /// `run` ends the connection, and then drops the driver.
    fn end(&mut self) {
        self.outbox().close();
        self.calls.clear();
        self.notifications = HeldNotifications::new(&self.connection.counters);
        self.reading.pause = ReadPause::default();
        self.connection.end();
    }
}

/// Ends the connection even if the driver is dropped while it runs.
impl<R, W> Drop for Driver<R, W> {
    fn drop(&mut self) {
        self.end();
    }
}
