//! The outbox: one shared buffer of bytes for the peer, written in as few system calls as possible.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context as Task, Waker};

use mgp_types::sync::Mutex;
use rustc_hash::FxHashSet;
use tokio::sync::Notify;

/// A buffer that collects encoded messages until the connection writes them.
///
/// Overflow rule: at `high_mark` unwritten bytes, senders wait, and the connection ends if the peer reads nothing for
/// the stall timeout. At four times `high_mark`, reading stops. At eight times `high_mark`, the answers of finished
/// calls are held back until the peer reads.
#[derive(Debug)]
pub(crate) struct Outbox {
    state: Mutex<OutboxState>,
    /// The number of bytes in the buffer, and of those that were taken from it and are not written yet. This counter is
    /// atomic so that the driver, which checks it several times per line, need not take the lock.
    unwritten: AtomicUsize,
    high_mark: AtomicUsize,
    /// If set, answers are accepted regardless of the number of queued bytes, because the connection is about to end.
    accepts_all: AtomicBool,
    room: Notify,
}

#[derive(Debug, Default)]
struct OutboxState {
    buffer: Vec<u8>,
    closed: bool,
    draining: bool,
    driver: Option<Waker>,
}

/// A request to end the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseRequest {
    /// End as soon as the queued bytes are written.
    Flush,
    /// End as soon as the running calls are answered.
    Drain,
}

/// The error when the connection no longer accepts messages.
#[derive(Debug)]
pub(crate) struct OutboxClosed;

impl Outbox {
    pub(crate) fn new(high_mark: usize) -> Self {
        Self {
            state: Mutex::default(),
            unwritten: AtomicUsize::new(0),
            high_mark: AtomicUsize::new(high_mark),
            accepts_all: AtomicBool::new(false),
            room: Notify::new(),
        }
    }

    /// Changes the number of bytes at which senders wait; the other limits change with it.
    pub(crate) fn set_high_mark(&self, high_mark: usize) {
        self.high_mark.store(high_mark, Ordering::Relaxed);
        self.room.notify_waiters();
    }

    /// Appends one message and a newline without waking the driver; only the driver itself is allowed to call this.
    pub(crate) fn push_without_wake(&self, write: impl FnOnce(&mut Vec<u8>)) {
        self.append(&mut self.state.lock(), write);
    }

    /// Appends one message and its newline, and wakes the driver.
    pub(crate) fn push(&self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), OutboxClosed> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(OutboxClosed);
        }
        self.append(&mut state, write);
        let driver = state.driver.take();
        drop(state);
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(())
    }

    fn append(&self, state: &mut OutboxState, write: impl FnOnce(&mut Vec<u8>)) {
        let before = state.buffer.len();
        write(&mut state.buffer);
        if state.buffer.len() > before {
            end_line(&mut state.buffer, before);
        }
        self.unwritten.fetch_add(state.buffer.len() - before, Ordering::Relaxed);
    }

    /// Waits until there is room for another message.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn room(&self) -> Result<(), OutboxClosed> {
        loop {
            let notified = self.room.notified();
            if self.is_closed() {
                return Err(OutboxClosed);
            }
            if !self.is_high() {
                return Ok(());
            }
            notified.await;
        }
    }

    /// Moves the queued bytes into `writing`, which must be empty. They count as unwritten until
    /// [`note_written`](Self::note_written) is called for them.
    pub(super) fn take_into(&self, writing: &mut Vec<u8>) {
        debug_assert!(writing.is_empty(), "what was taken before is written first");
        std::mem::swap(&mut self.state.lock().buffer, writing);
    }

    /// Records that `count` of the bytes that were taken are written, and wakes waiting senders.
    pub(super) fn note_written(&self, count: usize) {
        self.unwritten.fetch_sub(count, Ordering::Relaxed);
        self.room.notify_waiters();
    }

    /// Registers the task to wake when a message is appended.
    pub(crate) fn register_driver(&self, task: &Task<'_>) {
        let mut state = self.state.lock();
        if !state.driver.as_ref().is_some_and(|driver| driver.will_wake(task.waker())) {
            state.driver = Some(task.waker().clone());
        }
    }

    /// Returns the number of bytes that are queued or being written.
    pub(crate) fn unwritten(&self) -> usize {
        self.unwritten.load(Ordering::Relaxed)
    }

    /// Adds the numbers (JSON-RPC ids) of the requests in the queue to `numbers`.
    pub(super) fn add_requests(&self, numbers: &mut FxHashSet<i64>) {
        numbers.extend(request_numbers(&self.state.lock().buffer));
    }

    /// Returns whether senders wait, and the peer must read within the stall timeout.
    pub(crate) fn is_high(&self) -> bool {
        self.is_above(1)
    }

    /// Returns whether this side must stop reading from the peer until the peer has read some of the queued output.
    pub(crate) fn is_full(&self) -> bool {
        self.is_above(4)
    }

    /// Returns whether the answers of finished calls must be held back until the peer reads.
    ///
    /// This limit is higher than the limit of `is_full`, so that calls still running when reading stops can finish and
    /// free their memory.
    pub(crate) fn holds_answers(&self) -> bool {
        self.is_above(8) && !self.accepts_all.load(Ordering::Relaxed)
    }

    fn is_above(&self, times: usize) -> bool {
        self.unwritten() >= self.high_mark.load(Ordering::Relaxed).saturating_mul(times)
    }

    /// Rejects further messages; queued bytes can still be written.
    pub(crate) fn close(&self) {
        self.change_and_wake(|state| state.closed = true);
        self.room.notify_waiters();
    }

    /// Requests that the connection end as soon as the running calls are answered; until then, messages are accepted.
    pub(crate) fn drain(&self) {
        self.change_and_wake(|state| state.draining = true);
    }

    /// Accepts the answers of all running calls, regardless of the number of queued bytes.
    pub(crate) fn accept_all_answers(&self) {
        self.accepts_all.store(true, Ordering::Relaxed);
        // The flag was stored without the lock. Taking the lock now makes the flag visible to the task that is woken.
        self.change_and_wake(|_| {});
    }

    fn change_and_wake(&self, change: impl FnOnce(&mut OutboxState)) {
        let driver = {
            let mut state = self.state.lock();
            change(&mut state);
            state.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Returns how the connection was asked to end, if it was.
    pub(crate) fn close_request(&self) -> Option<CloseRequest> {
        let state = self.state.lock();
        match (state.closed, state.draining) {
            (true, _) => Some(CloseRequest::Flush),
            (false, true) => Some(CloseRequest::Drain),
            (false, false) => None,
        }
    }

    /// Drops the queued bytes after the connection has ended or a write has failed. Bytes that were taken before no
    /// longer count as unwritten.
    pub(crate) fn discard(&self) {
        let mut state = self.state.lock();
        state.buffer = Vec::new();
        self.unwritten.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }
}

/// Completes the message that begins at `start`, and ensures that it is a single line.
///
/// A schema from a file, or a body received over HTTP, can have line breaks between its tokens, where they have no
/// meaning. JSON strings cannot contain line breaks. Replacing them therefore changes no value, and ensures that the
/// peer does not read one message as two.
fn end_line(buffer: &mut Vec<u8>, start: usize) {
    let mut at = start;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &buffer[at..]) {
        buffer[at + found] = b' ';
        at += found + 1;
    }
    buffer.push(b'\n');
}

/// Returns the numbers of the requests in lines that this side has written.
pub(super) fn request_numbers(lines: &[u8]) -> impl Iterator<Item = i64> {
    lines.split(|byte| *byte == b'\n').filter_map(|line| {
        let rest = line.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
        let end = memchr::memchr(b',', rest)?;
        let number = std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?;
        // An answer begins like a request, but its id was chosen by the peer. Only a request has a method after its id,
        // so skip lines without a method.
        rest[end..].starts_with(br#","method":"#).then_some(number)
    })
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use mgp_types::Id;
    use mgp_types::service::{HopMembers, Params, Reply, write_answer, write_call};

    use super::*;

    #[test]
    fn a_message_is_one_line_whatever_text_it_was_made_from() {
        let outbox = Outbox::new(1024);
        let smuggling = b"{\"params\":{}\r\n}\n{\"method\":\"second\"}";
        outbox.push(|buffer| buffer.extend_from_slice(smuggling)).unwrap();
        outbox.push_without_wake(|buffer| buffer.extend_from_slice(b"{\n}"));
        outbox.push_without_wake(|_| {});
        let mut written = Vec::new();
        outbox.take_into(&mut written);
        let written = String::from_utf8(written).unwrap();
        assert_eq!(written, "{\"params\":{}  } {\"method\":\"second\"}\n{ }\n");
    }

    #[test]
    fn senders_wait_for_bytes_that_are_queued_or_being_written() {
        let outbox = Outbox::new(4);
        let has_room = || outbox.room().now_or_never().is_some();
        assert!(has_room());
        outbox.push_without_wake(|buffer| buffer.extend_from_slice(b"1234"));
        assert!(!has_room());
        outbox.take_into(&mut Vec::new());
        assert!(!has_room());
        outbox.note_written(2);
        assert!(has_room());
    }

    #[test]
    fn the_numbers_of_requests_are_read_from_their_lines_as_they_are_written() {
        let mut lines = Vec::new();
        for id in [Some(Id::Number(7)), None, Some(Id::Number(8))] {
            write_call(&mut lines, id.as_ref(), "ping", &Params::none(), &HopMembers::default());
            lines.push(b'\n');
        }
        write_answer(&mut lines, Some(&Id::Number(9)), &Reply::of(&"x"));
        assert_eq!(request_numbers(&lines).collect::<Vec<_>>(), [7, 8]);
    }
}
