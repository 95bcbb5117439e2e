//! The trait of key stores, and a store in memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use mgp_types::service::BoxFuture;
use mgp_types::sync::Mutex;

use super::MAX_KEYS;
use super::error::{KeyError, StoreError};
use super::record::KeyRecord;

/// A store of keys; [`ApiKeys`](super::ApiKeys) caches its records, and rarely calls it.
pub trait KeyStore: Send + Sync + 'static {
    /// Reads all records.
    fn load(&self) -> BoxFuture<'_, Result<Vec<KeyRecord>, StoreError>>;

    /// Adds a record with a new id.
    fn add(&self, record: KeyRecord) -> BoxFuture<'_, Result<(), KeyError>>;

    /// Marks the record of an id as revoked.
    fn revoke<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), KeyError>>;

    /// Removes the record of an id.
    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), KeyError>>;

    /// Returns a number that changes whenever the records may have changed.
    ///
    /// It must return within microseconds: it is called up to four times a second while a request waits.
    fn stamp(&self) -> u64;
}

/// Keys in memory, lost when the process ends.
#[derive(Clone, Debug, Default)]
pub struct MemoryKeys(Arc<Mutex<KeyTable>>);

#[derive(Debug, Default)]
struct KeyTable {
    records: BTreeMap<String, KeyRecord>,
    changes: u64,
}

impl MemoryKeys {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn change(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, KeyRecord>) -> Result<(), KeyError>,
    ) -> Result<(), KeyError> {
        let mut table = self.0.lock();
        change(&mut table.records)?;
        table.changes += 1;
        Ok(())
    }
}

impl KeyStore for MemoryKeys {
    fn load(&self) -> BoxFuture<'_, Result<Vec<KeyRecord>, StoreError>> {
        let records = self.0.lock().records.values().cloned().collect();
        Box::pin(std::future::ready(Ok(records)))
    }

    fn add(&self, record: KeyRecord) -> BoxFuture<'_, Result<(), KeyError>> {
        Box::pin(std::future::ready(self.change(|records| add(records, record))))
    }

    fn revoke<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), KeyError>> {
        Box::pin(std::future::ready(self.change(|records| revoke(records, id))))
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), KeyError>> {
        Box::pin(std::future::ready(self.change(|records| remove(records, id))))
    }

    fn stamp(&self) -> u64 {
        self.0.lock().changes
    }
}

// The rules that all our stores share.

pub(super) fn add(
    records: &mut BTreeMap<String, KeyRecord>,
    record: KeyRecord,
) -> Result<(), KeyError> {
    if records.contains_key(record.id()) {
        return Err(KeyError::Exists { id: record.id().to_owned() });
    }
    if records.len() >= MAX_KEYS {
        return Err(KeyError::Full);
    }
    records.insert(record.id().to_owned(), record);
    Ok(())
}

pub(super) fn revoke(records: &mut BTreeMap<String, KeyRecord>, id: &str) -> Result<(), KeyError> {
    records.get_mut(id).ok_or_else(|| KeyError::Unknown { id: id.to_owned() })?.revoke();
    Ok(())
}

pub(super) fn remove(records: &mut BTreeMap<String, KeyRecord>, id: &str) -> Result<(), KeyError> {
    records.remove(id).map(drop).ok_or_else(|| KeyError::Unknown { id: id.to_owned() })
}
