//! Queues of lists that have to be read again: one for all servers, and one per server.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::service::ServerId;
use mgp_types::sync::Mutex;
use mgp_types::{Backoff, clip};
use tokio::sync::{Notify, oneshot};

/// The delay before a list is read again after a failure; doubled for each further failure.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(1);

pub(super) const MAX_RETRY_DELAY: Duration = Duration::from_mins(5);

/// The maximum number of bytes that are kept of the error of a list.
const MAX_ERROR_BYTES: usize = 300;

/// The lists that one `list_changed` notification announces; resources include templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ListGroup {
    Tools,
    Resources,
    Prompts,
}

impl ListGroup {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Resources, Self::Prompts];
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

/// The stale lists of one server; a single task reads them one after the other.
#[derive(Default)]
pub(super) struct RefreshQueue(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: BTreeSet<ListGroup>,
    has_reader: bool,
    retries: BTreeMap<ListGroup, Backoff>,
    /// The lists that have a running retry timer. A list has only one timer, however often the server announces
    /// changes.
    delayed: BTreeSet<ListGroup>,
    /// The errors of the lists whose last read failed.
    errors: BTreeMap<ListGroup, String>,
    /// The callers that wait for the next read of a list; dropping a sender wakes its caller.
    observers: BTreeMap<ListGroup, Vec<oneshot::Sender<()>>>,
}

impl RefreshQueue {
    /// Adds a list. Returns `true` if no task is reading, so that the caller has to start one.
    pub(super) fn push(&self, group: ListGroup) -> bool {
        let mut queue = self.0.lock();
        queue.waiting.insert(group);
        !mem::replace(&mut queue.has_reader, true)
    }

    /// Adds a list like [`push`](Self::push). Returns also a receiver that ends after a read of the list that begins
    /// after this call, also if the read fails.
    pub(super) fn push_observed(&self, group: ListGroup) -> (bool, oneshot::Receiver<()>) {
        let (observer, read) = oneshot::channel();
        self.0.lock().observers.entry(group).or_default().push(observer);
        (self.push(group), read)
    }

    /// Removes and returns the callers that wait for the read of a list that begins now; they wait until the returned
    /// value is dropped.
    pub(super) fn take_observers(&self, group: ListGroup) -> Vec<oneshot::Sender<()>> {
        self.0.lock().observers.remove(&group).unwrap_or_default()
    }

    /// Removes and returns the next list to read; after `None` the reading task must end.
    pub(super) fn pop(&self) -> Option<ListGroup> {
        let mut queue = self.0.lock();
        let next = queue.waiting.pop_first();
        queue.has_reader = next.is_some();
        next
    }

    pub(super) fn note_success(&self, group: ListGroup) {
        let mut queue = self.0.lock();
        queue.retries.remove(&group);
        queue.errors.remove(&group);
    }

    pub(super) fn note_failure(&self, group: ListGroup, error: &str) {
        self.0.lock().errors.insert(group, clip(error, MAX_ERROR_BYTES));
    }

    /// Returns the error with which the last read of a list failed; `None` if it succeeded.
    pub(super) fn error(&self, group: ListGroup) -> Option<String> {
        self.0.lock().errors.get(&group).cloned()
    }

    /// Returns the delay before a failed list is read again, or `None` if its timer is already running.
    pub(super) fn delay_retry(&self, group: ListGroup) -> Option<Duration> {
        let mut queue = self.0.lock();
        if !queue.delayed.insert(group) {
            return None;
        }
        let backoff = Backoff::new(RETRY_DELAY, MAX_RETRY_DELAY);
        Some(queue.retries.entry(group).or_insert(backoff).next_delay())
    }

    pub(super) fn end_delay(&self, group: ListGroup) {
        self.0.lock().delayed.remove(&group);
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    #[test]
    fn a_caller_does_not_wait_for_a_read_that_began_before_it_asked() {
        let queue = RefreshQueue::default();
        let (is_first, mut early) = queue.push_observed(ListGroup::Tools);
        assert!(is_first);
        assert_eq!(queue.pop(), Some(ListGroup::Tools));
        let reading = queue.take_observers(ListGroup::Tools);
        let (is_first, mut late) = queue.push_observed(ListGroup::Tools);
        assert!(!is_first, "a task is reading");
        assert_eq!(early.try_recv(), Err(TryRecvError::Empty));
        drop(reading);
        assert_eq!(early.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(late.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(queue.pop(), Some(ListGroup::Tools), "the list is read once more");
        drop(queue.take_observers(ListGroup::Tools));
        assert_eq!(late.try_recv(), Err(TryRecvError::Closed));
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
