//! The loop that drives a connection.
//!
//! Each turn of the loop answers finished calls, drives the notification queue, writes, reads and dispatches. A call is
//! polled once when it is dispatched, so that a call that completes immediately needs neither a queue nor a wake-up.

use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::task::{Context as Task, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{FuturesUnordered, Stream};
use mgp_types::method::{Request as _, ServerDiscover};
use mgp_types::service::{Call, CallKey, Context, Message, Method, Params};
use mgp_types::{ErrorCode, Id, RpcError};
use rustc_hash::FxHashSet;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::closing::{Closing, FlushReason};
use super::gauges::{CountedRequest, HeldBytes};
use super::line_joiner::{LineJoiner, is_cut_json};
use super::link::read_reply;
use super::notifications::{NotificationQueue, is_report};
use super::outbox::{CloseRequest, Outbox, request_numbers};
use super::priority::{extra_places, is_light_ping, is_ping};
use super::read_ahead::ReadAhead;
use super::running::{Batch, Running, RunningRequest};
use super::{CloseReason, Connection};
use crate::frame::{Line, LineBuffer};

/// The time for which reading pauses at the limit of running calls, before further calls are refused.
///
/// The pause gives the runtime time to run short calls, because a peer can send them faster than they are scheduled. If
/// the calls take longer, the pause is too short to disturb the peer: messages that it sends after them (e.g. a
/// cancellation, or an answer that a call needs) are still read soon enough.
const REFUSAL_DELAY: Duration = Duration::from_millis(50);
/// The maximum number of finished calls that one turn answers before it writes and reads again.
const MAX_FINISHED_PER_TURN: usize = 128;
/// The maximum number of reads after a write failed, so that a peer that keeps sending cannot delay the end.
const MAX_LAST_READS: usize = 64;

pub(super) struct Driver<R, W> {
    pub(super) connection: Connection<R, W>,
    /// The context that is cloned for each inbound call.
    cx: Context,
    lines: LineBuffer,
    /// The beginning of an overlong message that does not contain the message's id; stored until the
    /// end of the message arrives.
    pub(super) cut_head: Option<Bytes>,
    pub(super) joiner: LineJoiner,
    pub(super) read_ahead: ReadAhead,
    /// `true` if the peer closed its side; messages that were read ahead might still wait to be dispatched.
    is_eof: bool,
    /// `true` after a write failed. The answers to this side's own requests are still read, but no more calls start.
    answers_only: bool,
    /// The bytes that are being written; the first `written` bytes are done.
    writing: Vec<u8>,
    written: usize,
    pub(super) calls: FuturesUnordered<Running>,
    pub(super) notifications: NotificationQueue,
    /// The size of `notifications`, as the gauge `held` counts it.
    pub(super) held_notifications: HeldBytes,
    pub(super) closing: Closing,
    /// The pause of reading while too many calls run. It is stored even after it has elapsed, so that no new pause
    /// begins until a call ends.
    pub(super) pause: Option<Pin<Box<Sleep>>>,
}

/// The result of dispatching the lines that were read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dispatched {
    /// At least one line was dispatched, or queued until reading resumes.
    AnyLine,
    /// No line was dispatched, because none was left.
    NoLineLeft,
    /// No line was dispatched, because the next line must wait.
    MustWait,
}

impl<R, W> Driver<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    pub(super) fn new(connection: Connection<R, W>) -> Self {
        Self {
            cx: connection.context(),
            lines: LineBuffer::new(connection.limits.line_bytes),
            cut_head: None,
            joiner: LineJoiner::default(),
            read_ahead: ReadAhead::default(),
            is_eof: false,
            answers_only: false,
            writing: Vec::new(),
            written: 0,
            calls: FuturesUnordered::new(),
            notifications: NotificationQueue::default(),
            held_notifications: HeldBytes::new(&connection.counters, 0),
            closing: Closing::default(),
            pause: None,
            connection,
        }
    }

    pub(super) async fn run(mut self) -> CloseReason {
        let closed = poll_fn(|task| self.turn(task)).await;
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
    fn turn(&mut self, task: &mut Task<'_>) -> Poll<CloseReason> {
        loop {
            let has_more = self.answer_finished(task);
            self.drive_notifications(task);
            let written = self.write(task);
            self.connection.counters.unwritten.store(self.unwritten(), Ordering::Relaxed);
            if let Err(error) = written {
                self.read_arrived(task);
                return Poll::Ready(CloseReason::Io(error));
            }
            let read = match self.read(task) {
                Ok(read) => read,
                Err(error) => return Poll::Ready(CloseReason::Io(error)),
            };
            // A write may have made room for answers that were held back, so the loop goes on to send them.
            let can_answer = has_more && !self.holds_answers();
            if !read && !can_answer {
                return self.wait_or_close(task);
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
            match Pin::new(&mut self.calls).poll_next(task) {
                Poll::Ready(Some((request, outcome))) => self.answer(request, &outcome),
                _ => return false,
            }
        }
        true
    }

    fn drive_notifications(&mut self, task: &mut Task<'_>) {
        self.notifications.poll(task, |_| {});
        self.held_notifications.set(self.notifications.bytes());
    }

    // === Writing ===

    pub(super) fn outbox(&self) -> &Outbox {
        &self.connection.send_half.outbox
    }

    /// Returns whether the answers of finished calls are held back until the peer reads.
    fn holds_answers(&self) -> bool {
        self.outbox().holds_answers(self.unwritten())
    }

    pub(super) fn unwritten(&self) -> usize {
        self.writing.len() - self.written
    }

    /// Returns the numbers of the requests of this side that are not completely written.
    pub(super) fn unwritten_requests(&self) -> FxHashSet<i64> {
        let line_end = memchr::memrchr(b'\n', &self.writing[..self.written]);
        let unfinished = &self.writing[line_end.map_or(0, |at| at + 1)..];
        let mut numbers = request_numbers(unfinished).collect();
        self.outbox().add_requests(&mut numbers);
        numbers
    }

    /// Returns whether the peer is a child process, i.e. whether its lines that are not messages are reported.
    pub(super) fn is_child(&self) -> bool {
        self.connection.stray_lines.is_some()
    }

    fn write(&mut self, task: &mut Task<'_>) -> std::io::Result<()> {
        self.outbox().register_driver(task);
        loop {
            if self.unwritten() == 0 {
                self.writing.clear();
                self.written = 0;
                // Frees the large buffer that remains after a burst of messages.
                if self.writing.capacity() > self.connection.limits.unread_bytes {
                    self.writing = Vec::new();
                }
                self.connection.send_half.outbox.take_into(&mut self.writing);
                if self.writing.is_empty() {
                    if let Poll::Ready(result) =
                        Pin::new(&mut self.connection.writer).poll_flush(task)
                    {
                        result?;
                    }
                    return Ok(());
                }
            }
            let rest = &self.writing[self.written..];
            match Pin::new(&mut self.connection.writer).poll_write(task, rest) {
                Poll::Ready(Ok(0)) => return Err(std::io::ErrorKind::WriteZero.into()),
                Poll::Ready(Ok(count)) => {
                    self.written += count;
                    self.outbox().notify_senders();
                    self.closing.note_progress();
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(()),
            }
        }
    }

    // === Reading ===

    /// Dispatches buffered lines; if there are none, reads once and dispatches what arrived. Returns `false` if it made
    /// no progress.
    fn read(&mut self, task: &mut Task<'_>) -> std::io::Result<bool> {
        if !self.closing.is_open() {
            return Ok(false);
        }
        match self.outbox().close_request() {
            None => {}
            Some(CloseRequest::Flush) => {
                self.closing.start_flush(FlushReason::Local);
                return Ok(true);
            }
            Some(CloseRequest::Drain) => {
                self.dispatch_all_lines(task);
                self.closing.start_draining(&self.connection.limits);
                return Ok(true);
            }
        }
        match self.dispatch_lines(task) {
            Dispatched::NoLineLeft => {}
            // Return, so that the answers to these lines are written before more is read.
            Dispatched::AnyLine => return Ok(true),
            Dispatched::MustWait => return Ok(false),
        }
        if !self.is_eof {
            let buffer = self.lines.reading();
            let reading = pin!(self.connection.reader.read_buf(buffer));
            match reading.poll(task) {
                Poll::Ready(result) => self.is_eof = result? == 0,
                Poll::Pending => return Ok(false),
            }
            self.dispatch_lines(task);
        }
        if self.is_eof && self.closing.is_open() {
            if !self.read_ahead.is_empty() {
                return Ok(false);
            }
            match self.lines.last_line() {
                // A child that ended in the middle of an answer has not answered. Ignore the part, so that the call
                // fails like the other unanswered calls.
                Some(Line::Text(text)) if self.is_child() && is_cut_json(&text) => {
                    tracing::debug!(bytes = text.len(), "the child ended within a message");
                }
                Some(line) => self.dispatch_line(line, task),
                None => {}
            }
            self.closing.start_lingering(self.connection.limits.linger_timeout);
        }
        Ok(true)
    }

    /// Reads what arrived before a write failed, because it can contain answers to requests of this side. Nothing can
    /// be sent any more, so everything that is queued for the peer is dropped.
    fn read_arrived(&mut self, task: &mut Task<'_>) {
        self.answers_only = true;
        self.writing.clear();
        self.written = 0;
        self.outbox().discard();
        for _ in 0..MAX_LAST_READS {
            if !matches!(self.read(task), Ok(true)) {
                return;
            }
            self.outbox().discard();
        }
    }

    // === Dispatching ===

    /// Dispatches the lines that were read, as long as there is room for their answers.
    fn dispatch_lines(&mut self, task: &mut Task<'_>) -> Dispatched {
        let mut any = false;
        let end = loop {
            if !self.closing.is_open() || self.outbox().is_full(self.unwritten()) {
                break Dispatched::MustWait;
            }
            let reading_pauses = self.reading_pauses(task);
            if reading_pauses && self.read_ahead.is_full() {
                break Dispatched::MustWait;
            }
            if !reading_pauses && let Some((message, size)) = self.read_ahead.pop() {
                self.dispatch(message, size, None, task);
            } else {
                match self.lines.next_line() {
                    Some(line) if reading_pauses => self.queue_line(line, task),
                    Some(line) => self.dispatch_line(line, task),
                    None => break Dispatched::NoLineLeft,
                }
            }
            any = true;
        };
        if any { Dispatched::AnyLine } else { end }
    }

    /// Dispatches the lines that were read, without a pause, because nothing is read after them: each request still
    /// gets an answer, even if it is only an error.
    fn dispatch_all_lines(&mut self, task: &mut Task<'_>) {
        while self.closing.is_open()
            && let Some((message, size)) = self.read_ahead.pop()
        {
            self.dispatch(message, size, None, task);
        }
        while self.closing.is_open()
            && let Some(line) = self.lines.next_line()
        {
            self.dispatch_line(line, task);
        }
    }

    /// Queues a line until reading resumes. A ping is dispatched immediately, so it overtakes other messages.
    fn queue_line(&mut self, line: Line, task: &mut Task<'_>) {
        let Some((message, size)) = self.parse_line(line) else { return };
        match message {
            Message::Request { ref method, .. } if is_light_ping(method, size) => {
                self.dispatch(message, size, None, task);
            }
            message => self.read_ahead.push(message, size),
        }
    }

    /// Returns whether reading pauses because too many calls run.
    fn reading_pauses(&mut self, task: &mut Task<'_>) -> bool {
        if self.answers_only || self.calls.len() < self.connection.limits.in_flight {
            return false;
        }
        let pause =
            self.pause.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + REFUSAL_DELAY)));
        !pause.is_elapsed() && pause.as_mut().poll(task).is_pending()
    }

    fn dispatch_line(&mut self, line: Line, task: &mut Task<'_>) {
        if let Some((message, size)) = self.parse_line(line) {
            self.dispatch(message, size, None, task);
        }
    }

    pub(super) fn dispatch(
        &mut self,
        message: Message,
        size: usize,
        batch: Option<&Batch>,
        task: &mut Task<'_>,
    ) {
        match message {
            // After a write failed, no answer can be sent, so the call is not started.
            Message::Request { .. } if self.answers_only => {}
            Message::Request { ref id, ref method, .. } if self.is_echo(id, method) => {
                tracing::warn!(?id, %method, "ignored a request that the child printed as it read it");
            }
            Message::Request { id, method, params } => {
                self.dispatch_request(id, method, params, size, batch, task);
            }
            Message::Notification { method, params } => {
                self.dispatch_notification(method, params, size, task);
            }
            Message::Response { id, outcome } => {
                let pending = &self.connection.send_half.pending;
                // Some legacy servers cannot parse `server/discover`, with which the client finds out the era, so their
                // error has no id. The error counts as the answer to that request.
                let id = id.or_else(|| {
                    pending.first_of(ServerDiscover::METHOD).filter(|_| outcome.is_err())
                });
                let known = id.as_ref().is_some_and(|id| {
                    pending.complete(id, |cx| outcome.and_then(|result| read_reply(cx, result)))
                });
                if !known {
                    tracing::debug!(?id, "ignored an answer to an unknown request");
                }
            }
            Message::Batch(items) => self.dispatch_batch(items, batch, task),
        }
    }

    /// Returns whether a request is an echo: this side sent it, and the child printed it back, e.g. because a terminal
    /// is between this side and the child. Such a request gets no answer: the child would print the answer too, and
    /// this side would take it for the answer to its own request. Pings and requests about tasks never count as echoes,
    /// because both sides send them, and the ids can be equal by chance.
    fn is_echo(&self, id: &Id, method: &Method) -> bool {
        let is_of_both = is_ping(method) || method.as_str().starts_with("tasks/");
        self.is_child() && !is_of_both && self.connection.send_half.pending.is_of(id, method)
    }

    fn dispatch_request(
        &mut self,
        id: Id,
        method: Method,
        params: Params,
        size: usize,
        batch: Option<&Batch>,
        task: &mut Task<'_>,
    ) {
        if self.exceeds_limits(&method, size) {
            self.connection.counters.shed.fetch_add(1, Ordering::Relaxed);
            let error = RpcError::new(
                ErrorCode::RESOURCE_EXHAUSTED,
                "too many requests in flight on this connection; wait for some answers first",
            );
            return self.refuse(Some(&id), batch, error);
        }
        let mut cx = self.cx.clone();
        cx.key = CallKey::next();
        cx.wire_id = Some(id.clone());
        if let Some(batch) = batch {
            batch.open();
        }
        let counted = CountedRequest::new(&self.connection.counters, size);
        let request = RunningRequest { id, batch: batch.cloned(), counted };
        let mut future = self.connection.stack.send(Call::request(method, params, cx));
        if !self.holds_answers()
            && let Poll::Ready(outcome) = future.as_mut().poll(task)
        {
            return self.answer(request, &outcome);
        }
        self.calls.push(Running { request: Some(request), future });
    }

    /// Returns whether a request must be refused at the limits of running calls and of their bytes. A small ping can
    /// run beyond both, because a peer must be able to ping a busy server.
    fn exceeds_limits(&self, method: &Method, size: usize) -> bool {
        let limits = &self.connection.limits;
        let held = self.connection.counters.held.load(Ordering::Relaxed);
        // A request is always accepted if no other bytes are held, however long its line may be.
        let is_heavy = held > 0 && held.saturating_add(size) > limits.held_bytes;
        if !is_heavy && self.calls.len() < limits.in_flight {
            return false;
        }
        let more = extra_places(method, size);
        is_heavy && more == 0 || self.calls.len() >= limits.in_flight.saturating_add(more)
    }

    fn dispatch_notification(
        &mut self,
        method: Method,
        params: Params,
        size: usize,
        task: &mut Task<'_>,
    ) {
        let limits = &self.connection.limits;
        // Do not count the bytes of requests: a notification can be the cancellation that frees some of them. A single
        // notification is not a flood, however long it is.
        let waiting = self.notifications.bytes();
        let is_heavy = waiting > 0 && waiting + size > limits.held_bytes;
        if is_heavy || self.notifications.len() >= limits.notifications {
            self.connection.counters.dropped.fetch_add(1, Ordering::Relaxed);
            if !is_report(method.as_str()) {
                self.closing.start_flush(FlushReason::Flooded);
            }
            return;
        }
        let mut cx = self.cx.clone();
        cx.key = CallKey::next();
        let mut handling = self.connection.stack.send(Call::notification(method, params, cx));
        if self.notifications.len() == 0 && handling.as_mut().poll(task).is_ready() {
            return;
        }
        self.notifications.push(size, handling);
        self.held_notifications.set(self.notifications.bytes());
    }
}
