//! What changes while a server is connected: it is told the new standing without a new connection (MGP §3.6).
//!
//! Applies to: outbound.

use std::future::pending;
use std::time::{Duration, SystemTime};

use mgp_types::Timestamp;
use mgp_types::service::{Context, MgpService};
use tokio::sync::watch;
use tokio::time::sleep;

use super::PermissionFlow;

/// How long further changes are waited for, so that an operator who grants five things causes one message.
const GATHER: Duration = Duration::from_millis(50);
/// The longest sleep until an expiry.
const LONGEST: Duration = Duration::from_hours(1);

impl PermissionFlow {
    /// Tells a legacy server whatever changes, and sees late decisions through, until it is dropped.
    ///
    /// It returns where there is nothing to follow: a modern server hears with each request,
    /// and one that does not know the methods is not told again.
    ///
    /// # Cancel safety
    /// Dropping the future ends the following; a message on its way may or may not arrive.
    pub async fn follow<S: MgpService>(self, stack: S, cx: Context) {
        let mut changes = Some(self.0.changes.clone());
        if let Some(changes) = &mut changes {
            // What changed between the handshake and now counts.
            changes.mark_changed();
        }
        let mut late = self.state().late.take();
        loop {
            let spelling = self.state().spelling;
            if late.is_none() && (changes.is_none() || spelling.is_none()) {
                return;
            }
            tokio::select! {
                _ = async {
                    match &mut late {
                        Some(deciding) => deciding.await,
                        None => pending().await,
                    }
                } => late = None,
                moved = moved(changes.as_mut()) => if moved.is_err() { changes = None },
                () = sleep(self.until_expiry()) => {}
            }
            sleep(GATHER).await;
            if let Some(changes) = &mut changes {
                changes.mark_unchanged();
            }
            // Who never spoke of permissions hears nothing of them.
            if let Some(spelling) = spelling
                && !self.state().wanted.is_empty()
            {
                let before = self.state().last.clone();
                let now = self.told(&cx).after(&before);
                if now.says_as_much_as(&before) {
                    continue;
                }
                let name = self.next_name();
                self.tell(&stack, &cx, spelling, name, now).await;
            }
        }
    }

    /// How long what the server was told last holds, at most [`LONGEST`].
    fn until_expiry(&self) -> Duration {
        let until = self.state().last.expires_at.as_ref().and_then(Timestamp::to_system_time);
        let left = until.map(|until| until.duration_since(SystemTime::now()).unwrap_or_default());
        // A little later, so that it has expired for everyone.
        left.map_or(LONGEST, |left| (left + Duration::from_millis(5)).min(LONGEST))
    }
}

/// Waits for a change; an error when there will be none.
async fn moved(changes: Option<&mut watch::Receiver<u64>>) -> Result<(), watch::error::RecvError> {
    match changes {
        Some(changes) => changes.changed().await,
        None => pending().await,
    }
}
