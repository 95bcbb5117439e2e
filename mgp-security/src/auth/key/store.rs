//! The trait of key stores, and a store in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use mgp_types::sync::Mutex;

use super::MAX_KEYS;
use super::error::{KeyError, KeyStoreError};
use super::record::KeyRecord;

/// A store of keys. [`ApiKeys`](super::ApiKeys) caches the records, so it rarely calls the store.
#[async_trait]
pub trait KeyStore: Send + Sync + 'static {
    /// Reads the records of all keys.
    async fn load(&self) -> Result<Vec<KeyRecord>, KeyStoreError>;

    /// Adds a record, whose id must be new. If there are [`MAX_KEYS`] records, the stores of this crate first remove
    /// the record of the key that was revoked or expired the longest ago.
    async fn add(&self, record: KeyRecord) -> Result<(), KeyError>;

    /// Marks the record with this id as revoked.
    async fn revoke(&self, id: &str) -> Result<(), KeyError>;

    /// Marks the valid records that expired at `at` or before as ended, so that their keys stay refused if the clock is
    /// set back. Returns these records. The default implementation revokes them.
    async fn end_expired(&self, at: SystemTime) -> Result<Vec<KeyRecord>, KeyError> {
        let mut ended = self.load().await?;
        ended.retain(|record| record.has_expired(at));
        for record in &ended {
            self.revoke(record.id()).await?;
        }
        Ok(ended)
    }

    /// Removes the record with this id.
    async fn remove(&self, id: &str) -> Result<(), KeyError>;

    /// Returns a number that changes whenever the records may have changed.
    ///
    /// This method must return within microseconds, because requests wait for it. It is called about four times a
    /// second.
    fn stamp(&self) -> u64;

    /// Records that a key was used just now, without waiting for the disk. Callers call this method at most once a
    /// minute for each key. Does nothing by default.
    fn record_use(&self, _id: &str) {}

    /// Returns the time of the last recorded use of a key; `None` if none was recorded.
    #[must_use]
    fn last_use(&self, _id: &str) -> Option<SystemTime> {
        None
    }
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
    /// Creates a store without keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn change<T>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, KeyRecord>) -> Result<T, KeyError>,
    ) -> Result<T, KeyError> {
        let mut table = self.0.lock();
        let changed = change(&mut table.records)?;
        table.changes += 1;
        Ok(changed)
    }
}

#[async_trait]
impl KeyStore for MemoryKeys {
    async fn load(&self) -> Result<Vec<KeyRecord>, KeyStoreError> {
        Ok(self.0.lock().records.values().cloned().collect())
    }

    async fn add(&self, record: KeyRecord) -> Result<(), KeyError> {
        self.change(|records| add(records, record))
    }

    async fn revoke(&self, id: &str) -> Result<(), KeyError> {
        self.change(|records| revoke(records, id))
    }

    async fn end_expired(&self, at: SystemTime) -> Result<Vec<KeyRecord>, KeyError> {
        self.change(|records| Ok(end_expired(records, at)))
    }

    async fn remove(&self, id: &str) -> Result<(), KeyError> {
        self.change(|records| remove(records, id))
    }

    fn stamp(&self) -> u64 {
        self.0.lock().changes
    }
}

// The rules for changes that all key stores of this crate share.

pub(super) fn add(
    records: &mut BTreeMap<String, KeyRecord>,
    record: KeyRecord,
) -> Result<(), KeyError> {
    if records.contains_key(record.id()) {
        return Err(KeyError::Exists { id: record.id().to_owned() });
    }
    if records.len() >= MAX_KEYS {
        // Remove the key that ended first: it is refused even without its record.
        let now = SystemTime::now();
        let ended = records.values().filter_map(|known| Some((known.ended(now)?, known.id())));
        let oldest = ended.min().ok_or(KeyError::Full)?.1.to_owned();
        records.remove(&oldest);
    }
    records.insert(record.id().to_owned(), record);
    Ok(())
}

pub(super) fn revoke(records: &mut BTreeMap<String, KeyRecord>, id: &str) -> Result<(), KeyError> {
    records.get_mut(id).ok_or_else(|| KeyError::Unknown { id: id.to_owned() })?.revoke();
    Ok(())
}

pub(super) fn end_expired(
    records: &mut BTreeMap<String, KeyRecord>,
    at: SystemTime,
) -> Vec<KeyRecord> {
    let mut ended = Vec::new();
    for record in records.values_mut().filter(|record| record.has_expired(at)) {
        record.expire();
        ended.push(record.clone());
    }
    ended
}

pub(super) fn remove(records: &mut BTreeMap<String, KeyRecord>, id: &str) -> Result<(), KeyError> {
    records.remove(id).map(drop).ok_or_else(|| KeyError::Unknown { id: id.to_owned() })
}
