//! Replaces entries, unless they have been changed since a decision read them.

use std::sync::Arc;

use mgp_types::Payload;
use mgp_types::mgp::AuditEvent;
use mgp_types::store::{Change, StoreError, with_timeout};

use super::{ChangeError, Snapshot, State, Writes};

/// The key of an entry, the entry as a decision read it from the snapshot, and the entry that replaces it.
pub(crate) type Replacement<E> = (String, Arc<E>, E);

impl<S: Snapshot> State<S> {
    /// Writes entries in place of the entries that a decision read from the snapshot, together with their audit events.
    ///
    /// Returns `false` if one of the old entries has been changed since, e.g. by another process. Then nothing is
    /// written, and the snapshot contains that other change.
    ///
    /// # Errors
    /// The same errors as [`commit`](Self::commit).
    pub(crate) async fn replace(
        &self,
        writes: Vec<Replacement<S::Entry>>,
        events: Vec<AuditEvent>,
    ) -> Result<bool, ChangeError> {
        let mut change = Change::new();
        for (key, before, after) in writes {
            let Some(revision) = self.revision_of(&key, &before).await else { return Ok(false) };
            let after = Payload::of(&after).map_err(ChangeError::Encode)?;
            change = change.expect_revision(S::SPACE, &key, Some(revision));
            change = change.put(S::SPACE, key, after);
        }
        self.commit_unless_changed(change, events).await
    }

    /// Writes entries together with their audit events, unless the entry on which a decision was based has been changed
    /// since. `key` names this entry, and `before` is the entry as the decision read it from the snapshot. Returns
    /// `false` as [`replace`](Self::replace) does.
    ///
    /// # Errors
    /// The same errors as [`commit`](Self::commit).
    pub(crate) async fn write_unless_changed(
        &self,
        (key, before): (&str, &Arc<S::Entry>),
        writes: Writes<S::Entry>,
        events: Vec<AuditEvent>,
    ) -> Result<bool, ChangeError> {
        let Some(revision) = self.revision_of(key, before).await else { return Ok(false) };
        let change = Change::new().expect_revision(S::SPACE, key, Some(revision));
        self.commit_unless_changed(Self::with_writes(change, writes)?, events).await
    }

    /// Commits a change that expects revisions of entries; returns `false` if an entry has another revision.
    async fn commit_unless_changed(
        &self,
        change: Change,
        events: Vec<AuditEvent>,
    ) -> Result<bool, ChangeError> {
        match self.commit(change, events).await {
            Ok(_) => Ok(true),
            Err(ChangeError::Store(StoreError::Conflict { .. })) => {
                with_timeout(self.0.store.answer_timeout(), self.catch_up()).await?;
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the revision of the store at which this entry was written, or `None` if a newer entry has replaced it.
    async fn revision_of(&self, key: &str, entry: &Arc<S::Entry>) -> Option<u64> {
        let table = self.0.table.lock().await;
        let is_current = table.entries.get(key).is_some_and(|now| Arc::ptr_eq(now, entry));
        table.written.get(key).copied().filter(|_| is_current)
    }
}
