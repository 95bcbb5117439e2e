//! Changes of permissions while a server is connected: the server is notified over the existing connection (MGP §3.6).

use std::future::pending;
use std::time::{Duration, SystemTime};

use mgp_types::Timestamp;
use mgp_types::service::{Context, MgpService};
use tokio::sync::watch;
use tokio::time::sleep;

use super::PermissionFlow;

/// The time for which further changes are collected, so that, for example, five grants by an operator cause one
/// message.
const BATCH_DELAY: Duration = Duration::from_millis(50);
/// Maximum time to sleep until an expiry, before the clock is read again.
const MAX_SLEEP: Duration = Duration::from_hours(1);

impl PermissionFlow {
    /// Notifies the server of changes to its permissions, and of late decisions, until the future is dropped.
    ///
    /// Completes early if no further notification is possible, e.g. because the server does not know the methods for
    /// it.
    ///
    /// # Cancel safety
    /// If the future is dropped, no more notifications are sent. It is then unknown whether a notification that was
    /// being sent arrives.
    pub async fn follow<S: MgpService>(self, stack: S, cx: Context) {
        let mut changes = Some(self.0.changes.clone());
        if let Some(changes) = &mut changes {
            // Changes that were made between the handshake and this point must also cause a notification.
            changes.mark_changed();
        }
        let mut late = self.0.state.lock().late.take();
        loop {
            let dialect = self.0.state.lock().dialect;
            if late.is_none() && (changes.is_none() || dialect.is_none()) {
                return;
            }
            tokio::select! {
                _ = async {
                    match &mut late {
                        Some(deciding) => deciding.await,
                        None => pending().await,
                    }
                } => late = None,
                change = next_change(changes.as_mut()) => if change.is_err() { changes = None },
                () = sleep(self.until_expiry()) => {}
            }
            sleep(BATCH_DELAY).await;
            if let Some(changes) = &mut changes {
                changes.mark_unchanged();
            }
            // A server that never mentioned permissions is not notified of permissions.
            if let Some(dialect) = dialect
                && !self.0.state.lock().requested.is_empty()
            {
                let before = self.0.state.lock().last.clone();
                let now = self.current_notice(&cx).with_withdrawn(&before);
                if now.is_same_as(&before) {
                    continue;
                }
                let name = self.next_name();
                self.notify_server(&stack, &cx, dialect, name, now).await;
            }
        }
    }

    /// Returns the time until a grant in the latest notification expires, at most [`MAX_SLEEP`].
    fn until_expiry(&self) -> Duration {
        let until =
            self.0.state.lock().last.expires_at.as_ref().and_then(Timestamp::to_system_time);
        let left = until.map(|until| until.duration_since(SystemTime::now()).unwrap_or_default());
        // Add a little time, so that the grants have expired even if another clock is read.
        left.map_or(MAX_SLEEP, |left| (left + Duration::from_millis(5)).min(MAX_SLEEP))
    }
}

/// Waits for the next change. Returns an error if no further change is possible, and never completes if `changes` is
/// `None`.
async fn next_change(
    changes: Option<&mut watch::Receiver<u64>>,
) -> Result<(), watch::error::RecvError> {
    match changes {
        Some(changes) => changes.changed().await,
        None => pending().await,
    }
}
