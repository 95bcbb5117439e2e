//! Prevents starts of stopped and removed servers, and lets requests wait for the first lists of a new server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use mgp_client_sdk::SupervisedClient;
use mgp_types::mgp::ShutdownReason;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

/// The time for which requests for lists and searches wait for the lists of a server after it was added.
pub(crate) const FIRST_SYNC_TIMEOUT: Duration = Duration::from_secs(15);

/// The time after which a first start exchanges its permit for one for slow starts, so that servers that hang do not
/// delay the others for long.
pub(super) const FIRST_START_PERMIT_TIMEOUT: Duration = Duration::from_secs(3);

/// The maximum time that a slow first start occupies a permit for slow starts, so that a few servers that hang do not
/// make the others wait for their whole time limits.
pub(super) const SLOW_START_PERMIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The limits of the number of servers that are started at the same time to read their lists.
const FIRST_STARTS: (usize, usize) = (4, 8);

/// The permits that limit how many servers are started at the same time to read their lists. If a kernel started many
/// interpreters at once on few processors, none of them would answer before its time limit, nor after a restart.
#[derive(Clone, Debug)]
pub(crate) struct FirstStartPermits {
    /// The permits with which starts begin.
    pub(super) starts: Arc<Semaphore>,
    /// The permits of starts that take longer than [`FIRST_START_PERMIT_TIMEOUT`].
    pub(super) slow_starts: Arc<Semaphore>,
}

impl FirstStartPermits {
    /// Creates permits for as many starts as the processors can serve.
    pub(crate) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let starts = (2 * processors).clamp(FIRST_STARTS.0, FIRST_STARTS.1);
        let permits = || Arc::new(Semaphore::new(starts));
        Self { starts: permits(), slow_starts: permits() }
    }
}

/// A switch that prevents starts of a server while an operator keeps it stopped, and forever after its removal.
///
/// All code that can start the server shares this value and checks it.
#[derive(Clone, Debug, Default)]
pub(super) struct StartHold(Arc<HoldState>);

#[derive(Debug, Default)]
struct HoldState {
    is_stopped: AtomicBool,
    is_removed: AtomicBool,
    has_successor: AtomicBool,
}

impl StartHold {
    pub(super) fn set_stopped(&self, is_stopped: bool) {
        self.0.is_stopped.store(is_stopped, Ordering::SeqCst);
    }

    pub(super) fn set_removed(&self) {
        self.0.is_removed.store(true, Ordering::SeqCst);
    }

    /// Prevents starts forever, because a server with a changed entry will take the place of this one.
    pub(super) fn set_replaced(&self) {
        self.0.has_successor.store(true, Ordering::SeqCst);
        self.set_removed();
    }

    pub(super) fn is_replaced(&self) -> bool {
        self.0.has_successor.load(Ordering::SeqCst)
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.is_stopped.load(Ordering::SeqCst) || self.0.is_removed.load(Ordering::SeqCst)
    }

    /// Starts the server through its client; returns `false` if the server must not be started.
    pub(super) async fn start(&self, client: &SupervisedClient) -> bool {
        if self.is_set() {
            return false;
        }
        client.start().await;
        // An operator may have stopped the server while it started.
        if self.is_set() {
            client.stop(ShutdownReason::OperatorRequest).await;
            return false;
        }
        true
    }
}

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

    /// Ends the wait, because the lists have been read or the server has failed. Returns whether the lists were unknown
    /// until now, so that the tool lists of callers may be shown in another way.
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
            || self.finished(FIRST_SYNC_TIMEOUT.saturating_sub(self.begun.elapsed())).await
    }

    /// Waits until the lists were read or the server has failed; returns `false` after the time limit.
    pub(super) async fn finished(&self, limit: Duration) -> bool {
        let mut progress = self.progress.subscribe();
        let done = progress.wait_for(|progress| *progress == SyncProgress::Done);
        // `self` owns the sender, so the channel cannot be closed here.
        tokio::time::timeout(limit, done).await.is_ok()
    }
}
