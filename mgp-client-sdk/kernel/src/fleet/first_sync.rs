//! The first reading of a new server's lists. Requests of clients wait for it.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The maximum time that searches wait for the lists of a server, counted from the addition of the server. A call of an
/// unknown tool waits as long, counted from the call, for a server that it does not name.
pub(crate) const FIRST_SYNC_TIMEOUT: Duration = Duration::from_secs(15);

/// The maximum time that requests for lists wait for the lists of a server, counted from the addition of the server.
///
/// This is shorter than the time limits of hosts for their start, e.g. 10 s in Codex: a host that reaches its limit has
/// no tools at all. The kernel notifies hosts once it has read the lists.
pub(crate) const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(8);

/// The progress of this kernel's first reading of a server's lists. List requests and searches wait for it.
pub(super) struct FirstSync {
    begun: Instant,
    progress: watch::Sender<SyncProgress>,
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
        Self { begun: Instant::now(), progress: watch::Sender::new(SyncProgress::Unknown) }
    }

    /// Lets further requests for lists and searches use the known lists. Calls of unknown tools wait for the next
    /// reading, as do requests that already wait.
    pub(super) fn defer(&self) {
        self.progress.send_replace(SyncProgress::Deferred);
    }

    /// Ends the wait, because the kernel has read the lists or the server has failed. Returns whether the lists were
    /// unknown until now, so that the tool lists of callers may change.
    pub(super) fn finish(&self) -> bool {
        let mut before = SyncProgress::Done;
        self.progress.send_if_modified(|progress| {
            before = std::mem::replace(progress, SyncProgress::Done);
            before != SyncProgress::Done
        });
        before == SyncProgress::Unknown
    }

    /// Returns whether searches still wait for the server's lists. Requests for lists wait only during the first part of
    /// this time, [`FIRST_LIST_TIMEOUT`].
    pub(super) fn delays_lists(&self) -> bool {
        self.is_unknown() && self.begun.elapsed() < FIRST_SYNC_TIMEOUT
    }

    /// Returns whether the lists are still unknown. If the server has failed, they do not count as unknown.
    pub(super) fn is_unknown(&self) -> bool {
        *self.progress.borrow() == SyncProgress::Unknown
    }

    /// Returns whether the server's lists might differ from the known ones, because this kernel has not read them
    /// itself.
    pub(super) fn may_be_outdated(&self) -> bool {
        *self.progress.borrow() != SyncProgress::Done
    }

    /// Waits for the lists, at most until `limit` after the server was added; returns `false` if the server does not
    /// answer until then. Returns `true` at once if the lists are known, even if outdated, or if `limit` has passed
    /// already.
    pub(super) async fn wait(&self, limit: Duration) -> bool {
        let left = limit.saturating_sub(self.begun.elapsed());
        !self.is_unknown() || left.is_zero() || self.wait_at_most(left).await
    }

    /// Waits until the kernel has read the lists or the server has failed. Returns `false` after the time limit.
    pub(super) async fn wait_at_most(&self, limit: Duration) -> bool {
        let mut progress = self.progress.subscribe();
        let done = progress.wait_for(|progress| *progress == SyncProgress::Done);
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
        assert!(!sync.wait(FIRST_LIST_TIMEOUT).await);
        assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
        let begun = Instant::now();
        assert!(sync.wait(FIRST_LIST_TIMEOUT).await, "the next list does not wait");
        assert!(begun.elapsed().is_zero(), "{:?}", begun.elapsed());
        assert!(!sync.wait(FIRST_SYNC_TIMEOUT).await, "a search waits for the rest of its time");
        assert!(begun.elapsed() > Duration::from_secs(5), "{:?}", begun.elapsed());
    }
}
