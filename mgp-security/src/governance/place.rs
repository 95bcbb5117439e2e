//! The place of a folder's audit log, as it was last configured (MGP §6).
//!
//! Each place has a separate chain of records, so a log that was moved is not mistaken for one that was tampered with.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgp_types::store::{Change, Store, StoreError};
use mgp_types::{Payload, to_hex};
use serde::{Deserialize, Serialize};

use super::folder::LOG;
use crate::audit::{AuditLog, LogConfig};

/// The space of the store in which the place is saved.
const SPACE: &str = "audit_place";

/// A directory, and the name of the log in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LogPlace {
    pub(super) dir: PathBuf,
    pub(super) name: String,
}

impl LogPlace {
    fn within(folder: &Path) -> Self {
        Self { dir: folder.join(LOG), name: LOG.to_owned() }
    }

    /// Returns the place that a configuration specifies; a relative directory is resolved against the folder.
    pub(super) fn of(folder: &Path, config: &LogConfig) -> Self {
        let (dir, mut name) = (folder.join(&config.dir), config.name.clone());
        if name == LOG && dir != folder.join(LOG) {
            let digest = to_hex(blake3::hash(dir.as_os_str().as_encoded_bytes()).as_bytes());
            name = format!("{LOG}-{}", &digest[..16]);
        }
        Self { dir, name }
    }

    /// Returns the stored place, or the default one if none is stored.
    pub(super) async fn kept(store: &dyn Store, folder: &Path) -> Result<Self, StoreError> {
        let loaded = store.load(SPACE).await?;
        let record = loaded.records.into_iter().find(|record| record.key == LOG);
        match record.and_then(|record| record.value) {
            None => Ok(Self::within(folder)),
            Some(value) => serde_json::from_str(value.as_str()).map_err(StoreError::failed),
        }
    }

    pub(super) async fn keep(&self, store: &dyn Store) -> Result<(), StoreError> {
        let text = serde_json::to_string(self).map_err(StoreError::failed)?;
        let change = Change::new().put(SPACE, LOG, Payload::from_trusted(text));
        store.commit(change).await.map(drop)
    }

    /// Writes the events that still wait in the store for this log, before another log replaces it.
    pub(super) async fn finish(&self, store: &Arc<dyn Store>) -> Result<(), StoreError> {
        if store.pending_events(&self.name, 1).await?.is_empty() {
            return Ok(());
        }
        let config = LogConfig::new(&self.dir).name(&*self.name);
        let closed = match AuditLog::open(config, Some(Arc::clone(store))).await {
            Ok(log) => log.close().await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = closed {
            let dir = self.dir.display();
            tracing::warn!(%error, "events wait on for the audit log in `{dir}`, which cannot be used");
        }
        Ok(())
    }
}
