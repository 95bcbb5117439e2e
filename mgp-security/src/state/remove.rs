//! Removal of entries that refer to something that no longer exists.

use mgp_types::mgp::AuditEvent;
use mgp_types::store::{Change, StoreError};

use super::{ChangeError, Snapshot, State};
use crate::entries::MAX_ATTEMPTS;

/// The maximum number of entries that one commit removes; if there are more, further commits follow.
const MAX_PER_COMMIT: usize = 256;

impl<S: Snapshot> State<S> {
    /// Removes all matching entries. Each removal is committed together with its audit event, if any.
    ///
    /// # Errors
    /// The same errors as [`commit`](Self::commit). Some of the entries may have been removed.
    pub(crate) async fn take_out(
        &self,
        is_meant: impl Fn(&S::Entry) -> bool,
        event_of: impl Fn(&S::Entry) -> Option<AuditEvent>,
    ) -> Result<(), ChangeError> {
        let mut conflicts = 0;
        loop {
            let mut gone = self.latest(&is_meant).await?;
            gone.truncate(MAX_PER_COMMIT);
            if gone.is_empty() {
                return Ok(());
            }
            let mut change = Change::new();
            for found in &gone {
                change = change
                    .expect_revision(S::SPACE, &found.key, Some(found.revision))
                    .remove(S::SPACE, &found.key);
            }
            let events = gone.iter().filter_map(|found| event_of(&found.entry)).collect();
            match self.commit(change, events).await {
                // Another process changed one of the entries, so read all of them again.
                Err(ChangeError::Store(StoreError::Conflict { .. }))
                    if conflicts < MAX_ATTEMPTS =>
                {
                    conflicts += 1;
                }
                done => drop(done?),
            }
        }
    }
}
