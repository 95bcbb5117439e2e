//! Entries that go because what they were about is gone.
//!
//! Applies to: both.

use mgp_types::mgp::AuditEvent;
use mgp_types::store::{Change, StoreError};

use super::{ChangeError, Snapshot, State};

/// How many entries one commit takes out; further ones follow in the next.
const AT_ONCE: usize = 256;

/// How often is tried again when another process changes the same entries.
const ATTEMPTS: usize = 8;

impl<S: Snapshot> State<S> {
    /// Takes out all entries that are meant, each with the event that tells of it, if there is one.
    ///
    /// # Errors
    /// As [`commit`](Self::commit); some of them may be out then.
    pub(crate) async fn take_out(
        &self,
        is_meant: impl Fn(&S::Entry) -> bool,
        told: impl Fn(&S::Entry) -> Option<AuditEvent>,
    ) -> Result<(), ChangeError> {
        let mut conflicts = 0;
        loop {
            let mut gone = self.latest(&is_meant).await?;
            gone.truncate(AT_ONCE);
            if gone.is_empty() {
                return Ok(());
            }
            let mut change = Change::new();
            for found in &gone {
                change = change
                    .expect(S::SPACE, &found.key, Some(found.revision))
                    .remove(S::SPACE, &found.key);
            }
            let events = gone.iter().filter_map(|found| told(&found.entry)).collect();
            match self.commit(change, events).await {
                // Somebody else changed one of them; look again at what is there.
                Err(ChangeError::Store(StoreError::Conflict { .. })) if conflicts < ATTEMPTS => {
                    conflicts += 1;
                }
                done => drop(done?),
            }
        }
    }
}
