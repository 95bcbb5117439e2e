//! The first reading of a new server's lists, for which requests wait.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// The time for which requests for lists and searches wait for the lists of a server after it was added.
pub(crate) const FIRST_SYNC_TIMEOUT: Duration = Duration::from_secs(15);

/// The progress of the first reading of a server's lists by this kernel, for which list requests and searches wait.
pub(super) struct FirstSync {
    begun: Instant,
    progress: watch::Sender<SyncProgress>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SyncProgress {
    /// The lists are unknown: list requests and searches wait for them, for a limited time.
    Unknown,
    /// The lists that an earlier kernel read are used: only calls of unknown tools wait.
    Deferred,
    /// The lists were read; or nothing waits for them any more, because the server has failed or does not answer.
    Done,
}

impl FirstSync {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), progress: watch::Sender::new(SyncProgress::Unknown) }
    }

    /// Ends the wait of list requests and searches, which then use the lists that an earlier kernel has read.
    pub(super) fn defer(&self) {
        self.progress.send_replace(SyncProgress::Deferred);
    }

    /// Ends the wait, because the lists have been read or the server has failed. Returns `true` if the lists were
    /// unknown until now, because callers may now get other tool lists.
    pub(super) fn finish(&self) -> bool {
        let mut before = SyncProgress::Done;
        self.progress.send_if_modified(|progress| {
            before = std::mem::replace(progress, SyncProgress::Done);
            before != SyncProgress::Done
        });
        before == SyncProgress::Unknown
    }

    /// Returns whether list requests and searches still wait for the server's lists.
    pub(super) fn delays_lists(&self) -> bool {
        self.is_unknown() && self.begun.elapsed() < FIRST_SYNC_TIMEOUT
    }

    /// Returns whether the lists are still unknown; `false` also if the server has failed.
    pub(super) fn is_unknown(&self) -> bool {
        *self.progress.borrow() == SyncProgress::Unknown
    }

    /// Returns whether the server's lists might differ from the known ones, because this kernel has not read them
    /// itself.
    pub(super) fn may_be_outdated(&self) -> bool {
        *self.progress.borrow() != SyncProgress::Done
    }

    /// Waits for the lists, within the time limit for list requests and searches. Returns `false` if the server did not
    /// answer in time.
    pub(super) async fn wait(&self) -> bool {
        !self.delays_lists()
            || self.wait_at_most(FIRST_SYNC_TIMEOUT.saturating_sub(self.begun.elapsed())).await
    }

    /// Waits until the lists were read or the server has failed; returns `false` after the time limit.
    pub(super) async fn wait_at_most(&self, limit: Duration) -> bool {
        let mut progress = self.progress.subscribe();
        let done = progress.wait_for(|progress| *progress == SyncProgress::Done);
        // `self` owns the sender, so the channel cannot be closed here.
        tokio::time::timeout(limit, done).await.is_ok()
    }
}
