//! The loop of a connection.
//!
//! Each turn: answer calls that finished, move the notification lane, write, read, dispatch.
//! A call is polled once where it is dispatched, so that one that completes at once costs no queue and no wake-up.
//!
//! Applies to: both.

use std::future::{Future as _, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::task::{Context as Task, Poll, ready};
use std::time::Duration;

use bytestring::ByteString;
use futures_util::stream::{FuturesUnordered, Stream};
use mgp_types::service::{
    BadMessage, Call, CallKey, Context, Message, Method, Params, Reply, WireRules, write_answer,
};
use mgp_types::{ErrorCode, Id, RpcError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use super::ahead::Ahead;
use super::batch::Batch;
use super::lane::{Lane, only_reports};
use super::link::read_reply;
use super::outbox::End;
use super::running::Running;
use super::sign::{SIGN_BYTES, asks_for_life, places_beyond};
use super::{Closed, Connection};
use crate::frame::{Line, LineBuffer};

/// What a running call costs besides its params: a guess that keeps a flood of tiny ones bounded.
const CALL_COST: usize = 512;
/// How long reading pauses at the bound of running calls before more of them are refused.
///
/// A peer may write faster than calls of microseconds get their turn on the runtime; one whose calls really run
/// does not notice, and what stands behind (a cancellation, an answer a call waits for) is read in time.
const GRACE: Duration = Duration::from_millis(50);
/// How many finished calls one turn answers before it writes and reads again.
const TURN: usize = 128;

pub(super) struct Driver<R, W> {
    connection: Connection<R, W>,
    /// Cloned for each inbound call.
    cx: Context,
    lines: LineBuffer,
    /// What was read while too many calls run.
    ahead: Ahead,
    /// Whether the peer closed its side; what was read ahead may still wait.
    is_read_up: bool,
    /// What is being written.
    writing: Vec<u8>,
    written: usize,
    calls: FuturesUnordered<Running>,
    lane: Lane,
    /// When a peer that does not read, or a closing connection, is given up.
    patience: Option<Pin<Box<Sleep>>>,
    /// When a connection that this side leaves ends at the latest, however busily its peer reads.
    last: Option<Instant>,
    /// Until when reading pauses because too many calls run; it stays, spent, until one of them ends.
    grace: Option<Pin<Box<Sleep>>>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// The peer closed its side: running calls may finish.
    Lingering,
    /// This side leaves: running calls may finish.
    Leaving,
    /// Only what is queued is still written.
    Flushing(Why),
}

/// How many of the lines that were read were dispatched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// None is left.
    All,
    Some,
    /// The next must wait.
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Local,
    Flooded,
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
            ahead: Ahead::default(),
            is_read_up: false,
            writing: Vec::new(),
            written: 0,
            calls: FuturesUnordered::new(),
            lane: Lane::default(),
            patience: None,
            last: None,
            grace: None,
            phase: Phase::Open,
            connection,
        }
    }

    pub(super) async fn run(mut self) -> Closed {
        let closed = poll_fn(|task| self.turn(task)).await;
        self.end();
        if !matches!(closed, Closed::Io(_) | Closed::Stalled(_)) {
            // Writers with a buffer of their own (files, terminals) are done only once they are shut down.
            let linger = self.connection.limits.linger;
            let _ = timeout(linger, self.connection.writer.shutdown()).await;
        }
        tracing::debug!(reason = %closed, "connection ended");
        closed
    }

    fn turn(&mut self, task: &mut Task<'_>) -> Poll<Closed> {
        loop {
            let answered = self.answer_finished(task);
            self.move_lane(task);
            let written = self.write(task);
            self.connection.counters.unwritten.store(self.unwritten(), Ordering::Relaxed);
            if let Err(error) = written {
                return Poll::Ready(Closed::Io(error));
            }
            let read = match self.read(task) {
                Ok(read) => read,
                Err(error) => return Poll::Ready(Closed::Io(error)),
            };
            if !read && !answered {
                return self.settle(task);
            }
        }
    }

    /// Answers calls that finished, unless the peer does not read; `true` when there may be more.
    fn answer_finished(&mut self, task: &mut Task<'_>) -> bool {
        for _ in 0..TURN {
            if self.calls.is_empty() || self.connection.shared.outbox.is_stuffed(self.unwritten()) {
                return false;
            }
            match Pin::new(&mut self.calls).poll_next(task) {
                Poll::Ready(Some(done)) => {
                    self.finish(&done.id, done.size, done.batch.as_ref(), &done.outcome);
                }
                _ => return false,
            }
        }
        true
    }

    fn move_lane(&mut self, task: &mut Task<'_>) {
        let held = &self.connection.counters.held;
        self.lane.poll(task, |size| {
            held.fetch_sub(size, Ordering::Relaxed);
        });
    }

    // === Writing ===

    fn unwritten(&self) -> usize {
        self.writing.len() - self.written
    }

    fn write(&mut self, task: &mut Task<'_>) -> std::io::Result<()> {
        self.connection.shared.outbox.register(task);
        loop {
            if self.unwritten() == 0 {
                self.writing.clear();
                self.written = 0;
                // A burst does not keep its buffer for ever.
                if self.writing.capacity() > self.connection.limits.unread_bytes {
                    self.writing = Vec::new();
                }
                self.connection.shared.outbox.take_into(&mut self.writing);
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
                    self.connection.shared.outbox.drained();
                    // The peer reads: a stall is over, and an answer on its way has the time it takes.
                    if matches!(self.phase, Phase::Open | Phase::Leaving) {
                        self.patience = None;
                    }
                }
                Poll::Ready(Err(error)) => return Err(error),
                Poll::Pending => return Ok(()),
            }
        }
    }

    // === Reading ===

    /// Dispatches what was read, or reads once and dispatches that; `true` when something was done.
    fn read(&mut self, task: &mut Task<'_>) -> std::io::Result<bool> {
        if self.phase != Phase::Open {
            return Ok(false);
        }
        match self.connection.shared.outbox.end() {
            None => {}
            Some(End::Now) => {
                self.flush(Why::Local);
                return Ok(true);
            }
            Some(End::Answered) => {
                // What was read is answered, if only to say that it comes too late.
                self.take_lines(task);
                self.phase = Phase::Leaving;
                self.patience = None;
                let limits = &self.connection.limits;
                self.last = Instant::now().checked_add(limits.stall.max(limits.linger));
                return Ok(true);
            }
        }
        match self.take_lines(task) {
            Taken::All => {}
            // What they were answered is written before more is read.
            Taken::Some => return Ok(true),
            Taken::Nothing => return Ok(false),
        }
        if !self.is_read_up {
            let buffer = self.lines.reading();
            let reading = pin!(self.connection.reader.read_buf(buffer));
            match reading.poll(task) {
                Poll::Ready(result) => self.is_read_up = result? == 0,
                Poll::Pending => return Ok(false),
            }
            self.take_lines(task);
        }
        if self.is_read_up && self.phase == Phase::Open {
            if !self.ahead.is_empty() {
                return Ok(false);
            }
            if let Some(line) = self.lines.rest() {
                self.take_line(line, task);
            }
            self.phase = Phase::Lingering;
            self.patience =
                Some(Box::pin(sleep_until(Instant::now() + self.connection.limits.linger)));
        }
        Ok(true)
    }

    /// Dispatches the lines that were read, as far as there is room for their answers.
    fn take_lines(&mut self, task: &mut Task<'_>) -> Taken {
        let mut taken = Taken::Nothing;
        while self.phase == Phase::Open {
            if self.connection.shared.outbox.is_full(self.unwritten()) {
                return taken;
            }
            let pauses = self.pauses(task);
            if pauses && self.ahead.is_full() {
                return taken;
            }
            if !pauses
                && !self.ahead.is_empty()
                && let Some((message, size)) = self.ahead.pop()
            {
                self.take_message(message, size, None, task);
                taken = Taken::Some;
                continue;
            }
            match self.lines.next_line() {
                Some(line) if pauses => self.look_ahead(line, task),
                Some(line) => self.take_line(line, task),
                None if taken == Taken::Nothing => return Taken::All,
                None => return taken,
            }
            taken = Taken::Some;
        }
        taken
    }

    /// Keeps a line for later, unless it asks for a sign of life: that overtakes the others.
    fn look_ahead(&mut self, line: Line, task: &mut Task<'_>) {
        let Some((message, size)) = self.read_line(line) else { return };
        match message {
            Message::Request { ref method, .. } if Self::is_sign(method, size) => {
                self.take_message(message, size, None, task);
            }
            message => self.ahead.push(message, size),
        }
    }

    /// Whether reading pauses because too many calls run.
    fn pauses(&mut self, task: &mut Task<'_>) -> bool {
        if self.calls.len() < self.connection.limits.in_flight {
            return false;
        }
        let grace = self.grace.get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + GRACE)));
        !grace.is_elapsed() && grace.as_mut().poll(task).is_pending()
    }

    fn take_line(&mut self, line: Line, task: &mut Task<'_>) {
        if let Some((message, size)) = self.read_line(line) {
            self.take_message(message, size, None, task);
        }
    }

    /// Reads a line and says what it weighs; one that is no message is refused.
    fn read_line(&self, line: Line) -> Option<(Message, usize)> {
        let error = match line {
            Line::Text(text) => return self.read_message(text, None),
            Line::NotText(bytes) => {
                if let Some(answer) = Message::answer_of(&bytes) {
                    return Some((answer, CALL_COST));
                }
                RpcError::new(ErrorCode::PARSE_ERROR, "parse error: the line is no UTF-8")
            }
            Line::TooLong => RpcError::invalid_request(format!(
                "a message may have at most {} bytes",
                self.connection.limits.line_bytes
            )),
        };
        self.refuse(None, None, error);
        None
    }

    fn read_message(&self, text: ByteString, batch: Option<&Batch>) -> Option<(Message, usize)> {
        let size = text.len() + CALL_COST;
        match Message::parse(text) {
            Ok(message) => return Some((message, size)),
            Err(BadMessage { id, error: Some(error) }) => self.refuse(id.as_ref(), batch, error),
            Err(BadMessage { error: None, .. }) => {
                tracing::debug!("a malformed answer was ignored");
            }
        }
        None
    }

    fn take_message(
        &mut self,
        message: Message,
        size: usize,
        batch: Option<&Batch>,
        task: &mut Task<'_>,
    ) {
        match message {
            Message::Request { id, method, params } => {
                self.request(id, method, params, size, batch, task);
            }
            Message::Notification { method, params } => {
                self.notification(method, params, size, task);
            }
            Message::Response { id, outcome } => {
                let known = id.as_ref().is_some_and(|id| {
                    self.connection
                        .shared
                        .pending
                        .answer(id, |cx| outcome.map(|result| read_reply(cx, result)))
                });
                if !known {
                    tracing::debug!(?id, "an answer to no request of ours");
                }
            }
            Message::Batch(items) => self.batch(items, batch, task),
        }
    }

    fn batch(&mut self, items: Vec<ByteString>, outer: Option<&Batch>, task: &mut Task<'_>) {
        let allowed = outer.is_none() && self.connection.scope.state::<WireRules>().takes_batches();
        if !allowed {
            let error = RpcError::invalid_request(
                "several messages in one array are not part of this revision",
            );
            return self.refuse(None, outer, error);
        }
        let batch = Batch::default();
        // Held open until every item is dispatched, so that a fast answer does not close the array early.
        batch.open();
        for item in items {
            if let Some((message, size)) = self.read_message(item, Some(&batch)) {
                self.take_message(message, size, Some(&batch), task);
            }
        }
        self.answer_batch(&batch, &[]);
    }

    fn request(
        &mut self,
        id: Id,
        method: Method,
        params: Params,
        size: usize,
        batch: Option<&Batch>,
        task: &mut Task<'_>,
    ) {
        let limits = &self.connection.limits;
        let counters = &self.connection.counters;
        let held = counters.held.load(Ordering::Relaxed);
        let is_full = self.calls.len() >= limits.in_flight || held + size > limits.held_bytes;
        if is_full && !self.squeezes_in(&method, size) {
            counters.shed.fetch_add(1, Ordering::Relaxed);
            let error = RpcError::new(
                ErrorCode::RESOURCE_EXHAUSTED,
                "too many requests in flight on this connection; wait for some answers first",
            );
            return self.refuse(Some(&id), batch, error);
        }
        let mut cx = self.cx.clone();
        cx.key = CallKey::next();
        cx.wire_id = Some(id.clone());
        counters.running.fetch_add(1, Ordering::Relaxed);
        counters.held.fetch_add(size, Ordering::Relaxed);
        if let Some(batch) = batch {
            batch.open();
        }
        let mut future = self.connection.stack.send(Call::request(method, params, cx));
        if !self.connection.shared.outbox.is_stuffed(self.unwritten())
            && let Poll::Ready(outcome) = future.as_mut().poll(task)
        {
            return self.finish(&id, size, batch, &outcome);
        }
        self.calls.push(Running { id: Some(id), size, batch: batch.cloned(), future });
    }

    /// Whether a request is let in where no other is: a peer must learn that this side lives, above all when it is busy.
    fn squeezes_in(&self, method: &Method, size: usize) -> bool {
        let more = places_beyond(method, size.saturating_sub(CALL_COST));
        self.calls.len() < self.connection.limits.in_flight.saturating_add(more)
    }

    /// Whether a request asks for a sign of life, and for nothing that weighs.
    fn is_sign(method: &Method, size: usize) -> bool {
        asks_for_life(method) && size <= SIGN_BYTES + CALL_COST
    }

    fn notification(&mut self, method: Method, params: Params, size: usize, task: &mut Task<'_>) {
        let limits = &self.connection.limits;
        let counters = &self.connection.counters;
        let held = counters.held.load(Ordering::Relaxed);
        if self.lane.len() >= limits.notifications || held + size > limits.held_bytes {
            counters.dropped.fetch_add(1, Ordering::Relaxed);
            if !only_reports(method.as_str()) {
                self.flush(Why::Flooded);
            }
            return;
        }
        let mut cx = self.cx.clone();
        cx.key = CallKey::next();
        let mut handling = self.connection.stack.send(Call::notification(method, params, cx));
        if self.lane.len() == 0 && handling.as_mut().poll(task).is_ready() {
            return;
        }
        counters.held.fetch_add(size, Ordering::Relaxed);
        self.lane.push(size, handling);
    }

    // === Answering ===

    fn finish(
        &mut self,
        id: &Id,
        size: usize,
        batch: Option<&Batch>,
        outcome: &Result<Reply, RpcError>,
    ) {
        // Below the bound the next time at it is a new one.
        if self.calls.len() < self.connection.limits.in_flight {
            self.grace = None;
        }
        let counters = &self.connection.counters;
        counters.running.fetch_sub(1, Ordering::Relaxed);
        counters.held.fetch_sub(size, Ordering::Relaxed);
        match batch {
            None => {
                self.connection.shared.outbox.push_own(|out| write_answer(out, Some(id), outcome));
            }
            Some(batch) => {
                let mut answer = Vec::new();
                write_answer(&mut answer, Some(id), outcome);
                self.answer_batch(batch, &answer);
            }
        }
    }

    fn refuse(&self, id: Option<&Id>, batch: Option<&Batch>, error: RpcError) {
        tracing::debug!(?id, %error, "refused a message");
        let told = self.connection.scope.state::<WireRules>().tells_recovery();
        let error = Err(if told { error } else { error.without_recovery() });
        match batch {
            None => self.connection.shared.outbox.push_own(|out| write_answer(out, id, &error)),
            Some(batch) => {
                let mut answer = Vec::new();
                write_answer(&mut answer, id, &error);
                batch.open();
                self.answer_batch(batch, &answer);
            }
        }
    }

    fn answer_batch(&self, batch: &Batch, answer: &[u8]) {
        if let Some(array) = batch.close(answer) {
            self.connection.shared.outbox.push_own(|out| out.extend_from_slice(&array));
        }
    }

    // === Waiting and ending ===

    /// Reads no more; what is queued is written within the linger time, however long the peer was waited for before.
    fn flush(&mut self, why: Why) {
        self.phase = Phase::Flushing(why);
        self.patience = None;
    }

    /// Nothing moves: decides between waiting and ending.
    fn settle(&mut self, task: &mut Task<'_>) -> Poll<Closed> {
        let idle = self.unwritten() == 0;
        let limits = &self.connection.limits;
        match self.phase {
            Phase::Open => {
                // Senders and their callers wait from here on, so the peer may not make them wait for ever.
                if !self.connection.shared.outbox.is_high(self.unwritten()) {
                    return Poll::Pending;
                }
                let stall = limits.stall;
                ready!(self.wait(stall, task));
                Poll::Ready(Closed::Stalled(stall))
            }
            Phase::Lingering => {
                if idle && self.calls.is_empty() && self.lane.len() == 0 {
                    return Poll::Ready(Closed::Eof);
                }
                let linger = limits.linger;
                ready!(self.wait(linger, task));
                Poll::Ready(Closed::Eof)
            }
            Phase::Leaving => {
                if !idle || !self.calls.is_empty() || self.lane.len() > 0 {
                    let linger = self.connection.limits.linger;
                    ready!(self.wait(linger, task));
                }
                Poll::Ready(Closed::Local)
            }
            Phase::Flushing(why) => {
                if !idle {
                    let linger = limits.linger;
                    ready!(self.wait(linger, task));
                }
                Poll::Ready(match why {
                    Why::Local => Closed::Local,
                    Why::Flooded => Closed::Flooded,
                })
            }
        }
    }

    fn wait(&mut self, time: Duration, task: &mut Task<'_>) -> Poll<()> {
        let last = self.last;
        let patience = self.patience.get_or_insert_with(|| {
            let until = Instant::now() + time;
            Box::pin(sleep_until(last.map_or(until, |last| last.min(until))))
        });
        patience.as_mut().poll(task)
    }
}

impl<R, W> Driver<R, W> {
    /// Drops the running calls, then ends what else hangs on the connection.
    fn end(&mut self) {
        self.connection.shared.outbox.close();
        self.calls.clear();
        self.lane.clear();
        self.ahead.clear();
        let counters = &self.connection.counters;
        for gauge in [&counters.running, &counters.held, &counters.unwritten] {
            gauge.store(0, Ordering::Relaxed);
        }
        self.connection.end();
    }
}

/// Also when it is dropped half-way.
impl<R, W> Drop for Driver<R, W> {
    fn drop(&mut self) {
        self.end();
    }
}
