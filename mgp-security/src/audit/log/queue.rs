//! The queue of items for the writer of a log, and the reservation of room in it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

use mgp_types::Payload;
use mgp_types::service::{
    AuditError, AuditOutcome, CallRecord, EndedCall, SuspendedCalls, TicketSink,
};
use mgp_types::sync::Mutex;
use tokio::sync::{Semaphore, broadcast, oneshot, watch};

use super::group::Group;

/// The number of queued records at which the writer starts to write without waiting for more.
pub(super) const MAX_BATCH: usize = 512;

/// The maximum number of events that are kept for a receiver of [`AuditLog::watch`](super::AuditLog::watch).
const MAX_UNSEEN: usize = 1024;

/// The time for which records without a waiting caller are collected before they are written together.
const GATHER_INTERVAL: Duration = Duration::from_millis(5);

/// The interval at which the writer of a closed log checks whether the last running calls have ended. The interval is
/// needed because some calls queue no item when they end: a refused call, and a call that is suspended until its caller
/// answers a question.
const CALLS_INTERVAL: Duration = Duration::from_millis(10);

/// An item in the queue of the log's writer.
pub(super) enum Item {
    /// The end of a call, to be recorded.
    Call { ended: EndedCall, intent: Option<Arc<Intent>>, room: Reservation },
    /// The end of a call that asked its caller a question, and that no later request can continue. No final event is
    /// written for its intent.
    Shut { intent: Arc<Intent>, room: Reservation },
    /// A call that is about to run, to be recorded as an intent.
    Intent { start: Arc<CallRecord>, intent: Arc<Intent>, ack: Acknowledge },
    /// An event, already encoded as text.
    Event { text: Vec<u8>, room: Reservation, ack: Acknowledge },
    /// A marker without a record. It is acknowledged when everything queued before it is durable.
    Flush { ack: Acknowledge },
}

impl Item {
    /// Returns whether a caller waits until the item is written.
    pub(super) fn has_waiter(&self) -> bool {
        !matches!(self, Self::Call { .. } | Self::Shut { .. })
    }

    /// Returns the room that the item occupies, and the channel to the caller that waits until it is written.
    pub(super) fn into_parts(self) -> (Option<Reservation>, Option<Acknowledge>) {
        match self {
            Self::Call { room, .. } | Self::Shut { room, .. } => (Some(room), None),
            Self::Intent { ack, .. } => (Some(Reservation::Permit), Some(ack)),
            Self::Event { room, ack, .. } => (Some(room), Some(ack)),
            Self::Flush { ack } => (None, Some(ack)),
        }
    }
}

/// The channel on which a waiting caller gets the number of its record once the record is durable, or an error.
pub(super) type Acknowledge = oneshot::Sender<Result<u64, AuditError>>;

/// The room in the queue that an item occupies until it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reservation {
    /// A permit of the semaphore [`LogQueue::room`].
    Permit,
    /// One of the limited number of calls that wait for a permit of the semaphore.
    Waiting,
}

/// The intent record of a call. The call's final record refers to it by its number.
#[derive(Debug, Default)]
pub(super) struct Intent {
    /// The number of the record; zero until the record is written.
    seq: AtomicU64,
    /// `true` if the intent could not be written, so that the call never ran.
    void: AtomicBool,
}

impl Intent {
    pub(super) fn seq(&self) -> Option<u64> {
        Some(self.seq.load(Ordering::Acquire)).filter(|seq| *seq > 0)
    }

    pub(super) fn written(&self, seq: u64) {
        self.seq.store(seq, Ordering::Release);
    }

    fn is_void(&self) -> bool {
        self.void.load(Ordering::Acquire)
    }

    /// Marks the intent as not written, so that its call does not run.
    pub(super) fn void(&self) {
        self.seq.store(0, Ordering::Release);
        self.void.store(true, Ordering::Release);
    }
}

/// The state shared by the handles, the tickets and the writer of a log.
pub(super) struct LogQueue {
    queue: Mutex<QueueState>,
    wake: Condvar,
    /// Wakes the thread that closes the log.
    drained: Condvar,
    pub(super) room: Semaphore,
    bound: usize,
    /// The number of calls that wait for room, at most `bound`.
    pub(super) waiting: AtomicUsize,
    is_failing: AtomicBool,
    failure: Mutex<Option<AuditError>>,
    pub(super) suspended: Mutex<SuspendedCalls<Option<Arc<Intent>>>>,
    /// The number of the newest written event.
    pub(super) newest: watch::Sender<u64>,
    /// Sends written events, each with its number, to the receivers of [`AuditLog::watch`](super::AuditLog::watch).
    pub(super) watched: broadcast::Sender<(u64, Payload)>,
    /// The number of the newest record in the file. This record may not be durable yet: if no caller waits for it, its
    /// head is saved within a second.
    pub(super) written: AtomicU64,
    /// The number of the first record of the file to which the log writes.
    pub(super) segment: AtomicU64,
}

#[derive(Default)]
struct QueueState {
    items: VecDeque<Item>,
    /// `true` if a caller waits for an acknowledgement.
    urgent: bool,
    /// `true` if the store has changed since the writer last looked.
    store_changed: bool,
    closing: bool,
    end: CloseState,
    sleep: WriterSleep,
}

/// The progress of closing a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CloseState {
    #[default]
    Open,
    /// Everything queued is written, but there are calls that are still running.
    CallsRunning,
    /// The writer has ended or is about to end.
    Ended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WriterSleep {
    #[default]
    Awake,
    /// Sleeps until any item arrives.
    Idle,
    /// Sleeps until an urgent item arrives or the batch is full.
    Gathering,
}

impl LogQueue {
    pub(super) fn new(bound: usize, seq: u64, no: u64) -> Self {
        // At least two, because a call may need room for two records. The upper limit is half of what tokio's semaphore
        // allows.
        let bound = bound.clamp(2, Semaphore::MAX_PERMITS / 2);
        Self {
            queue: Mutex::default(),
            wake: Condvar::new(),
            drained: Condvar::new(),
            room: Semaphore::new(bound),
            bound,
            waiting: AtomicUsize::new(0),
            is_failing: AtomicBool::new(false),
            failure: Mutex::default(),
            suspended: Mutex::default(),
            newest: watch::Sender::new(no),
            watched: broadcast::Sender::new(MAX_UNSEEN),
            written: AtomicU64::new(seq),
            segment: AtomicU64::new(1),
        }
    }

    /// Sends the events of a written group to the receivers, if any.
    pub(super) fn show(&self, written: &Group) {
        if self.watched.receiver_count() == 0 {
            return;
        }
        for (number, place) in &written.watched {
            let text = String::from_utf8_lossy(&written.text[place.clone()]);
            // Ignore the error: the last receiver may have been dropped.
            let _ = self.watched.send((*number, Payload::from_trusted(text.into_owned())));
        }
    }

    /// Returns the reason why nothing can be recorded now, if any.
    pub(super) fn failure(&self) -> Option<AuditError> {
        if !self.is_failing.load(Ordering::Acquire) {
            return None;
        }
        self.failure.lock().clone()
    }

    /// Sets or clears the reason why nothing can be recorded; returns whether the log started or stopped failing.
    pub(super) fn set_failure(&self, failure: Option<AuditError>) -> bool {
        let failing = failure.is_some();
        *self.failure.lock() = failure;
        self.is_failing.swap(failing, Ordering::AcqRel) != failing
    }

    /// Reserves room for a number of records; returns `false` if there is not enough.
    pub(super) fn take(&self, records: u32) -> bool {
        self.room.try_acquire_many(records).map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    /// Counts one more call that waits for room; returns `false` if too many calls wait already.
    pub(super) fn reserve_place(&self) -> bool {
        let reserved = self.waiting.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |waiting| {
            (waiting < self.bound).then_some(waiting + 1)
        });
        reserved.is_ok()
    }

    pub(super) fn release(&self, room: Reservation) {
        match room {
            Reservation::Permit => self.room.add_permits(1),
            Reservation::Waiting => {
                self.waiting.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Returns whether a call must still queue its final record, or a queued record is not written yet.
    fn is_owed(&self) -> bool {
        self.room.available_permits() < self.bound || self.waiting.load(Ordering::Acquire) > 0
    }

    /// Adds an item for the writer. If the writer has ended, drops the item, which gives a waiting caller an error.
    pub(super) fn push(&self, item: Item) {
        let urgent = item.has_waiter();
        let mut queue = self.queue.lock();
        if queue.end == CloseState::Ended {
            return;
        }
        queue.items.push_back(item);
        queue.urgent |= urgent;
        let wake = match queue.sleep {
            WriterSleep::Awake => false,
            WriterSleep::Idle => true,
            WriterSleep::Gathering => urgent || queue.items.len() == MAX_BATCH,
        };
        if wake {
            queue.sleep = WriterSleep::Awake;
            drop(queue);
            self.wake.notify_one();
        }
    }

    pub(super) fn has_suspended(&self) -> bool {
        !self.suspended.lock().is_empty()
    }

    /// Records suspended calls, i.e. calls that wait for an answer of their caller, as cancelled. These are the calls
    /// that no later request continued in time or, if the log is closing, all suspended calls.
    pub(super) fn sweep(&self, closing: bool) {
        let mut suspended = self.suspended.lock();
        loop {
            let ended = if closing { suspended.pop_oldest() } else { suspended.pop_expired() };
            let Some((start, intent)) = ended else { return };
            let outcome = AuditOutcome::of_cancelled(&start);
            let ended = EndedCall::now(start, outcome);
            self.push(Item::Call { ended, intent, room: Reservation::Permit });
        }
    }

    /// Waits for items and moves them into `into`; returns whether the log is closing.
    ///
    /// Waits at most `idle` for the first item, and only briefly if the log is closing and calls are still running. If
    /// `rest` is set, the method instead pauses for that time, even if items arrive; only closing the log ends the
    /// pause early.
    pub(super) fn next(
        &self,
        into: &mut VecDeque<Item>,
        idle: Option<Duration>,
        rest: Option<Duration>,
    ) -> bool {
        let mut queue = self.queue.lock();
        if let Some(rest) = rest {
            let unless = |queue: &mut QueueState| !queue.closing;
            queue = self.sleep(queue, WriterSleep::Awake, rest, unless);
        } else {
            let are_calls_running = queue.end == CloseState::CallsRunning;
            let nothing = |queue: &mut QueueState| {
                let may_wait = are_calls_running || !queue.closing;
                queue.items.is_empty() && !queue.store_changed && may_wait
            };
            let longest = idle.unwrap_or(Duration::MAX);
            let longest = if are_calls_running { longest.min(CALLS_INTERVAL) } else { longest };
            queue = self.sleep(queue, WriterSleep::Idle, longest, nothing);
            if !queue.items.is_empty() {
                let few = |queue: &mut QueueState| {
                    !queue.urgent && !queue.closing && queue.items.len() < MAX_BATCH
                };
                queue = self.sleep(queue, WriterSleep::Gathering, GATHER_INTERVAL, few);
            }
        }
        queue.urgent = false;
        into.append(&mut queue.items);
        queue.store_changed = false;
        queue.closing
    }

    fn sleep<'a>(
        &self,
        mut queue: MutexGuard<'a, QueueState>,
        how: WriterSleep,
        longest: Duration,
        mut on: impl FnMut(&mut QueueState) -> bool,
    ) -> MutexGuard<'a, QueueState> {
        let on = |queue: &mut QueueState| {
            let on = on(queue);
            // This runs before each sleep. Waking the writer set `sleep` to `Awake`, so set it again.
            queue.sleep = if on { how } else { WriterSleep::Awake };
            on
        };
        queue = if longest == Duration::MAX {
            self.wake.wait_while(queue, on).unwrap_or_else(PoisonError::into_inner)
        } else {
            let waited = self.wake.wait_timeout_while(queue, longest, on);
            waited.unwrap_or_else(PoisonError::into_inner).0
        };
        queue.sleep = WriterSleep::Awake;
        queue
    }

    /// Returns whether the writer may end: the log is closing, the queue is empty and no call is running.
    pub(super) fn may_end(&self) -> bool {
        let mut queue = self.queue.lock();
        if !queue.closing || !queue.items.is_empty() {
            return false;
        }
        let may_end = !self.is_owed();
        if may_end {
            // Mark the log as closed before `end` changes, so that a thread that waits for the end finds the log
            // closed.
            self.set_failure(Some(AuditError::Closed));
        }
        queue.end = if may_end { CloseState::Ended } else { CloseState::CallsRunning };
        self.drained.notify_all();
        may_end
    }

    /// Closes the log, and waits up to `patience` until the queue is written; returns whether the writer has ended.
    ///
    /// The writer continues while calls are running, because it must write their records, and while the disk is slow.
    pub(super) fn close(&self, patience: Duration) -> bool {
        let mut queue = self.queue.lock();
        queue.closing = true;
        self.wake.notify_one();
        let waited =
            self.drained.wait_timeout_while(queue, patience, |queue| queue.end == CloseState::Open);
        waited.unwrap_or_else(PoisonError::into_inner).0.end == CloseState::Ended
    }

    /// Marks the writer as ended, for whatever reason, and the log as closed.
    pub(super) fn end(&self) {
        self.set_failure(Some(AuditError::Closed));
        let mut queue = self.queue.lock();
        queue.items.clear();
        queue.end = CloseState::Ended;
        self.drained.notify_all();
    }
}

/// Wakes the writer when the store has changed.
impl Wake for LogQueue {
    fn wake(self: Arc<Self>) {
        self.queue.lock().store_changed = true;
        self.wake.notify_one();
    }
}

/// Receives the outcomes of calls without an intent. Nothing has to be stored about such a call until it ends, so all
/// of them share the queue as the receiver.
impl TicketSink for LogQueue {
    fn close(&self, ended: EndedCall) {
        self.push(Item::Call { ended, intent: None, room: Reservation::Permit });
    }

    fn suspend(&self, start: Arc<CallRecord>) {
        self.suspend_call(start, None);
    }
}

impl LogQueue {
    fn suspend_call(&self, start: Arc<CallRecord>, intent: Option<Arc<Intent>>) {
        if start.logical.is_none() {
            return match intent {
                None => self.release(Reservation::Permit),
                Some(intent) => self.push(Item::Shut { intent, room: Reservation::Permit }),
            };
        }
        self.suspended.lock().insert(start, intent);
        self.sweep(false);
    }
}

mgp_types::opaque_debug!(LogQueue);

/// The receiver of the outcome of a call that has an intent or waits for room.
#[derive(Debug)]
pub(super) struct CallLedger {
    pub(super) shared: Arc<LogQueue>,
    pub(super) intent: Option<Arc<Intent>>,
    /// `true` while the call waits for room in the queue.
    pub(super) waits: AtomicBool,
    /// `true` if the call was refused and does not run.
    pub(super) void: AtomicBool,
}

impl CallLedger {
    /// Marks the call as refused: it does not run, and its caller gets an error.
    pub(super) fn void(&self) {
        self.void.store(true, Ordering::Release);
    }

    fn room(&self) -> Reservation {
        if self.waits.load(Ordering::Acquire) { Reservation::Waiting } else { Reservation::Permit }
    }
}

impl TicketSink for CallLedger {
    fn close(&self, ended: EndedCall) {
        let unwritten = self.intent.as_ref().is_some_and(|intent| intent.is_void());
        if unwritten || self.void.load(Ordering::Acquire) {
            return self.shared.release(self.room());
        }
        self.shared.push(Item::Call { ended, intent: self.intent.clone(), room: self.room() });
    }

    fn suspend(&self, start: Arc<CallRecord>) {
        self.shared.suspend_call(start, self.intent.clone());
    }
}
