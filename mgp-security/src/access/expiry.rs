//! Entries whose time is over: out of force at that moment by themselves, then removed with an event (MGP §5, §6.4).
//!
//! Whichever process of those that share a store comes first removes an entry, and its commit depends on the entry still
//! being there: so an end is told once, not once by each process.
//!
//! Applies to: both.

use std::sync::atomic::Ordering;

use mgp_types::mgp::Actor;
use mgp_types::store::{Change, StoreError};
use tokio::runtime::Handle;

use super::book::Access;
use super::rules::Rules;
use crate::audit::Event;
use crate::state::{ChangeError, Snapshot};

/// How many entries one commit removes; further ones follow in the next.
const AT_ONCE: usize = 256;

/// How often is tried again when another process changes the same entries.
pub(super) const ATTEMPTS: usize = 8;

impl Access {
    /// Removes what has ended, in a task of its own; without a runtime it stays until the next change.
    pub(super) fn sweep_soon(&self) {
        let ended = self.0.state.now().is_ok_and(|rules| rules.any_ended(self.now()));
        if !ended {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        if self.0.sweeping.swap(true, Ordering::AcqRel) {
            return;
        }
        let access = self.clone();
        runtime.spawn(async move {
            let turn = access.0.turn.lock().await;
            if let Err(error) = access.sweep().await {
                // They are out of force all the same, and the next change tries again.
                tracing::warn!(%error, "access entries whose time is over could not be removed");
            }
            drop(turn);
            access.0.sweeping.store(false, Ordering::Release);
        });
    }

    /// Removes what has ended; whoever calls it has the turn.
    pub(super) async fn sweep(&self) -> Result<(), ChangeError> {
        let state = &self.0.state;
        let mut attempts = 0;
        while state.now()?.any_ended(self.now()) {
            let now = self.now();
            let mut ended = state.latest(|entry| !entry.in_force(now)).await?;
            ended.truncate(AT_ONCE);
            let mut change = Change::new();
            let mut events = Vec::with_capacity(ended.len());
            for found in ended {
                change = change
                    .expect(Rules::SPACE, &found.key, Some(found.revision))
                    .remove(Rules::SPACE, &found.key);
                let ended = Event::access_revoked(Actor::kernel(), &found.entry);
                events.push(ended.cause("expired").build());
            }
            if events.is_empty() {
                return Ok(());
            }
            match state.commit_end(change, events).await {
                // Somebody else was first.
                Err(ChangeError::Store(StoreError::Conflict { .. })) if attempts < ATTEMPTS => {
                    attempts += 1;
                }
                done => done?,
            }
        }
        Ok(())
    }
}
