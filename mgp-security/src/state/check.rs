//! Checks that stored entries can be read.

use mgp_types::Payload;
use mgp_types::store::{Record, Store, StoreError};

use super::Snapshot;

/// Returns the entry in a record; `None` if the record was removed.
pub(super) fn entry<S: Snapshot>(record: &Record) -> Result<Option<S::Entry>, StoreError> {
    record.value.as_ref().map(Payload::get).transpose().map_err(|error| {
        let (key, space) = (&record.key, S::SPACE);
        let why = format!("`{key}` in `{space}` is damaged ({error}); restore a backup");
        StoreError::Unreadable(why)
    })
}

/// Checks that all entries of a space can be read.
pub(crate) async fn check_entries<S: Snapshot>(store: &dyn Store) -> Result<(), StoreError> {
    let loaded = store.load(S::SPACE).await?;
    loaded.records.iter().try_for_each(|record| entry::<S>(record).map(drop))
}
