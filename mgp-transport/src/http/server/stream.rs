//! The messages of one call, or of one session, on their way to the client.
//!
//! A legacy stream outlives its reader: what it sent last and what nobody has read yet waits for a client that comes
//! back with the id of the last event it saw.
//!
//! Applies to: inbound.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Task, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use mgp_types::service::Gone;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Bytes nobody has read above which senders wait.
const HIGH: usize = 1 << 20;

/// What all streams of a server share.
#[derive(Debug)]
pub(super) struct Store {
    /// Bytes of events that are kept.
    held: AtomicUsize,
    /// How many there may be.
    bound: usize,
    /// How many a single stream may keep for a client that comes back.
    replay: usize,
    /// How long senders wait for a reader.
    stall: Duration,
    /// How long a client waits before it comes back.
    retry: Duration,
}

impl Store {
    pub(super) fn new(bound: usize, replay: usize, stall: Duration, retry: Duration) -> Self {
        Self { held: AtomicUsize::new(0), bound, replay, stall, retry }
    }

    /// Bytes that are kept.
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether nothing more should be kept.
    pub(super) fn is_full(&self) -> bool {
        self.held() > self.bound
    }
}

/// Names an event for a client that comes back: the stream, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventId {
    pub(super) stream: u64,
    pub(super) number: u64,
}

impl EventId {
    /// Reads `stream-number`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (stream, number) = text.split_once('-')?;
        Some(Self { stream: stream.parse().ok()?, number: number.parse().ok()? })
    }
}

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    /// Its number in its session; `None` where no client can come back to it.
    number: Option<u64>,
    store: Arc<Store>,
    state: Mutex<State>,
    /// Senders that wait for the reader.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Bytes>,
    /// The number of the first of them.
    first: u64,
    /// The number of the first that the reader has not got.
    next: u64,
    /// Bytes of those the reader has not got.
    unread: usize,
    /// Bytes of all.
    held: usize,
    /// Counts the readers, so that an earlier one learns that it was replaced.
    reader: u64,
    /// Readers up to this one are let go once they have everything.
    let_go: u64,
    is_read: bool,
    /// An answer that came before it was decided how to write it.
    answer: Option<Vec<u8>>,
    /// Whether answers are written as events from now on.
    as_events: bool,
    ended: bool,
    waker: Option<Waker>,
    lost: u64,
}

/// How a call that runs goes on, seen from whoever waits to answer its request.
pub(super) enum Begin {
    /// It ended, and this is all there is to say.
    Answer(Vec<u8>),
    /// It ended without an answer.
    Nothing,
    /// There is something to tell before the answer.
    Events,
}

impl Stream {
    pub(super) fn new(number: Option<u64>, store: Arc<Store>) -> Self {
        Self { number, store, state: Mutex::default(), room: Notify::new() }
    }

    // === Writing ===

    /// Waits until the reader has caught up, as long as it may.
    pub(super) async fn room(&self) -> Result<(), Gone> {
        let caught_up = async {
            loop {
                let notified = self.room.notified();
                {
                    let state = self.state();
                    if state.ended {
                        return Err(Gone);
                    }
                    // Where nobody reads, the oldest make room.
                    let makes_room = !state.is_read && self.number.is_some();
                    let fits = state.unread == 0 || state.unread < HIGH && !self.store.is_full();
                    if fits || makes_room {
                        return Ok(());
                    }
                }
                notified.await;
            }
        };
        timeout(self.store.stall, caught_up).await.unwrap_or(Err(Gone))
    }

    /// Puts a message.
    pub(super) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Gone> {
        let mut text = Vec::with_capacity(256);
        write(&mut text);
        let mut state = self.state();
        if state.ended {
            return Err(Gone);
        }
        state.as_events = true;
        self.put(&mut state, &text);
        drop(state);
        Ok(())
    }

    /// Ends the stream with its answer; an empty one is none.
    pub(super) fn finish(&self, answer: Vec<u8>) {
        let mut state = self.state();
        if state.ended {
            return;
        }
        if !answer.is_empty() {
            if state.as_events {
                self.put(&mut state, &answer);
            } else {
                state.answer = Some(answer);
            }
        }
        self.close(state);
    }

    /// Lets the reader go once it has what there is; it comes back for the rest.
    pub(super) fn hang_up(&self) -> bool {
        if self.number.is_none() {
            return false;
        }
        self.as_events(Some(self.store.retry));
        let mut state = self.state();
        if state.ended {
            return false;
        }
        // The first reader may not have begun.
        state.let_go = state.reader.max(1);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
        true
    }

    /// Ends the stream.
    pub(super) fn end(&self) {
        self.close(self.state());
    }

    fn close(&self, mut state: MutexGuard<'_, State>) {
        state.ended = true;
        let waker = state.waker.take();
        drop(state);
        self.room.notify_waiters();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn put(&self, state: &mut State, message: &[u8]) {
        let number = state.first + state.events.len() as u64;
        let event = Bytes::from(self.event(number, message));
        state.unread += event.len();
        state.held += event.len();
        self.store.held.fetch_add(event.len(), Ordering::Relaxed);
        state.events.push_back(event);
        if !state.is_read && self.number.is_some() {
            // Nobody reads: what is told last matters most, and the answer is told last of all.
            while state.events.len() > 1 && (state.held > self.store.replay || self.store.is_full())
            {
                self.drop_oldest(state);
            }
        }
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// A message as an event.
    pub(super) fn event(&self, number: u64, message: &[u8]) -> Vec<u8> {
        let mut event = Vec::with_capacity(message.len() + 48);
        event.extend_from_slice(b"event: message\n");
        if let Some(stream) = self.number {
            push_id(&mut event, EventId { stream, number });
        }
        event.extend_from_slice(b"data: ");
        // Payloads of handlers may stand on several lines.
        for (at, line) in message.split(|byte| matches!(byte, b'\n' | b'\r')).enumerate() {
            if at > 0 {
                event.extend_from_slice(b"\ndata: ");
            }
            event.extend_from_slice(line);
        }
        event.extend_from_slice(b"\n\n");
        event
    }

    fn drop_oldest(&self, state: &mut State) {
        let Some(event) = state.events.pop_front() else { return };
        self.store.held.fetch_sub(event.len(), Ordering::Relaxed);
        state.held -= event.len();
        if state.first >= state.next {
            state.unread -= event.len();
            state.next = state.first + 1;
            state.lost += 1;
            if state.lost == 1 {
                tracing::debug!(stream = ?self.number, "events were dropped: nobody reads them");
            }
        }
        state.first += 1;
    }

    // === Reading ===

    /// Waits for what the response begins with; `Poll::Pending` while the call is silent.
    pub(super) fn poll_begin(&self, task: &Task<'_>) -> Poll<Begin> {
        let mut state = self.state();
        if state.as_events {
            return Poll::Ready(Begin::Events);
        }
        if state.ended {
            return Poll::Ready(state.answer.take().map_or(Begin::Nothing, Begin::Answer));
        }
        state.waker = Some(task.waker().clone());
        Poll::Pending
    }

    /// Writes everything as events from now on, the answer that is there already included.
    ///
    /// `prime` is the first event a client needs to be able to come back before anything was told.
    pub(super) fn as_events(&self, prime: Option<Duration>) {
        let mut state = self.state();
        if state.as_events {
            return;
        }
        state.as_events = true;
        if let Some(answer) = state.answer.take() {
            self.put(&mut state, &answer);
        } else if let (Some(retry), Some(stream), false) = (prime, self.number, state.ended) {
            let number = state.first + state.events.len() as u64;
            let mut event = Vec::new();
            push_id(&mut event, EventId { stream, number });
            event.extend_from_slice(format!("retry: {}\ndata: \n\n", retry.as_millis()).as_bytes());
            state.unread += event.len();
            state.held += event.len();
            self.store.held.fetch_add(event.len(), Ordering::Relaxed);
            state.events.push_back(event.into());
        }
    }

    /// A new reader, from where the last one was or from behind an event; one that was there before ends.
    pub(super) fn attach(&self, after: Option<u64>) -> u64 {
        let mut state = self.state();
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
            // What it has already is not in the way of those who wait.
            self.room.notify_waiters();
        }
        reader
    }

    /// A reader leaves.
    pub(super) fn detach(&self, reader: u64) {
        let mut state = self.state();
        if state.reader == reader {
            state.is_read = false;
            state.waker = None;
            // Where nobody can come back it is over.
            state.ended |= self.number.is_none();
            drop(state);
            self.room.notify_waiters();
        }
    }

    /// All that the reader has not got, in one piece; `None` at the end, or when another reader took its place.
    pub(super) fn poll_read(&self, reader: u64, task: &Task<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.state();
        if state.reader != reader {
            return Poll::Ready(None);
        }
        let skipped = usize::try_from(state.next - state.first).unwrap_or(usize::MAX);
        let unread = state.events.len() - skipped;
        if unread == 0 {
            if state.ended || reader <= state.let_go {
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
        // What was read last may be lost on its way, and it may be the answer.
        let (keep, last) = if self.number.is_none() || self.store.is_full() {
            (0, 0)
        } else {
            (self.store.replay, 1)
        };
        while state.held > keep && state.events.len() > last {
            self.drop_oldest(&mut state);
        }
        drop(state);
        self.room.notify_waiters();
        Poll::Ready(Some(piece))
    }

    /// All there is, where the call ended before anybody began to read.
    pub(super) fn take_all(&self) -> Bytes {
        let mut state = self.state();
        let mut all = Vec::with_capacity(state.held);
        for event in std::mem::take(&mut state.events) {
            all.extend_from_slice(&event);
            state.first += 1;
        }
        state.next = state.first;
        self.store.held.fetch_sub(state.held, Ordering::Relaxed);
        (state.held, state.unread) = (0, 0);
        all.into()
    }

    /// Whether nothing was told.
    pub(super) fn is_silent(&self) -> bool {
        !self.state().as_events
    }

    /// Whether it has ended.
    pub(super) fn is_ended(&self) -> bool {
        self.state().ended
    }

    /// Its number in its session.
    pub(super) fn number(&self) -> Option<u64> {
        self.number
    }

    /// Whether it keeps events for a client that comes back.
    pub(super) fn has_events(&self) -> bool {
        !self.state().events.is_empty()
    }

    /// Whether somebody reads it.
    pub(super) fn is_read(&self) -> bool {
        self.state().is_read
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.store.held.fetch_sub(self.state().held, Ordering::Relaxed);
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
