//! Conditions for starting a server, and waiting for its first start.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgp_client_sdk::SupervisedClient;
use mgp_types::mgp::ShutdownReason;
use tokio::sync::watch;
use tokio::time::Instant;

/// The time after a server is added for which lists and searches wait for its lists.
const FIRST_SYNC_TIMEOUT: Duration = Duration::from_secs(15);
/// The time after the start of a server from which nothing waits for its lists any more.
const FIRST_SYNC_MAX: Duration = Duration::from_mins(1);

/// Prevents the start of a server: as long as an operator has it stopped, and permanently after its removal.
///
/// All code that starts the server shares this value.
#[derive(Clone, Debug, Default)]
pub(super) struct StartHold(Arc<HoldState>);

#[derive(Debug, Default)]
struct HoldState {
    is_stopped: AtomicBool,
    is_removed: AtomicBool,
}

impl StartHold {
    pub(super) fn set_stopped(&self, is_stopped: bool) {
        self.0.is_stopped.store(is_stopped, Ordering::SeqCst);
    }

    pub(super) fn set_removed(&self) {
        self.0.is_removed.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.is_stopped.load(Ordering::SeqCst) || self.0.is_removed.load(Ordering::SeqCst)
    }

    /// Starts a client; returns `false` if it must not be started.
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

/// The first reading of a new server's lists. Each list and search waits for it, for a limited time.
pub(super) struct FirstSync {
    begun: Instant,
    is_done: watch::Sender<bool>,
}

impl FirstSync {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), is_done: watch::Sender::new(false) }
    }

    /// Ends the wait, because the lists are known or the server has failed.
    pub(super) fn finish(&self) {
        self.is_done.send_if_modified(|is_done| !std::mem::replace(is_done, true));
    }

    /// Returns whether the lists are not known, and the first list of a caller still waits for them.
    pub(super) fn is_new(&self) -> bool {
        self.is_pending() && self.begun.elapsed() < FIRST_SYNC_TIMEOUT
    }

    /// Returns whether the lists are not known, and lists and searches still wait for them.
    pub(super) fn is_pending(&self) -> bool {
        !*self.is_done.borrow() && self.begun.elapsed() < FIRST_SYNC_MAX
    }

    pub(super) async fn wait(&self) {
        if self.is_pending() {
            let left = FIRST_SYNC_MAX.saturating_sub(self.begun.elapsed());
            // The sender lives in `self`, so the channel is never closed.
            let mut is_done = self.is_done.subscribe();
            let limit = left.min(FIRST_SYNC_TIMEOUT);
            let _ = tokio::time::timeout(limit, is_done.wait_for(|done| *done)).await;
        }
    }
}
