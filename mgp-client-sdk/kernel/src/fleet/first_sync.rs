//! The first reading of a new server's lists. Requests of clients wait for it.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::refresh_queue::ListGroup;

/// The maximum time that searches wait for the lists of a server, counted from the addition of the server. A call of an
/// unknown tool waits as long, counted from the call, for a server that it does not name.
pub(crate) const FIRST_SYNC_TIMEOUT: Duration = Duration::from_secs(15);

/// The maximum time that requests for lists wait for the lists of a server, counted from the addition of the server.
///
/// This is shorter than the time limits of hosts for their start, e.g. 10 s in Codex: a host that reaches its limit has
/// no tools at all. The kernel notifies hosts once it has read the lists.
pub(crate) const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(8);

/// The maximum time that requests for tools wait, after the tools were read, for the other lists of a server.
///
/// The kernel reads the other lists right after the tools. A host that got its tools in between would be notified of
/// each of these lists at once, and some old hosts hang if they receive a notification right after their lists.
pub(super) const OTHER_LISTS_DELAY: Duration = Duration::from_millis(500);

/// The progress of this kernel's first reading of a server's lists. List requests and searches wait for it.
pub(super) struct FirstSync {
    begun: Instant,
    progress: watch::Sender<Progress>,
}

/// The progress of reading the tools, and that of reading all other lists: a server that never returns e.g. its prompts
/// must not delay requests for tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Progress {
    tools: SyncProgress,
    others: SyncProgress,
}

impl Progress {
    fn of(self, group: ListGroup) -> SyncProgress {
        if group == ListGroup::Tools { self.tools } else { self.others }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncProgress {
    /// The lists are unknown: requests for lists and searches wait for them, for a limited time.
    Unknown,
    /// The kernel uses the known lists, e.g. those that an earlier kernel has read: only calls of unknown tools wait
    /// for the next reading.
    Deferred,
    /// The kernel has read the lists, or the server has failed or does not answer. Requests wait no longer.
    Done,
}

impl FirstSync {
    pub(super) fn new() -> Self {
        let unknown = Progress { tools: SyncProgress::Unknown, others: SyncProgress::Unknown };
        Self { begun: Instant::now(), progress: watch::Sender::new(unknown) }
    }

    /// Lets further requests for lists and searches use the known lists. Calls of unknown tools wait for the next
    /// reading, as do requests that already wait.
    pub(super) fn defer(&self) {
        let deferred = Progress { tools: SyncProgress::Deferred, others: SyncProgress::Deferred };
        self.progress.send_replace(deferred);
    }

    /// Ends the wait, because the kernel has read the lists or the server has failed. Returns whether the tools were
    /// unknown until now, so that the tool lists of callers may change.
    pub(super) fn finish(&self) -> bool {
        let done = Progress { tools: SyncProgress::Done, others: SyncProgress::Done };
        self.advance(|_| done)
    }

    /// Ends the wait for the tools only, as [`finish`](Self::finish) does for all lists.
    pub(super) fn finish_tools(&self) -> bool {
        self.advance(|progress| Progress { tools: SyncProgress::Done, ..progress })
    }

    /// Changes the progress. Returns whether the tools were unknown until now.
    fn advance(&self, next: impl FnOnce(Progress) -> Progress) -> bool {
        let mut were_unknown = false;
        self.progress.send_if_modified(|progress| {
            let before = *progress;
            *progress = next(before);
            were_unknown = before.tools == SyncProgress::Unknown;
            before != *progress
        });
        were_unknown
    }

    /// Returns whether searches still wait for the server's tools. Requests for lists of tools wait only during the
    /// first part of this time, [`FIRST_LIST_TIMEOUT`].
    pub(super) fn delays_tools(&self) -> bool {
        self.delays(ListGroup::Tools)
    }

    /// Returns whether requests still wait for any list of the server.
    pub(super) fn delays_lists(&self) -> bool {
        ListGroup::ALL.into_iter().any(|group| self.delays(group))
    }

    fn delays(&self, group: ListGroup) -> bool {
        let is_unknown = self.progress.borrow().of(group) == SyncProgress::Unknown;
        is_unknown && self.begun.elapsed() < FIRST_SYNC_TIMEOUT
    }

    /// Returns whether the tools are still unknown. If the server has failed, they do not count as unknown.
    pub(super) fn is_unknown(&self) -> bool {
        self.progress.borrow().tools == SyncProgress::Unknown
    }

    /// Returns whether the server's tools might differ from the known ones, because this kernel has not read them
    /// itself.
    pub(super) fn may_be_outdated(&self) -> bool {
        self.progress.borrow().tools != SyncProgress::Done
    }

    /// Waits for the lists of a group, at most until `limit` after the server was added; returns `false` if the server
    /// does not answer until then. Returns `true` at once if the lists are known, even if outdated, or if `limit` has
    /// passed already.
    pub(super) async fn wait(&self, group: ListGroup, limit: Duration) -> bool {
        let is_known = self.progress.borrow().of(group) != SyncProgress::Unknown;
        let left = limit.saturating_sub(self.begun.elapsed());
        is_known || left.is_zero() || self.wait_at_most(group, left).await
    }

    /// Waits until the kernel has read the lists of a group or the server has failed. Returns `false` after the time
    /// limit.
    pub(super) async fn wait_at_most(&self, group: ListGroup, limit: Duration) -> bool {
        let mut progress = self.progress.subscribe();
        let done = progress.wait_for(|progress| progress.of(group) == SyncProgress::Done);
        // `self` owns the sender, so the channel cannot be closed here.
        tokio::time::timeout(limit, done).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_list_waits_for_a_slow_start_less_long_than_a_search_and_than_hosts_for_the_list() {
        let sync = FirstSync::new();
        let begun = Instant::now();
        assert!(!sync.wait(ListGroup::Tools, FIRST_LIST_TIMEOUT).await);
        assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
        let begun = Instant::now();
        let again = sync.wait(ListGroup::Tools, FIRST_LIST_TIMEOUT).await;
        assert!(again, "the next list does not wait");
        assert!(begun.elapsed().is_zero(), "{:?}", begun.elapsed());
        let found = sync.wait(ListGroup::Tools, FIRST_SYNC_TIMEOUT).await;
        assert!(!found, "a search waits for the rest of its time");
        assert!(begun.elapsed() > Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
