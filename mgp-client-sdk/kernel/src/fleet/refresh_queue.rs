//! Queues of lists that the kernel must read again: one queue for all servers, and one per server.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::service::ServerId;
use mgp_types::sync::Mutex;
use mgp_types::{Backoff, clip};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

/// The delay before the kernel reads a list again after a failure; doubled after each further failure.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(1);

pub(super) const MAX_RETRY_DELAY: Duration = Duration::from_mins(5);

/// The minimum pause after a read that found a change; `MAX_PAUSE` is the maximum.
const MIN_PAUSE: Duration = Duration::from_millis(100);

const MAX_PAUSE: Duration = Duration::from_secs(10);

/// The maximum pause after reads that found no change, although the server had announced a change. Each such read
/// doubles the pause.
const MAX_UNCHANGED_PAUSE: Duration = Duration::from_mins(1);

/// The maximum length of a stored error about a list, in bytes.
pub(super) const MAX_ERROR_BYTES: usize = 300;

/// A group of lists that one `list_changed` notification announces. The group of resources includes the templates, and
/// the skills, whose changes servers cannot announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ListGroup {
    Tools,
    Resources,
    Prompts,
}

impl ListGroup {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];

    /// Returns the name of the group in errors.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Prompts => "prompts",
        }
    }
}

/// The stale lists of all servers, without duplicates. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct StaleLists(Arc<Stale>);

#[derive(Default)]
struct Stale {
    lists: Mutex<BTreeSet<(ServerId, ListGroup)>>,
    marked: Notify,
}

impl StaleLists {
    pub(super) fn mark(&self, server: &ServerId, groups: &[ListGroup]) {
        self.0.lists.lock().extend(groups.iter().map(|group| (server.clone(), *group)));
        self.0.marked.notify_one();
    }

    /// Waits until any list is stale, then removes and returns all stale lists.
    pub(super) async fn next(&self) -> BTreeSet<(ServerId, ListGroup)> {
        loop {
            let lists = mem::take(&mut *self.0.lists.lock());
            if !lists.is_empty() {
                return lists;
            }
            self.0.marked.notified().await;
        }
    }
}

/// The stale lists of one server. A single task begins to read them, one after the other; it does not wait for the end
/// of a read that takes long.
#[derive(Default)]
pub(super) struct RefreshQueue {
    queue: Mutex<Queue>,
    /// Wakes the reading task when a list is added to the queue, or when a pause ends early.
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    waiting: BTreeSet<ListGroup>,
    /// The lists that are being read.
    reading: BTreeSet<ListGroup>,
    has_reader: bool,
    retries: BTreeMap<ListGroup, Backoff>,
    /// The lists with a running timer for the next attempt. Each list has at most one timer, however often the server
    /// announces changes.
    delayed: BTreeSet<ListGroup>,
    pauses: BTreeMap<ListGroup, Pause>,
    /// The errors of the lists whose last read failed.
    errors: BTreeMap<ListGroup, String>,
    /// For each list, the callers that wait for the next read to end. Dropping a sender wakes its caller.
    observers: BTreeMap<ListGroup, Vec<oneshot::Sender<()>>>,
}

/// The pause after a read of a list. The kernel does not read the list again before its end.
struct Pause {
    until: Instant,
    length: Duration,
}

impl RefreshQueue {
    /// Adds a list. Returns `true` if no task reads the lists of this queue, so that the caller must start one.
    pub(super) fn push(&self, group: ListGroup) -> bool {
        let mut queue = self.queue.lock();
        queue.waiting.insert(group);
        self.changed.notify_one();
        !mem::replace(&mut queue.has_reader, true)
    }

    /// Adds a list like [`push`](Self::push). Also returns a receiver that is closed after the next read of the list
    /// that begins after this call, even if this read fails. Ends the pause of the list, so that the read begins soon.
    pub(super) fn push_observed(&self, group: ListGroup) -> (bool, oneshot::Receiver<()>) {
        let (observer, read) = oneshot::channel();
        let mut queue = self.queue.lock();
        queue.observers.entry(group).or_default().push(observer);
        queue.pauses.remove(&group);
        drop(queue);
        (self.push(group), read)
    }

    /// Returns a receiver that is closed after the next read of a list, and ends the pause of the list. Does so if the
    /// list waits in the queue, or if it is being read and the last read did not fail; in the second case, the list is
    /// then read once more. Returns `None` for any other list.
    pub(super) fn observe_waiting(&self, group: ListGroup) -> Option<oneshot::Receiver<()>> {
        let mut queue = self.queue.lock();
        // If the last read failed, do not wait for the current one, because the server may not answer it either.
        let is_reading = queue.reading.contains(&group) && !queue.errors.contains_key(&group);
        if !is_reading && !queue.waiting.contains(&group) {
            return None;
        }
        queue.waiting.insert(group);
        let (observer, read) = oneshot::channel();
        queue.observers.entry(group).or_default().push(observer);
        queue.pauses.remove(&group);
        self.changed.notify_one();
        Some(read)
    }

    /// Removes and returns the callers that wait for a read of a list, because this read begins now. They wait until
    /// the returned value is dropped.
    pub(super) fn take_observers(&self, group: ListGroup) -> Vec<oneshot::Sender<()>> {
        self.queue.lock().observers.remove(&group).unwrap_or_default()
    }

    /// Waits until a list can be read, i.e. for the end of its pause and of its last read, then removes and returns it.
    /// If no list waits, returns `None`; the reading task must then end.
    pub(super) async fn next(&self) -> Option<ListGroup> {
        loop {
            let until = match self.next_or_pause() {
                Ok(next) => return next,
                Err(until) => until,
            };
            tokio::select! {
                () = sleep_until(until) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    /// Removes and returns a list that can be read now, or `None` if no list waits. If all waiting lists have a pause
    /// or are being read, returns the time of the next attempt as the error.
    fn next_or_pause(&self) -> Result<Option<ListGroup>, Instant> {
        let mut queue = self.queue.lock();
        let now = Instant::now();
        let pause = |group: &ListGroup| {
            queue.pauses.get(group).map(|pause| pause.until).filter(|until| *until > now)
        };
        let free = queue.waiting.iter().filter(|group| !queue.reading.contains(*group));
        let first = free.map(|group| (pause(group), *group)).min();
        match first {
            Some((Some(until), _)) => Err(until),
            Some((None, group)) => {
                queue.waiting.remove(&group);
                queue.reading.insert(group);
                Ok(Some(group))
            }
            // The end of a read wakes the reading task earlier.
            None if !queue.waiting.is_empty() => Err(now + MAX_PAUSE),
            None => {
                queue.has_reader = false;
                Ok(None)
            }
        }
    }

    /// Records that the running read of a list found a change.
    pub(super) fn note_change(&self, group: ListGroup) {
        self.queue.lock().pauses.remove(&group);
    }

    /// Records that a read of a list has ended, and begins the pause before its next read: a server that constantly
    /// announces changes must not keep the kernel busy. The pause is twice as long as the read, within limits. If the
    /// server announces changes but its list stays the same, the pause doubles each time. While a caller waits for the
    /// next read, the pause is left out.
    pub(super) fn note_read(&self, group: ListGroup, begun: Instant) {
        let mut queue = self.queue.lock();
        queue.reading.remove(&group);
        self.changed.notify_one();
        if queue.observers.contains_key(&group) {
            return;
        }
        let length = match queue.pauses.get(&group) {
            Some(last) if begun < last.until + last.length => {
                (last.length * 2).min(MAX_UNCHANGED_PAUSE)
            }
            _ => (begun.elapsed() * 2).clamp(MIN_PAUSE, MAX_PAUSE),
        };
        queue.pauses.insert(group, Pause { until: Instant::now() + length, length });
    }

    /// Ends the pauses of all lists, because the server has connected again or an operator has changed the settings of
    /// the server.
    pub(super) fn end_pauses(&self) {
        self.queue.lock().pauses.clear();
        self.changed.notify_one();
    }

    pub(super) fn note_success(&self, group: ListGroup) {
        let mut queue = self.queue.lock();
        queue.retries.remove(&group);
        queue.errors.remove(&group);
    }

    pub(super) fn note_failure(&self, group: ListGroup, error: &str) {
        self.queue.lock().errors.insert(group, clip(error, MAX_ERROR_BYTES));
    }

    /// Returns the error of the last read of a list; `None` if it succeeded.
    pub(super) fn error(&self, group: ListGroup) -> Option<String> {
        self.queue.lock().errors.get(&group).cloned()
    }

    /// Returns the delay before the kernel reads a list again after a failure, or `None` if the timer of the list is
    /// already running.
    pub(super) fn delay_retry(&self, group: ListGroup) -> Option<Duration> {
        let mut queue = self.queue.lock();
        if !queue.delayed.insert(group) {
            return None;
        }
        let backoff = Backoff::new(RETRY_DELAY, MAX_RETRY_DELAY);
        Some(queue.retries.entry(group).or_insert(backoff).next_delay())
    }

    pub(super) fn end_delay(&self, group: ListGroup) {
        self.queue.lock().delayed.remove(&group);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;
    use tokio::time::advance;

    use super::*;

    #[tokio::test]
    async fn a_caller_does_not_wait_for_a_read_that_began_before_it_asked() {
        let queue = RefreshQueue::default();
        let (is_first, mut early) = queue.push_observed(ListGroup::Tools);
        assert!(is_first);
        assert_eq!(queue.next().await, Some(ListGroup::Tools));
        let reading = queue.take_observers(ListGroup::Tools);
        let (is_first, mut late) = queue.push_observed(ListGroup::Tools);
        assert!(!is_first, "a task is reading");
        assert_eq!(early.try_recv(), Err(TryRecvError::Empty));
        queue.note_read(ListGroup::Tools, Instant::now());
        drop(reading);
        assert_eq!(early.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(late.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(queue.next().await, Some(ListGroup::Tools), "the list is read once more");
        drop(queue.take_observers(ListGroup::Tools));
        assert_eq!(late.try_recv(), Err(TryRecvError::Closed));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_a_caller_asks_for_while_it_is_read_is_read_again_without_a_pause() {
        let queue = RefreshQueue::default();
        queue.push(ListGroup::Tools);
        assert_eq!(queue.next().await, Some(ListGroup::Tools));
        let begun = Instant::now();
        let mut read = queue.observe_waiting(ListGroup::Tools).unwrap();
        queue.note_read(ListGroup::Tools, begun);
        assert_eq!(queue.next().await, Some(ListGroup::Tools));
        assert!(begun.elapsed().is_zero());
        drop(queue.take_observers(ListGroup::Tools));
        assert_eq!(read.try_recv(), Err(TryRecvError::Closed));
        queue.note_read(ListGroup::Tools, begun);
        assert!(queue.observe_waiting(ListGroup::Tools).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_read_again_only_once_its_last_read_has_ended() {
        let queue = Arc::new(RefreshQueue::default());
        queue.push(ListGroup::Tools);
        assert_eq!(queue.next().await, Some(ListGroup::Tools));
        let begun = Instant::now();
        assert_eq!(queue.next().await, None);
        assert!(queue.push(ListGroup::Tools), "the reading task has ended, but not its read");
        let waiting = Arc::clone(&queue);
        let next = tokio::spawn(async move { waiting.next().await });
        advance(Duration::from_secs(30)).await;
        assert!(!next.is_finished());
        queue.note_read(ListGroup::Tools, begun);
        queue.note_change(ListGroup::Tools);
        let ended = Instant::now();
        assert_eq!(next.await.unwrap(), Some(ListGroup::Tools));
        assert!(ended.elapsed().is_zero(), "{:?}", ended.elapsed());
    }

    /// Simulates a read of the tools that takes `read` milliseconds; returns the length of the following pause in
    /// milliseconds.
    async fn pause_after(queue: &RefreshQueue, read: u64) -> u128 {
        let begun = Instant::now();
        advance(Duration::from_millis(read)).await;
        queue.note_read(ListGroup::Tools, begun);
        let ended = Instant::now();
        queue.push(ListGroup::Tools);
        queue.push(ListGroup::Prompts);
        assert_eq!(queue.next().await, Some(ListGroup::Prompts));
        assert!(ended.elapsed().is_zero(), "another list does not wait");
        queue.note_read(ListGroup::Prompts, ended);
        queue.note_change(ListGroup::Prompts);
        assert_eq!(queue.next().await, Some(ListGroup::Tools));
        ended.elapsed().as_millis()
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_of_one_list_delays_no_caller_no_new_connection_and_no_other_list() {
        let queue = Arc::new(RefreshQueue::default());
        assert!(queue.observe_waiting(ListGroup::Tools).is_none());
        let cases: [fn(&RefreshQueue); 4] = [
            |queue| drop(queue.push_observed(ListGroup::Tools)),
            |queue| drop(queue.observe_waiting(ListGroup::Tools)),
            RefreshQueue::end_pauses,
            |queue| {
                queue.push(ListGroup::Prompts);
            },
        ];
        for ends_wait in cases {
            queue.note_read(ListGroup::Tools, Instant::now());
            queue.push(ListGroup::Tools);
            let begun = Instant::now();
            let waiting = Arc::clone(&queue);
            let next = tokio::spawn(async move { waiting.next().await });
            tokio::task::yield_now().await;
            ends_wait(&queue);
            assert!(next.await.unwrap().is_some());
            assert!(begun.elapsed().is_zero());
            drop(queue.take_observers(ListGroup::Tools));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_is_read_again_after_a_pause_twice_as_long_as_the_read() {
        let queue = RefreshQueue::default();
        for (read, pause) in [(5, 100), (300, 600), (60_000, 10_000)] {
            queue.note_change(ListGroup::Tools);
            let waited = pause_after(&queue, read).await;
            assert!((pause..pause + 10).contains(&waited), "{waited} ms after {read} ms");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_while_a_list_is_announced_and_stays_the_same() {
        let queue = RefreshQueue::default();
        let mut pauses = Vec::new();
        for _ in 0..12 {
            pauses.push(pause_after(&queue, 5).await / 100);
        }
        assert_eq!(pauses[..5], [1, 2, 4, 8, 16]);
        assert_eq!(pauses[11], 600);
        queue.note_change(ListGroup::Tools);
        assert_eq!(pause_after(&queue, 5).await / 100, 1, "the list has changed");
        assert_eq!(pause_after(&queue, 5).await / 100, 2);
        advance(Duration::from_secs(1)).await;
        assert_eq!(pause_after(&queue, 5).await / 100, 1, "no change was announced for a while");
    }

    #[test]
    fn a_list_that_fails_has_one_timer_and_growing_delays() {
        let queue = RefreshQueue::default();
        let mut delays = Vec::new();
        for _ in 0..12 {
            delays.extend(queue.delay_retry(ListGroup::Tools));
            assert_eq!(queue.delay_retry(ListGroup::Tools), None, "a timer runs");
            queue.end_delay(ListGroup::Tools);
        }
        assert_eq!(delays[..4], [1, 2, 4, 8].map(Duration::from_secs));
        assert_eq!(delays[11], MAX_RETRY_DELAY);
        assert_eq!(queue.delay_retry(ListGroup::Prompts), Some(RETRY_DELAY));
        queue.note_success(ListGroup::Tools);
        assert_eq!(queue.delay_retry(ListGroup::Tools), Some(RETRY_DELAY));
    }
}
