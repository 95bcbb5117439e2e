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

/// The maximum time that requests for a list wait for a connected server to return it, and that the kernel waits before
/// it requests the server's next list.
///
/// A server that never returns e.g. its prompts would otherwise delay each host. The kernel continues to read the list,
/// and notifies the hosts if it has changed.
pub(super) const LIST_TIMEOUT: Duration = Duration::from_secs(2);

/// The maximum time that requests for a list wait, after the list was read, for the other lists of a server.
///
/// The kernel reads the lists of a server one right after the other. A host that got one of them in between would be
/// notified of the others at once, and some old hosts hang if they receive a notification right after their lists.
pub(super) const OTHER_LISTS_DELAY: Duration = Duration::from_millis(500);

/// The progress of this kernel's first reading of a server's lists. List requests and searches wait for it.
pub(super) struct FirstSync {
    begun: Instant,
    progress: watch::Sender<Progress>,
}

/// The progress of reading each group of lists: a server that never returns e.g. its prompts must not delay requests
/// for its other lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Progress {
    by_group: [SyncProgress; ListGroup::ALL.len()],
    /// For each group, whether it was read or requests no longer wait for it. Requests for a group that was read may
    /// still wait for the other lists.
    is_read: [bool; ListGroup::ALL.len()],
    /// For each group, whether its first read has ended or the known list is used. Lookups of a named entry wait for
    /// this.
    has_ended: [bool; ListGroup::ALL.len()],
}

impl Progress {
    fn all(progress: SyncProgress) -> Self {
        Self {
            by_group: [progress; ListGroup::ALL.len()],
            is_read: [false; ListGroup::ALL.len()],
            has_ended: [progress != SyncProgress::Unknown; ListGroup::ALL.len()],
        }
    }

    fn of(self, group: ListGroup) -> SyncProgress {
        self.by_group[group as usize]
    }

    /// Records that a group was read, or that requests no longer wait for it. Once this holds for all groups, the wait
    /// for each of them ends at the same moment.
    fn note(&mut self, group: ListGroup) {
        self.is_read[group as usize] = true;
        if !self.is_read.contains(&false) {
            self.by_group = [SyncProgress::Done; ListGroup::ALL.len()];
        }
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
        let unknown = Progress::all(SyncProgress::Unknown);
        Self { begun: Instant::now(), progress: watch::Sender::new(unknown) }
    }

    /// Lets further requests for lists and searches use the known lists. Calls of unknown tools wait for the next
    /// reading, as do requests that already wait.
    pub(super) fn defer(&self) {
        self.progress.send_replace(Progress::all(SyncProgress::Deferred));
    }

    /// Ends the wait, because the kernel has read the lists or the server has failed. Returns whether the tools were
    /// unknown until now, so that the tool lists of callers may change.
    pub(super) fn finish(&self) -> bool {
        self.advance(|progress| *progress = Progress::all(SyncProgress::Done))
    }

    /// Ends the wait for a group only, as [`finish`](Self::finish) does for all lists.
    pub(super) fn finish_group(&self, group: ListGroup) -> bool {
        self.advance(|progress| {
            progress.by_group[group as usize] = SyncProgress::Done;
            progress.note(group);
        })
    }

    /// Records that a group was read. If all groups were read, ends the wait as [`finish`](Self::finish) does.
    pub(super) fn note_read(&self, group: ListGroup) -> bool {
        self.advance(|progress| {
            progress.has_ended[group as usize] = true;
            progress.note(group);
        })
    }

    /// Returns whether requests no longer wait for a group.
    pub(super) fn is_done(&self, group: ListGroup) -> bool {
        self.progress.borrow().of(group) == SyncProgress::Done
    }

    /// Changes the progress. Returns whether the tools were unknown before and are not any more.
    fn advance(&self, change: impl FnOnce(&mut Progress)) -> bool {
        let mut became_known = false;
        self.progress.send_if_modified(|progress| {
            let before = *progress;
            change(progress);
            let is_unknown = |at: Progress| at.of(ListGroup::Tools) == SyncProgress::Unknown;
            became_known = is_unknown(before) && !is_unknown(*progress);
            before != *progress
        });
        became_known
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
        self.progress.borrow().of(ListGroup::Tools) == SyncProgress::Unknown
    }

    /// Returns whether the server's tools might differ from the known ones, because this kernel has not read them
    /// itself.
    pub(super) fn may_be_outdated(&self) -> bool {
        self.progress.borrow().of(ListGroup::Tools) != SyncProgress::Done
    }

    /// Waits for the lists of a group, at most until `limit` after the server was added; returns `false` if the server
    /// does not answer until then. Returns `true` at once if the lists are known, even if outdated, or if `limit` has
    /// passed already.
    pub(super) async fn wait(&self, group: ListGroup, limit: Duration) -> bool {
        let is_known = self.progress.borrow().of(group) != SyncProgress::Unknown;
        let left = limit.saturating_sub(self.begun.elapsed());
        is_known || left.is_zero() || self.wait_at_most(group, left).await
    }

    /// Waits until the first read of a group has ended, even if requests for lists no longer wait for it. Waits at most
    /// until `limit` after the server was added.
    pub(super) async fn wait_for_end(&self, group: ListGroup, limit: Duration) {
        let left = limit.saturating_sub(self.begun.elapsed());
        let mut progress = self.progress.subscribe();
        let ended = progress.wait_for(|progress| progress.has_ended[group as usize]);
        // Ignore the time-out: the caller uses the known list then.
        let _ = tokio::time::timeout(left, ended).await;
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
