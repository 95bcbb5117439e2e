//! The place (directory and name) of a folder's audit log, as it was last configured (MGP §6).
//!
//! Each place has a separate chain of records, so a log that was moved is not mistaken for a log that was tampered
//! with.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgp_types::store::{Change, Store, StoreError};
use mgp_types::{Payload, to_hex};
use serde::{Deserialize, Serialize};

use super::folder::LOG;
use crate::audit::{AuditLog, Fsync, LogConfig, LogError, LogHead};

/// The space of the store in which the place is saved.
const SPACE: &str = "audit_place";

/// The directory of a log, its name there, and its durability, as they are stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogPlace {
    /// The directory. A relative path is resolved against the state folder, so that a copied or moved folder has its
    /// own log.
    dir: PathBuf,
    pub(super) name: String,
    /// `true` if the log and the state are synced with each change; `None` for a place that was stored with an absolute
    /// directory, even if the directory is below the state folder.
    synced: Option<bool>,
}

impl LogPlace {
    fn within() -> Self {
        Self { dir: PathBuf::from(LOG), name: LOG.to_owned(), synced: Some(false) }
    }

    /// Returns the place that a configuration specifies. If the configuration sets no name, and the log was in this
    /// directory before, the log keeps its name.
    pub(super) fn of(folder: &Path, config: &LogConfig, before: &Self) -> Self {
        let dir = folder.join(&config.dir);
        let stored = dir.strip_prefix(folder).unwrap_or(&dir).to_owned();
        let name = if config.name != LOG || stored == Path::new(LOG) {
            config.name.clone()
        } else if before.dir_in(folder) == dir {
            before.name.clone()
        } else {
            let digest = to_hex(blake3::hash(stored.as_os_str().as_encoded_bytes()).as_bytes());
            format!("{LOG}-{}", &digest[..16])
        };
        Self { dir: stored, name, synced: Some(config.fsync == Fsync::Always) }
    }

    /// Returns the directory of the log of a state folder.
    pub(super) fn dir_in(&self, folder: &Path) -> PathBuf {
        folder.join(&self.dir)
    }

    /// Returns whether the log and the state are synced with each change.
    pub(super) fn is_synced(&self) -> bool {
        self.synced == Some(true)
    }

    /// Returns whether this place and another place denote the same log of a state folder.
    pub(super) fn is_same_log(&self, other: &Self, folder: &Path) -> bool {
        self.name == other.name && self.dir_in(folder) == other.dir_in(folder)
    }

    /// Returns the place that the store contains, or the default place if the store contains none.
    pub(super) async fn kept(store: &dyn Store, folder: &Path) -> Result<Self, StoreError> {
        let loaded = store.load(SPACE).await?;
        let record = loaded.records.into_iter().find(|record| record.key == LOG);
        match record.and_then(|record| record.value) {
            None => Ok(Self::within()),
            Some(value) => {
                let place: Self =
                    serde_json::from_str(value.as_str()).map_err(StoreError::failed)?;
                Ok(place.found_below(folder))
            }
        }
    }

    /// Returns the place with a relative directory if it was stored with an absolute directory, and the folder has a
    /// log of this name at an end of the stored path. The name is a hash of the log's directory, so that log was copied
    /// or moved with the folder.
    fn found_below(mut self, folder: &Path) -> Self {
        if self.synced.is_some() {
            return self;
        }
        let (stored, lock) = (self.dir.clone(), format!("{}.lock", self.name));
        let mut rest = stored.components();
        while rest.next().is_some() {
            let end = rest.as_path();
            let is_below = !end.has_root() && !end.as_os_str().is_empty();
            if is_below && folder.join(end).join(&lock).exists() {
                end.clone_into(&mut self.dir);
                break;
            }
        }
        self
    }

    /// Finds a log in a directory that belongs to the folder, i.e. whose head is in the folder's store.
    pub(super) async fn in_dir(
        store: &dyn Store,
        folder: &Path,
        dir: &Path,
    ) -> Result<Option<Self>, LogError> {
        let path = folder.join(dir);
        let unreadable = |source| LogError::Io { path: path.clone(), verb: "read", source };
        let entries = fs::read_dir(&path).map_err(unreadable)?;
        let files = entries.filter_map(|entry| Some(PathBuf::from(entry.ok()?.file_name())));
        let locks = files.filter(|file| file.extension() == Some(OsStr::new("lock")));
        let names = locks.filter_map(|lock| Some(lock.file_stem()?.to_str()?.to_owned()));
        let mut names: Vec<String> = names.collect();
        names.sort();
        for name in names {
            if LogHead::in_store(store, &name).await?.is_some() {
                return Ok(Some(Self { dir: dir.to_owned(), name, synced: None }));
            }
        }
        Ok(None)
    }

    pub(super) async fn keep(&self, store: &dyn Store) -> Result<(), StoreError> {
        let text = serde_json::to_string(self).map_err(StoreError::failed)?;
        let change = Change::new().put(SPACE, LOG, Payload::from_trusted(text));
        store.commit(change).await.map(drop)
    }

    /// Writes the events that still wait in the store for this log, before another log replaces it.
    pub(super) async fn finish(
        &self,
        store: &Arc<dyn Store>,
        folder: &Path,
    ) -> Result<(), StoreError> {
        if store.pending_events(&self.name, 1).await?.is_empty() {
            return Ok(());
        }
        let config = LogConfig::new(self.dir_in(folder)).name(&*self.name);
        let closed = match AuditLog::open(config, Some(Arc::clone(store))).await {
            Ok(log) => log.close().await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = closed {
            let dir = self.dir_in(folder);
            let dir = dir.display();
            tracing::warn!(%error, "events still wait to be written to the audit log in `{dir}`, which cannot be used");
        }
        Ok(())
    }
}
