//! The table of the references that are served until they expire.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use super::reader::ReferenceError;
use crate::http::GuardedFetch;

/// The content of a reference.
#[derive(Clone)]
#[non_exhaustive]
pub enum ReferenceData {
    /// Bytes that are kept in memory.
    Bytes(Bytes),
    /// A file, which must not change as long as it is served.
    File(PathBuf),
    /// The data of another server's reference, forwarded while a client reads it.
    Remote(RemoteReference),
}

/// A data reference of another server, whose data this server passes on.
#[derive(Clone, Debug)]
pub struct RemoteReference {
    /// The URL of the other server's reference.
    pub url: String,
    /// The downloader that decides which addresses can be reached.
    pub fetch: Arc<GuardedFetch>,
}

/// Omits the bytes and the URL, because the URL alone is enough to read the data.
impl fmt::Debug for ReferenceData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Remote(_) => f.write_str("a remote reference"),
        }
    }
}

/// A reference that is served.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) data: ReferenceData,
    pub(super) mime_type: String,
    pub(super) size: Option<u64>,
    /// `None` if the reference never expires.
    expires_at: Option<Instant>,
}

/// The references that are served, by their ids.
#[derive(Debug, Default)]
pub(super) struct ReferenceTable(HashMap<String, Entry>);

impl Entry {
    pub(super) fn new(
        data: ReferenceData,
        mime_type: String,
        size: Option<u64>,
        ttl: Duration,
    ) -> Self {
        let size = match &data {
            ReferenceData::Bytes(bytes) => Some(bytes.len() as u64),
            _ => size,
        };
        Self { data, mime_type, size, expires_at: Instant::now().checked_add(ttl) }
    }

    fn has_expired(&self) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= Instant::now())
    }

    fn bytes_in_memory(&self) -> usize {
        match &self.data {
            ReferenceData::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }
}

impl ReferenceTable {
    /// Adds an entry; fails if a limit would be exceeded.
    pub(super) fn insert(
        &mut self,
        id: String,
        entry: Entry,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<(), ReferenceError> {
        self.0.retain(|_, entry| !entry.has_expired());
        let bytes: usize = self.0.values().map(Entry::bytes_in_memory).sum();
        if self.0.len() >= max_entries || bytes + entry.bytes_in_memory() > max_bytes {
            return Err(ReferenceError::Full);
        }
        self.0.insert(id, entry);
        Ok(())
    }

    pub(super) fn get(&self, id: &str) -> Option<Entry> {
        self.0.get(id).filter(|entry| !entry.has_expired()).cloned()
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.0.remove(id);
    }
}
