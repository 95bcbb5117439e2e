//! The bytes on their way to the peer: one shared buffer, written in as few system calls as possible.
//!
//! Applies to: both.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context as Task, Waker};

use tokio::sync::Notify;

/// Collects encoded messages until the connection writes them.
///
/// Overflow rule: senders wait above `high`; the connection's own short answers go on up to `hard`,
/// above which it stops reading until the peer reads.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<State>,
    room: Notify,
    high: usize,
    hard: usize,
}

#[derive(Debug, Default)]
struct State {
    buffer: Vec<u8>,
    closed: bool,
    driver: Option<Waker>,
}

/// The connection no longer takes messages.
#[derive(Debug)]
pub(crate) struct IsClosed;

impl Outbox {
    pub(crate) fn new(high: usize, hard: usize) -> Self {
        Self { state: Mutex::default(), room: Notify::new(), high, hard: hard.max(high) }
    }

    /// Appends one message and its newline, from the connection's own task.
    pub(crate) fn push_own(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let before = state.buffer.len();
        write(&mut state.buffer);
        if state.buffer.len() > before {
            state.buffer.push(b'\n');
        }
    }

    /// Appends one message from elsewhere and wakes the connection.
    pub(crate) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), IsClosed> {
        let mut state = self.state();
        if state.closed {
            return Err(IsClosed);
        }
        write(&mut state.buffer);
        state.buffer.push(b'\n');
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
                if state.buffer.len() < self.high {
                    return Ok(());
                }
            }
            notified.await;
        }
    }

    /// Takes what is to be written, leaving an empty buffer.
    pub(crate) fn take_into(&self, writing: &mut Vec<u8>) {
        debug_assert!(writing.is_empty(), "what was taken before is written first");
        std::mem::swap(&mut self.state().buffer, writing);
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

    /// Whether handlers should wait with their answers.
    pub(crate) fn is_high(&self, writing: usize) -> bool {
        self.state().buffer.len() + writing >= self.high
    }

    /// Whether reading must stop until the peer reads.
    pub(crate) fn is_full(&self, writing: usize) -> bool {
        self.state().buffer.len() + writing >= self.hard
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

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
