//! Where keys are kept: behind a trait, in memory to begin with.
//!
//! Applies to: inbound.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_types::service::BoxFuture;

use super::MAX_KEYS;
use super::error::{KeyError, StoreError};
use super::record::KeyRecord;

/// Keeps the records of keys; [`ApiKeys`](super::ApiKeys) asks it rarely and decides from memory.
pub trait KeyStore: Send + Sync + 'static {
    /// Reads all records.
    fn load(&self) -> BoxFuture<'_, Result<Vec<KeyRecord>, StoreError>>;

    /// Adds a record whose id is free.
    fn add(&self, record: KeyRecord) -> BoxFuture<'_, Result<(), KeyError>>;

    /// Marks the record of an id as revoked.
    fn revoke<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), KeyError>>;

    /// Removes the record of an id.
    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), KeyError>>;

    /// Changes whenever the records may have changed; asked at most four times a second, on the path of a
    /// request, so it answers in microseconds.
    fn stamp(&self) -> u64;
}

/// Keys of this process, gone with it.
#[derive(Clone, Debug, Default)]
pub struct MemoryKeys(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    records: BTreeMap<String, KeyRecord>,
    changes: u64,
}

impl MemoryKeys {
    /// A store without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, KeyRecord>) -> Result<(), KeyError>,
    ) -> Result<(), KeyError> {
        let mut kept = self.kept();
        change(&mut kept.records)?;
        kept.changes += 1;
        Ok(())
    }
}

impl KeyStore for MemoryKeys {
    fn load(&self) -> BoxFuture<'_, Result<Vec<KeyRecord>, StoreError>> {
        let records = self.kept().records.values().cloned().collect();
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
        self.kept().changes
    }
}

// The rules every store of ours has.

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
