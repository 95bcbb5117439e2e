//! What waits to be written, and the room that is kept for it.
//!
//! Applies to: both.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Duration;

use mgp_types::service::{Ended, Ledger, Outcome, Start, Suspended, Unaudited};
use tokio::sync::{Semaphore, oneshot, watch};

/// So many records are written without waiting for more.
pub(super) const ENOUGH: usize = 512;

/// Records that nobody waits for are gathered for so long.
const GATHER: Duration = Duration::from_millis(5);

/// One thing to be written.
pub(super) enum Item {
    /// A call that ended.
    Call { ended: Ended, intent: Option<Arc<Intent>>, room: Room },
    /// A round of a call ended with questions, and nothing can go on with it: its intent needs no end any more.
    Shut { intent: Arc<Intent>, room: Room },
    /// A call that is about to run.
    Intent { start: Arc<Start>, intent: Arc<Intent>, kept: Kept },
    /// An event as text.
    Event { text: Vec<u8>, room: Room, kept: Kept },
    /// Nothing; it is answered once everything before it is kept.
    Flush { kept: Kept },
}

/// Takes the number of the record once it is kept.
pub(super) type Kept = oneshot::Sender<Result<u64, Unaudited>>;

/// What a record takes up until it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// A permit.
    Permit,
    /// A place among those that wait for a permit.
    Waiting,
}

/// The intent record of a call, which its final record names.
#[derive(Debug, Default)]
pub(super) struct Intent {
    /// Its number; zero until it is written.
    seq: AtomicU64,
    /// Set when it could not be written: the call never ran.
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

    /// It was not written after all.
    pub(super) fn void(&self) {
        self.seq.store(0, Ordering::Release);
        self.void.store(true, Ordering::Release);
    }
}

/// What the handles, the tickets and the writer of a log share.
pub(super) struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    /// Tells the one who closes the log.
    drained: Condvar,
    pub(super) room: Semaphore,
    bound: usize,
    /// How many wait for room; never more than `bound`.
    pub(super) waiting: AtomicUsize,
    is_failing: AtomicBool,
    failure: Mutex<Option<Unaudited>>,
    pub(super) suspended: Mutex<Suspended<Option<Arc<Intent>>>>,
    /// The newest event that is kept.
    pub(super) newest: watch::Sender<u64>,
    /// The newest record that is kept.
    pub(super) kept: AtomicU64,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Somebody waits for an answer.
    urgent: bool,
    /// The store has news.
    stirred: bool,
    closing: bool,
    end: End,
    sleep: Sleep,
}

/// What became of a log that was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    /// Everything was written, but calls run.
    Owed,
    /// The writer is gone, or about to be.
    Ended,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Sleep {
    #[default]
    Awake,
    /// Until there is anything to do.
    Idle,
    /// Until something is urgent, or there is enough.
    Gathering,
}

// === impl Shared ===

impl Shared {
    pub(super) fn new(bound: usize, seq: u64, no: u64) -> Self {
        // Tokio's semaphore holds no more; nobody has so many calls.
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
            kept: AtomicU64::new(seq),
        }
    }

    /// Why nothing can be recorded now, if so.
    pub(super) fn failure(&self) -> Option<Unaudited> {
        if !self.is_failing.load(Ordering::Acquire) {
            return None;
        }
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says why nothing can be recorded from now on, or that it can again. Whether that is news.
    pub(super) fn set_failure(&self, failure: Option<Unaudited>) -> bool {
        let failing = failure.is_some();
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
        self.is_failing.swap(failing, Ordering::AcqRel) != failing
    }

    /// Takes room at once.
    pub(super) fn take(&self, records: u32) -> bool {
        self.room.try_acquire_many(records).map(tokio::sync::SemaphorePermit::forget).is_ok()
    }

    /// Takes a place among those that wait.
    pub(super) fn queue_up(&self) -> bool {
        let taken = self.waiting.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |waiting| {
            (waiting < self.bound).then_some(waiting + 1)
        });
        taken.is_ok()
    }

    pub(super) fn give_back(&self, room: Room) {
        match room {
            Room::Permit => self.room.add_permits(1),
            Room::Waiting => {
                self.waiting.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }

    /// Whether a running call still owes its record.
    fn is_owed(&self) -> bool {
        self.room.available_permits() < self.bound || self.waiting.load(Ordering::Acquire) > 0
    }

    /// Hands something to the writer.
    pub(super) fn push(&self, item: Item) {
        let urgent = !matches!(item, Item::Call { .. } | Item::Shut { .. });
        let mut queue = self.queue();
        queue.items.push_back(item);
        queue.urgent |= urgent;
        let wake = match queue.sleep {
            Sleep::Awake => false,
            Sleep::Idle => true,
            Sleep::Gathering => urgent || queue.items.len() == ENOUGH,
        };
        if wake {
            queue.sleep = Sleep::Awake;
            drop(queue);
            self.wake.notify_one();
        }
    }

    pub(super) fn has_suspended(&self) -> bool {
        !self.suspended.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Ends the calls whose next round is not expected any more; all that wait when the log is closed.
    pub(super) fn sweep(&self, closing: bool) {
        let mut suspended = self.suspended.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let ended = if closing { suspended.take_oldest() } else { suspended.next_ended() };
            let Some((start, intent)) = ended else { return };
            let ended = Ended::now(start, Outcome::Cancelled);
            self.push(Item::Call { ended, intent, room: Room::Permit });
        }
    }

    /// Waits until there is something to write, and takes it; whether the log is being closed.
    ///
    /// `idle` is how long to wait at most where nothing comes; where `rest` is set, nothing is looked at before.
    pub(super) fn next(
        &self,
        into: &mut VecDeque<Item>,
        idle: Option<Duration>,
        rest: Option<Duration>,
    ) -> bool {
        let mut queue = self.queue();
        if let Some(rest) = rest {
            let unless = |queue: &mut Queue| !queue.closing;
            queue = self.sleep(queue, Sleep::Awake, rest, unless);
        } else {
            let nothing =
                |queue: &mut Queue| queue.items.is_empty() && !queue.stirred && !queue.closing;
            queue = self.sleep(queue, Sleep::Idle, idle.unwrap_or(Duration::MAX), nothing);
            if !queue.items.is_empty() {
                let few = |queue: &mut Queue| {
                    !queue.urgent && !queue.closing && queue.items.len() < ENOUGH
                };
                queue = self.sleep(queue, Sleep::Gathering, GATHER, few);
            }
        }
        queue.urgent = false;
        into.append(&mut queue.items);
        queue.stirred = false;
        queue.closing
    }

    fn sleep<'a>(
        &self,
        mut queue: MutexGuard<'a, Queue>,
        how: Sleep,
        longest: Duration,
        mut on: impl FnMut(&mut Queue) -> bool,
    ) -> MutexGuard<'a, Queue> {
        let on = |queue: &mut Queue| {
            let on = on(queue);
            // Each wake-up takes the mark away, so it is set anew.
            queue.sleep = if on { how } else { Sleep::Awake };
            on
        };
        queue = if longest == Duration::MAX {
            self.wake.wait_while(queue, on).unwrap_or_else(PoisonError::into_inner)
        } else {
            let waited = self.wake.wait_timeout_while(queue, longest, on);
            waited.unwrap_or_else(PoisonError::into_inner).0
        };
        queue.sleep = Sleep::Awake;
        queue
    }

    /// Whether the writer may end: the log is closed, nothing waits and nothing is owed.
    pub(super) fn is_done(&self) -> bool {
        let mut queue = self.queue();
        if !queue.closing || !queue.items.is_empty() {
            return false;
        }
        queue.end = if self.is_owed() { End::Owed } else { End::Ended };
        self.drained.notify_all();
        queue.end == End::Ended
    }

    /// Closes the log and waits until what was handed over is kept; whether the writer ends now.
    ///
    /// It does not while calls run, whose records it waits for, nor while the disk takes too long.
    pub(super) fn close(&self, patience: Duration) -> bool {
        let mut queue = self.queue();
        queue.closing = true;
        self.wake.notify_one();
        let waited =
            self.drained.wait_timeout_while(queue, patience, |queue| queue.end == End::Open);
        waited.unwrap_or_else(PoisonError::into_inner).0.end == End::Ended
    }

    /// Says that the writer is gone, whatever ended it.
    pub(super) fn end(&self) {
        self.set_failure(Some(Unaudited::Closed));
        let mut queue = self.queue();
        queue.items.clear();
        queue.end = End::Ended;
        self.drained.notify_all();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The store has news.
impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        self.queue().stirred = true;
        self.wake.notify_one();
    }
}

/// Tickets of calls without an intent, which need nothing of their own.
impl Ledger for Shared {
    fn close(&self, ended: Ended) {
        self.push(Item::Call { ended, intent: None, room: Room::Permit });
    }

    fn suspend(&self, start: Arc<Start>) {
        self.suspend_with(start, None);
    }
}

impl Shared {
    fn suspend_with(&self, start: Arc<Start>, intent: Option<Arc<Intent>>) {
        if start.logical.is_none() {
            return match intent {
                None => self.give_back(Room::Permit),
                Some(intent) => self.push(Item::Shut { intent, room: Room::Permit }),
            };
        }
        self.suspended.lock().unwrap_or_else(PoisonError::into_inner).keep(start, intent);
        self.sweep(false);
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared({} records kept)", self.kept.load(Ordering::Relaxed))
    }
}

/// The ledger of a call that has an intent, or waits for room.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) shared: Arc<Shared>,
    pub(super) intent: Option<Arc<Intent>>,
    /// Set while the call waits for its permits.
    pub(super) waits: AtomicBool,
    /// Set when the call does not run after all.
    pub(super) void: AtomicBool,
}

impl Account {
    /// The call does not run, and whoever called is told.
    pub(super) fn void(&self) {
        self.void.store(true, Ordering::Release);
    }

    fn room(&self) -> Room {
        if self.waits.load(Ordering::Acquire) { Room::Waiting } else { Room::Permit }
    }
}

impl Ledger for Account {
    fn close(&self, ended: Ended) {
        let unwritten = self.intent.as_ref().is_some_and(|intent| intent.is_void());
        if unwritten || self.void.load(Ordering::Acquire) {
            return self.shared.give_back(self.room());
        }
        self.shared.push(Item::Call { ended, intent: self.intent.clone(), room: self.room() });
    }

    fn suspend(&self, start: Arc<Start>) {
        self.shared.suspend_with(start, self.intent.clone());
    }
}
