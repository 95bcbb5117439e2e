//! Event streams: the messages of one call, or of one session, on their way to the client.
//!
//! A legacy stream outlives its reader. Its unread events, and the last ones read, are kept for a client that
//! resumes the stream after the last event it received.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context as Task, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use mgp_types::service::ConsumerGone;
use mgp_types::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Unread bytes above which senders wait.
const MAX_UNREAD_BYTES: usize = 1 << 20;

/// Budget and settings shared by all streams of a server.
#[derive(Debug)]
pub(super) struct EventBudget {
    /// Bytes of events that are kept.
    held: AtomicUsize,
    /// Limit of `held`.
    bound: usize,
    /// Bytes that a single stream may keep for a client that resumes it.
    replay: usize,
    /// Time for which senders wait for a reader.
    stall: Duration,
    /// Time a client should wait before it resumes a stream.
    retry: Duration,
}

impl EventBudget {
    pub(super) fn new(bound: usize, replay: usize, stall: Duration, retry: Duration) -> Self {
        Self { held: AtomicUsize::new(0), bound, replay, stall, retry }
    }

    /// Returns the bytes that are kept.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns whether the limit is exceeded.
    pub(super) fn is_full(&self) -> bool {
        self.held() > self.bound
    }
}

/// Id of an event: the stream, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventId {
    pub(super) stream: u64,
    pub(super) number: u64,
}

impl EventId {
    /// Parses `stream-number`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (stream, number) = text.split_once('-')?;
        Some(Self { stream: stream.parse().ok()?, number: number.parse().ok()? })
    }
}

#[derive(Debug)]
pub(super) struct Stream {
    /// Number of the stream in its session; `None` for a modern stream, which cannot be resumed.
    number: Option<u64>,
    budget: Arc<EventBudget>,
    state: Mutex<StreamState>,
    /// Notifies senders that wait for the reader.
    room: Notify,
}

#[derive(Debug, Default)]
struct StreamState {
    events: VecDeque<Bytes>,
    /// Number of the first event in `events`.
    first: u64,
    /// Number of the next event for the reader.
    next: u64,
    /// Bytes of the events that the reader has not received.
    unread: usize,
    /// Bytes of all events.
    held: usize,
    /// Number of the current reader. A reader with a lower number was replaced, and ends.
    reader: u64,
    /// Readers up to this number end once they have received all events; see [`Stream::hang_up`].
    released: u64,
    is_read: bool,
    /// Answer that arrived before it was decided whether the response is JSON or an event stream.
    answer: Option<Vec<u8>>,
    /// If set, answers are written as events from now on.
    as_events: bool,
    ended: bool,
    waker: Option<Waker>,
    dropped: u64,
}

/// First output of a running call, for the request that waits to answer.
pub(super) enum FirstOutput {
    /// The call ended with this answer and sent nothing before.
    Answer(Vec<u8>),
    /// The call ended without an answer.
    Nothing,
    /// There are events before the answer.
    Events,
}

impl Stream {
    pub(super) fn new(number: Option<u64>, budget: Arc<EventBudget>) -> Self {
        Self { number, budget, state: Mutex::default(), room: Notify::new() }
    }

    // === Writing ===

    /// Waits until the reader has caught up, within the stall time.
    pub(super) async fn room(&self) -> Result<(), ConsumerGone> {
        let caught_up = async {
            loop {
                let notified = self.room.notified();
                {
                    let state = self.state.lock();
                    if state.ended {
                        return Err(ConsumerGone);
                    }
                    // Without a reader the oldest events make room.
                    let makes_room = !state.is_read && self.number.is_some();
                    let fits = state.unread == 0
                        || state.unread < MAX_UNREAD_BYTES && !self.budget.is_full();
                    if fits || makes_room {
                        return Ok(());
                    }
                }
                notified.await;
            }
        };
        timeout(self.budget.stall, caught_up).await.unwrap_or(Err(ConsumerGone))
    }

    /// Appends a message.
    pub(super) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), ConsumerGone> {
        let mut text = Vec::with_capacity(256);
        write(&mut text);
        let mut state = self.state.lock();
        if state.ended {
            return Err(ConsumerGone);
        }
        state.as_events = true;
        self.push_event(&mut state, &text);
        drop(state);
        Ok(())
    }

    /// Ends the stream with its answer, which may be empty.
    pub(super) fn finish(&self, answer: Vec<u8>) {
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        if !answer.is_empty() {
            if state.as_events {
                self.push_event(&mut state, &answer);
            } else {
                state.answer = Some(answer);
            }
        }
        self.close(state);
    }

    /// Ends the current response once the client has received all events; the client resumes the stream later.
    pub(super) fn hang_up(&self) -> bool {
        if self.number.is_none() {
            return false;
        }
        self.as_events(Some(self.budget.retry));
        let mut state = self.state.lock();
        if state.ended {
            return false;
        }
        // At least 1, so that a first reader that attaches later ends as well.
        state.released = state.reader.max(1);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        true
    }

    /// Ends the stream.
    pub(super) fn end(&self) {
        self.close(self.state.lock());
    }

    fn close(&self, mut state: MutexGuard<'_, StreamState>) {
        state.ended = true;
        let waker = state.waker.take();
        drop(state);
        self.room.notify_waiters();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn push_event(&self, state: &mut StreamState, message: &[u8]) {
        let number = state.first + state.events.len() as u64;
        let event = Bytes::from(self.event(number, message));
        state.unread += event.len();
        state.held += event.len();
        self.budget.held.fetch_add(event.len(), Ordering::Relaxed);
        state.events.push_back(event);
        if !state.is_read && self.number.is_some() {
            // Without a reader the oldest events are dropped: the latest matter most, and the answer is the last
            // of all.
            while state.events.len() > 1
                && (state.held > self.budget.replay || self.budget.is_full())
            {
                self.drop_oldest(state);
            }
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Writes a message as an event.
    pub(super) fn event(&self, number: u64, message: &[u8]) -> Vec<u8> {
        let mut event = Vec::with_capacity(message.len() + 48);
        event.extend_from_slice(b"event: message\n");
        if let Some(stream) = self.number {
            push_id(&mut event, EventId { stream, number });
        }
        event.extend_from_slice(b"data: ");
        // A message may contain line breaks; each of its lines then gets a `data:` prefix.
        for (at, line) in message.split(|byte| matches!(byte, b'\n' | b'\r')).enumerate() {
            if at > 0 {
                event.extend_from_slice(b"\ndata: ");
            }
            event.extend_from_slice(line);
        }
        event.extend_from_slice(b"\n\n");
        event
    }

    fn drop_oldest(&self, state: &mut StreamState) {
        let Some(event) = state.events.pop_front() else { return };
        self.budget.held.fetch_sub(event.len(), Ordering::Relaxed);
        state.held -= event.len();
        if state.first >= state.next {
            state.unread -= event.len();
            state.next = state.first + 1;
            state.dropped += 1;
            if state.dropped == 1 {
                tracing::debug!(stream = ?self.number, "dropped events of a stream without a reader");
            }
        }
        state.first += 1;
    }

    // === Reading ===

    /// Returns the first output; pending as long as the call has sent nothing.
    pub(super) fn poll_first_output(&self, task: &Task<'_>) -> Poll<FirstOutput> {
        let mut state = self.state.lock();
        if state.as_events {
            return Poll::Ready(FirstOutput::Events);
        }
        if state.ended {
            return Poll::Ready(
                state.answer.take().map_or(FirstOutput::Nothing, FirstOutput::Answer),
            );
        }
        state.waker = Some(task.waker().clone());
        Poll::Pending
    }

    /// Makes the response an event stream: from now on everything is written as an event, including a waiting answer.
    ///
    /// `prime` adds an empty first event with this retry delay. Its id lets a client resume the stream before any other
    /// event.
    pub(super) fn as_events(&self, prime: Option<Duration>) {
        let mut state = self.state.lock();
        if state.as_events {
            return;
        }
        state.as_events = true;
        if let Some(answer) = state.answer.take() {
            self.push_event(&mut state, &answer);
        } else if let (Some(retry), Some(stream), false) = (prime, self.number, state.ended) {
            let number = state.first + state.events.len() as u64;
            let mut event = Vec::new();
            push_id(&mut event, EventId { stream, number });
            event.extend_from_slice(format!("retry: {}\ndata: \n\n", retry.as_millis()).as_bytes());
            state.unread += event.len();
            state.held += event.len();
            self.budget.held.fetch_add(event.len(), Ordering::Relaxed);
            state.events.push_back(event.into());
        }
    }

    /// Attaches a new reader, after the last event read or after a given one; an earlier reader ends.
    pub(super) fn attach(&self, after: Option<u64>) -> u64 {
        let mut state = self.state.lock();
        if let Some(after) = after {
            let last = state.first + state.events.len() as u64;
            state.next = after.saturating_add(1).clamp(state.first, last);
            let skipped = usize::try_from(state.next - state.first).unwrap_or(usize::MAX);
            state.unread = state.events.iter().skip(skipped).map(Bytes::len).sum();
        }
        state.reader += 1;
        state.is_read = true;
        if let Some(earlier) = state.waker.take() {
            earlier.wake();
        }
        let reader = state.reader;
        drop(state);
        if after.is_some() {
            // The client has already received some of the events, so there may be room for waiting senders.
            self.room.notify_waiters();
        }
        reader
    }

    /// Detaches a reader.
    pub(super) fn detach(&self, reader: u64) {
        let mut state = self.state.lock();
        if state.reader == reader {
            state.is_read = false;
            state.waker = None;
            // Without a reader, a stream that cannot be resumed has ended.
            state.ended |= self.number.is_none();
            drop(state);
            self.room.notify_waiters();
        }
    }

    /// Returns all unread events in one piece; `None` once the stream has ended or another reader has replaced this
    /// one.
    pub(super) fn poll_read(&self, reader: u64, task: &Task<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.state.lock();
        if state.reader != reader {
            return Poll::Ready(None);
        }
        let skipped = usize::try_from(state.next - state.first).unwrap_or(usize::MAX);
        let unread = state.events.len() - skipped;
        if unread == 0 {
            if state.ended || reader <= state.released {
                return Poll::Ready(None);
            }
            state.waker = Some(task.waker().clone());
            return Poll::Pending;
        }
        let piece = if unread == 1 {
            state.events[skipped].clone()
        } else {
            let mut piece = Vec::with_capacity(state.unread);
            for event in state.events.iter().skip(skipped) {
                piece.extend_from_slice(event);
            }
            piece.into()
        };
        state.next += unread as u64;
        state.unread = 0;
        // The last piece may be lost in transit, and it may be the answer.
        let (keep, last) = if self.number.is_none() || self.budget.is_full() {
            (0, 0)
        } else {
            (self.budget.replay, 1)
        };
        while state.held > keep && state.events.len() > last {
            self.drop_oldest(&mut state);
        }
        drop(state);
        self.room.notify_waiters();
        Poll::Ready(Some(piece))
    }

    /// Takes all events of a call that ended before its response began.
    pub(super) fn take_events(&self) -> Bytes {
        let mut state = self.state.lock();
        let mut all = Vec::with_capacity(state.held);
        for event in std::mem::take(&mut state.events) {
            all.extend_from_slice(&event);
            state.first += 1;
        }
        state.next = state.first;
        self.budget.held.fetch_sub(state.held, Ordering::Relaxed);
        (state.held, state.unread) = (0, 0);
        all.into()
    }

    /// Returns whether nothing was sent.
    pub(super) fn is_silent(&self) -> bool {
        !self.state.lock().as_events
    }

    pub(super) fn is_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Returns the number in the session.
    pub(super) fn number(&self) -> Option<u64> {
        self.number
    }

    /// Returns whether the stream keeps events for a client that resumes it.
    pub(super) fn has_events(&self) -> bool {
        !self.state.lock().events.is_empty()
    }

    /// Returns whether there is a reader.
    pub(super) fn is_read(&self) -> bool {
        self.state.lock().is_read
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.state.lock().held, Ordering::Relaxed);
    }
}

fn push_id(event: &mut Vec<u8>, id: EventId) {
    let mut text = String::with_capacity(24);
    // Writing into memory cannot fail.
    let _ = writeln!(text, "id: {}-{}", id.stream, id.number);
    event.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests;
