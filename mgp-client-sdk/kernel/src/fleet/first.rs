//! The first start of a server: until it is known what it has, lists and searches wait for it, but not long.
//!
//! Applies to: inbound.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How long after it came a server is waited for.
const MEETS: Duration = Duration::from_secs(15);

/// Whether a server is still to be met.
pub(super) struct First {
    until: Instant,
    met: watch::Sender<bool>,
}

impl First {
    pub(super) fn new() -> Self {
        Self { until: Instant::now() + MEETS, met: watch::Sender::new(false) }
    }

    /// It is known what it has, or it failed: nobody waits any more.
    pub(super) fn over(&self) {
        self.met.send_if_modified(|met| !std::mem::replace(met, true));
    }

    /// Whether there is something to wait for.
    pub(super) fn is_ahead(&self) -> bool {
        !*self.met.borrow() && Instant::now() < self.until
    }

    /// Waits until it is over.
    pub(super) async fn wait(&self) {
        if self.is_ahead() {
            // It is never closed: this handle holds it.
            let mut met = self.met.subscribe();
            let _ = tokio::time::timeout_at(self.until, met.wait_for(|met| *met)).await;
        }
    }
}
