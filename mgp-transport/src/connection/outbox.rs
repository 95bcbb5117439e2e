//! The bytes on their way to the peer: one shared buffer, written in as few system calls as possible.
//!
//! Applies to: both.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context as Task, Waker};

use tokio::sync::Notify;

/// Collects encoded messages until the connection writes them.
///
/// Overflow rule: senders wait above `high`; above four times as much nothing more is read;
/// above eight times as much finished calls keep their answers, which nothing new can come behind.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    /// The length of the buffer, to be read without the lock: it is looked at several times a line.
    len: AtomicUsize,
    high: AtomicUsize,
    /// Whether answers are taken however many wait: the connection is to end.
    takes_all: AtomicBool,
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    buffer: Vec<u8>,
    closed: bool,
    leaving: bool,
    driver: Option<Waker>,
}

/// When a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// When what is queued is written.
    Now,
    /// When what runs is answered.
    Answered,
}

/// The connection no longer takes messages.
#[derive(Debug)]
pub(crate) struct IsClosed;

impl Outbox {
    pub(crate) fn new(high: usize) -> Self {
        Self {
            state: Mutex::default(),
            len: AtomicUsize::new(0),
            high: AtomicUsize::new(high),
            takes_all: AtomicBool::new(false),
            room: Notify::new(),
        }
    }

    /// Changes where senders begin to wait.
    pub(crate) fn bound(&self, high: usize) {
        self.high.store(high, Ordering::Relaxed);
        self.room.notify_waiters();
    }

    /// Appends one message and its newline, from the connection's own task.
    pub(crate) fn push_own(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let before = state.buffer.len();
        write(&mut state.buffer);
        if state.buffer.len() > before {
            end_line(&mut state.buffer, before);
        }
        self.note(&state);
    }

    /// Appends one message from elsewhere and wakes the connection.
    pub(crate) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), IsClosed> {
        let mut state = self.state();
        if state.closed {
            return Err(IsClosed);
        }
        let before = state.buffer.len();
        write(&mut state.buffer);
        end_line(&mut state.buffer, before);
        self.note(&state);
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(())
    }

    /// Waits until there is room for another message.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn room(&self) -> Result<(), IsClosed> {
        loop {
            let notified = self.room.notified();
            {
                let state = self.state();
                if state.closed {
                    return Err(IsClosed);
                }
                if state.buffer.len() < self.high.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
            notified.await;
        }
    }

    /// Takes what is to be written, leaving an empty buffer.
    pub(crate) fn take_into(&self, writing: &mut Vec<u8>) {
        debug_assert!(writing.is_empty(), "what was taken before is written first");
        let mut state = self.state();
        std::mem::swap(&mut state.buffer, writing);
        self.note(&state);
    }

    /// Remembers whom to wake when more comes.
    pub(crate) fn register(&self, task: &Task<'_>) {
        let mut state = self.state();
        if !state.driver.as_ref().is_some_and(|driver| driver.will_wake(task.waker())) {
            state.driver = Some(task.waker().clone());
        }
    }

    /// Tells waiting senders that the peer has read.
    pub(crate) fn drained(&self) {
        self.room.notify_waiters();
    }

    /// How many bytes wait here.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether senders wait.
    pub(crate) fn is_high(&self, writing: usize) -> bool {
        self.is_above(1, writing)
    }

    /// Whether reading must stop until the peer reads.
    pub(crate) fn is_full(&self, writing: usize) -> bool {
        self.is_above(4, writing)
    }

    /// Whether finished calls must keep their answers until the peer reads.
    ///
    /// Above `is_full`, so that the calls that run when reading stops can end and give back what they hold.
    pub(crate) fn is_stuffed(&self, writing: usize) -> bool {
        self.is_above(8, writing) && !self.takes_all.load(Ordering::Relaxed)
    }

    fn is_above(&self, times: usize, writing: usize) -> bool {
        self.len() + writing >= self.high.load(Ordering::Relaxed).saturating_mul(times)
    }

    /// Refuses further messages; what is queued can still be written.
    pub(crate) fn close(&self) {
        let driver = {
            let mut state = self.state();
            state.closed = true;
            state.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
        self.room.notify_waiters();
    }

    /// Asks the connection to end once what runs is answered; until then messages are taken.
    pub(crate) fn leave(&self) {
        let driver = {
            let mut state = self.state();
            state.leaving = true;
            state.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Takes the answers of all that runs, however many wait here.
    pub(crate) fn take_all(&self) {
        self.takes_all.store(true, Ordering::Relaxed);
        // Under the lock, so that it is seen by whoever is woken.
        let driver = self.state().driver.take();
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// How the connection is to end, if it is.
    pub(crate) fn end(&self) -> Option<End> {
        let state = self.state();
        match (state.closed, state.leaving) {
            (true, _) => Some(End::Now),
            (false, true) => Some(End::Answered),
            (false, false) => None,
        }
    }

    /// Lets go of what is queued: nobody will write it.
    pub(crate) fn discard(&self) {
        let mut state = self.state();
        state.buffer = Vec::new();
        self.note(&state);
    }

    fn note(&self, state: &State) {
        self.len.store(state.buffer.len(), Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the message that begins at `start`, which is one line whatever text it was made from.
///
/// A schema from a file and a body that came over HTTP may have line breaks between their tokens, where they mean nothing.
/// Inside strings JSON has none, so taking them out changes no value, and no text can smuggle a second message in.
fn end_line(buffer: &mut Vec<u8>, start: usize) {
    let mut at = start;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &buffer[at..]) {
        buffer[at + found] = b' ';
        at += found + 1;
    }
    buffer.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_text_it_was_made_from() {
        let outbox = Outbox::new(1024);
        let smuggling = b"{\"params\":{}\r\n}\n{\"method\":\"second\"}";
        outbox.push(|buffer| buffer.extend_from_slice(smuggling)).unwrap();
        outbox.push_own(|buffer| buffer.extend_from_slice(b"{\n}"));
        outbox.push_own(|_| {});
        let mut written = Vec::new();
        outbox.take_into(&mut written);
        let written = String::from_utf8(written).unwrap();
        assert_eq!(written, "{\"params\":{}  } {\"method\":\"second\"}\n{ }\n");
    }
}
