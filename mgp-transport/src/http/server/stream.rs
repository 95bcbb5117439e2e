//! Event streams, which carry the messages of one call or of one session to the client.
//!
//! A legacy stream can outlive its reader. Unread events, and the last of the events that were read, are kept for a
//! client that resumes the stream after an interruption.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context as Task, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use mgp_types::service::ConsumerGone;
use mgp_types::sync::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::event_budget::CallerBudget;

/// The number of unread bytes above which senders wait.
const MAX_UNREAD_BYTES: usize = 1 << 20;

/// The number of unread events with which a repeated notification is compared.
const MAX_COMPARED: usize = 16;

/// The id of an event: the number of the stream, and the number of the event in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventId {
    pub(super) stream: u64,
    pub(super) number: u64,
}

impl EventId {
    /// Parses an event id of the form `STREAM-NUMBER`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (stream, number) = text.split_once('-')?;
        Some(Self { stream: stream.parse().ok()?, number: number.parse().ok()? })
    }
}

#[derive(Debug)]
pub(super) struct Stream {
    /// The sequence number of the stream in its session; `None` for a modern stream, which cannot be resumed.
    number: Option<u64>,
    budget: Arc<CallerBudget>,
    /// `true` if the client accepts no event stream, so that only the answer can be sent.
    is_answer_only: AtomicBool,
    state: Mutex<StreamState>,
    /// Notifies senders that wait for the reader.
    room: Notify,
}

#[derive(Debug, Default)]
struct StreamState {
    events: VecDeque<Bytes>,
    /// The sequence number of the first event in `events`.
    first: u64,
    /// The sequence number of the next event that the reader gets.
    next: u64,
    /// The size, in bytes, of the events that the reader has not received.
    unread_bytes: usize,
    /// The size of all stored events, in bytes.
    stored_bytes: usize,
    /// The sequence number of the current reader. A reader with a lower number was replaced, and ends.
    reader: u64,
    /// Readers up to this number end when they have received all events; see [`Stream::hang_up`].
    released: u64,
    has_reader: bool,
    /// An answer that was ready before it was decided whether the response is JSON or an event stream.
    answer: Option<Vec<u8>>,
    /// If set, answers are written as events from now on.
    writes_events: bool,
    ended: bool,
    waker: Option<Waker>,
    dropped: u64,
}

/// The first output of a running call; the HTTP request of the call waits for it.
pub(super) enum FirstOutput {
    /// The call ended with this answer and sent no messages before it.
    Answer(Vec<u8>),
    /// The call ended without an answer and without other messages.
    Nothing,
    /// There are messages that the reader gets before the answer.
    Events,
}

impl StreamState {
    /// Returns whether one of the newest unread events has this message.
    fn has_unread(&self, message: &[u8]) -> bool {
        let skipped = usize::try_from(self.next.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let mut data = Vec::with_capacity(message.len() + 8);
        push_data(&mut data, message);
        let mut newest = self.events.iter().skip(skipped).rev().take(MAX_COMPARED);
        newest.any(|event| event.ends_with(&data))
    }
}

impl Stream {
    pub(super) fn new(number: Option<u64>, budget: Arc<CallerBudget>) -> Self {
        Self {
            number,
            budget,
            is_answer_only: AtomicBool::new(false),
            state: Mutex::default(),
            room: Notify::new(),
        }
    }

    /// Drops all messages before the answer, because the client accepts no event stream.
    pub(super) fn send_answer_only(&self) {
        self.is_answer_only.store(true, Ordering::Relaxed);
    }

    /// Returns whether messages before the answer are dropped.
    pub(super) fn is_answer_only(&self) -> bool {
        self.is_answer_only.load(Ordering::Relaxed)
    }

    // === Writing ===

    /// Waits until the reader has read enough, but not longer than the stall timeout.
    pub(super) async fn wait_for_room(&self) -> Result<(), ConsumerGone> {
        let caught_up = async {
            loop {
                let notified = self.room.notified();
                {
                    let state = self.state.lock();
                    if state.ended {
                        return Err(ConsumerGone);
                    }
                    // If a stream that can be resumed has no reader, senders need not wait, because the oldest events
                    // are dropped to make room.
                    let makes_room = !state.has_reader && self.number.is_some();
                    let fits = state.unread_bytes == 0
                        || state.unread_bytes < MAX_UNREAD_BYTES && !self.budget.is_full();
                    if fits || makes_room {
                        return Ok(());
                    }
                }
                notified.await;
            }
        };
        timeout(self.budget.all.stall_timeout, caught_up).await.unwrap_or(Err(ConsumerGone))
    }

    pub(super) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), ConsumerGone> {
        self.push_unless(|_, _| false, write)
    }

    /// Like [`push`](Self::push), for a notification that has the same effect once and several times, e.g. of a changed
    /// list. Leaves it out if the stream has no reader and one of its newest unread events is the same notification:
    /// many clients never read the stream of their session, which would otherwise fill with copies.
    pub(super) fn push_once(&self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), ConsumerGone> {
        self.push_unless(|state, text| !state.has_reader && state.has_unread(text), write)
    }

    fn push_unless(
        &self,
        is_known: impl FnOnce(&StreamState, &[u8]) -> bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), ConsumerGone> {
        let mut text = Vec::with_capacity(256);
        write(&mut text);
        let mut state = self.state.lock();
        if state.ended {
            return Err(ConsumerGone);
        }
        if self.is_answer_only() {
            return Ok(());
        }
        state.writes_events = true;
        if !is_known(&state, &text) {
            self.push_event(&mut state, &text);
        }
        drop(state);
        Ok(())
    }

    /// Ends the stream with the answer to its call; the answer may be empty.
    pub(super) fn finish(&self, answer: Vec<u8>) {
        let mut state = self.state.lock();
        if state.ended {
            return;
        }
        if !answer.is_empty() {
            if state.writes_events {
                self.push_event(&mut state, &answer);
            } else {
                state.answer = Some(answer);
            }
        }
        self.close(state);
    }

    /// Ends the current response when the client has received all events; the client can resume the stream later.
    /// Returns `false`, and does nothing, if the stream cannot be resumed or has ended.
    pub(super) fn hang_up(&self) -> bool {
        if self.number.is_none() {
            return false;
        }
        self.begin_events(Some(self.budget.all.retry_delay));
        let mut state = self.state.lock();
        if state.ended {
            return false;
        }
        // The first reader gets number 1. If no reader has attached yet, release number 1, so that the first reader
        // ends too.
        state.released = state.reader.max(1);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        true
    }

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
        let event = Bytes::from(self.encode_event(number, message));
        state.unread_bytes += event.len();
        state.stored_bytes += event.len();
        self.budget.add(event.len());
        state.events.push_back(event);
        if !state.has_reader && self.number.is_some() {
            // Without a reader, the oldest events are dropped: the newest events are the most important, and the answer
            // is always the last event.
            while state.events.len() > 1
                && (state.stored_bytes > self.budget.all.replay_bytes || self.budget.is_full())
            {
                self.drop_oldest(state);
            }
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    pub(super) fn encode_event(&self, number: u64, message: &[u8]) -> Vec<u8> {
        let mut event = Vec::with_capacity(message.len() + 48);
        event.extend_from_slice(b"event: message\n");
        if let Some(stream) = self.number {
            push_id(&mut event, EventId { stream, number });
        }
        push_data(&mut event, message);
        event
    }

    fn drop_oldest(&self, state: &mut StreamState) {
        let Some(event) = state.events.pop_front() else { return };
        self.budget.remove(event.len());
        state.stored_bytes -= event.len();
        if state.first >= state.next {
            state.unread_bytes -= event.len();
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
        if state.writes_events {
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

    /// Makes the response an event stream: from now on, everything is written as an event, including
    /// an answer that is ready.
    ///
    /// `prime` adds an empty first event with this retry delay. With its id, a client can resume the stream even if it
    /// receives no other event.
    pub(super) fn begin_events(&self, prime: Option<Duration>) {
        let mut state = self.state.lock();
        if state.writes_events {
            return;
        }
        state.writes_events = true;
        if let Some(answer) = state.answer.take() {
            self.push_event(&mut state, &answer);
        } else if let (Some(retry), Some(stream), false) = (prime, self.number, state.ended) {
            let number = state.first + state.events.len() as u64;
            let mut event = Vec::new();
            push_id(&mut event, EventId { stream, number });
            event.extend_from_slice(format!("retry: {}\ndata: \n\n", retry.as_millis()).as_bytes());
            state.unread_bytes += event.len();
            state.stored_bytes += event.len();
            self.budget.add(event.len());
            state.events.push_back(event.into());
        }
    }

    /// Attaches a new reader, and returns its number. The reader continues after the last event that was read or, if
    /// given, after event `after`. An earlier reader ends.
    pub(super) fn attach(&self, after: Option<u64>) -> u64 {
        let mut state = self.state.lock();
        if let Some(after) = after {
            let last = state.first + state.events.len() as u64;
            state.next = after.saturating_add(1).clamp(state.first, last);
            let skipped = usize::try_from(state.next - state.first).unwrap_or(usize::MAX);
            state.unread_bytes = state.events.iter().skip(skipped).map(Bytes::len).sum();
        }
        state.reader += 1;
        state.has_reader = true;
        if let Some(earlier) = state.waker.take() {
            earlier.wake();
        }
        let reader = state.reader;
        drop(state);
        if after.is_some() {
            // The client has already received some of the events, so there might be room for waiting senders.
            self.room.notify_waiters();
        }
        reader
    }

    pub(super) fn detach(&self, reader: u64) {
        let mut state = self.state.lock();
        if state.reader == reader {
            state.has_reader = false;
            state.waker = None;
            // A stream that cannot be resumed ends when its reader is detached.
            state.ended |= self.number.is_none();
            drop(state);
            self.room.notify_waiters();
        }
    }

    /// Returns all unread events as one piece; `None` if the stream or this reader's response has ended, or another
    /// reader has replaced this reader.
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
            let mut piece = Vec::with_capacity(state.unread_bytes);
            for event in state.events.iter().skip(skipped) {
                piece.extend_from_slice(event);
            }
            piece.into()
        };
        state.next += unread as u64;
        state.unread_bytes = 0;
        // The last events are kept, because they might be lost in transit, and might contain the answer.
        let (keep, last) = if self.number.is_none() || self.budget.is_full() {
            (0, 0)
        } else {
            (self.budget.all.replay_bytes, 1)
        };
        while state.stored_bytes > keep && state.events.len() > last {
            self.drop_oldest(&mut state);
        }
        drop(state);
        self.room.notify_waiters();
        Poll::Ready(Some(piece))
    }

    /// Removes and returns all events of a call that ended before its response began.
    pub(super) fn take_events(&self) -> Bytes {
        let mut state = self.state.lock();
        let mut all = Vec::with_capacity(state.stored_bytes);
        for event in std::mem::take(&mut state.events) {
            all.extend_from_slice(&event);
            state.first += 1;
        }
        state.next = state.first;
        self.budget.remove(state.stored_bytes);
        (state.stored_bytes, state.unread_bytes) = (0, 0);
        all.into()
    }

    /// Returns whether the call has sent no message yet, so that the response need not be an event stream.
    pub(super) fn is_silent(&self) -> bool {
        !self.state.lock().writes_events
    }

    pub(super) fn is_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Returns the sequence number of the stream in its session; `None` for a modern stream.
    pub(super) fn number(&self) -> Option<u64> {
        self.number
    }

    /// Returns whether the stream has stored events for a client that resumes it.
    pub(super) fn has_events(&self) -> bool {
        !self.state.lock().events.is_empty()
    }

    pub(super) fn has_reader(&self) -> bool {
        self.state.lock().has_reader
    }

    /// Returns whether the stream has events that the client has not received, and no reader.
    pub(super) fn has_unread(&self) -> bool {
        let state = self.state.lock();
        !state.has_reader && state.unread_bytes > 0
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.budget.remove(self.state.lock().stored_bytes);
    }
}

/// Writes a message as the data of an event, and the end of the event.
pub(super) fn push_data(event: &mut Vec<u8>, message: &[u8]) {
    event.extend_from_slice(b"data: ");
    // A message can contain line breaks; each of its lines then gets a `data:` prefix.
    for (at, line) in message.split(|byte| matches!(byte, b'\n' | b'\r')).enumerate() {
        if at > 0 {
            event.extend_from_slice(b"\ndata: ");
        }
        event.extend_from_slice(line);
    }
    event.extend_from_slice(b"\n\n");
}

fn push_id(event: &mut Vec<u8>, id: EventId) {
    let mut text = String::with_capacity(24);
    // Writing into memory never fails.
    let _ = writeln!(text, "id: {}-{}", id.stream, id.number);
    event.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests;
