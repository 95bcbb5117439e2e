//! Undoes a change that cannot be recorded in the audit log.

use mgp_types::Payload;
use mgp_types::service::AuditError;
use mgp_types::store::{Change, Store};

use super::{ChangeError, Snapshot, State};

/// The earlier values of the records that a change replaces, so that the change can be undone.
pub(super) struct UndoChange {
    space: &'static str,
    /// For each record: its key, `true` if the change wrote it or `false` if the change removed it, and its earlier
    /// value.
    before: Vec<(String, bool, Option<Payload>)>,
}

impl UndoChange {
    /// Reads the records that a change is about to replace.
    pub(super) async fn of<S: Snapshot>(
        state: &State<S>,
        change: &Change,
    ) -> Result<Self, ChangeError> {
        state.catch_up().await?;
        let table = state.0.table.lock().await;
        let before = change.writes_to(S::SPACE).map(|(key, stays)| {
            let before = table.entries.get(key).map(|entry| Payload::of(&**entry)).transpose();
            before.map(|before| (key.to_owned(), stays, before)).map_err(ChangeError::Encode)
        });
        Ok(Self { space: S::SPACE, before: before.collect::<Result<_, _>>()? })
    }

    /// Undoes a change that cannot be recorded, unless the records have been changed again.
    pub(super) async fn undo(
        self,
        store: &dyn Store,
        revision: u64,
        why: AuditError,
    ) -> ChangeError {
        let mut change = Change::new();
        for (key, stays, before) in self.before {
            change = change.expect_revision(self.space, &key, stays.then_some(revision));
            change = match before {
                Some(before) => change.put(self.space, key, before),
                None => change.remove(self.space, key),
            };
        }
        match store.commit(change).await {
            Ok(_) => ChangeError::Unaudited(why),
            Err(error) => {
                tracing::error!(space = self.space, %error, "failed to undo a change that could not be recorded");
                ChangeError::Unrecorded(why)
            }
        }
    }
}
