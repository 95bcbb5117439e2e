//! Keys in a file of their own, which only its owner may read.
//!
//! Applies to: inbound.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use mgp_types::service::BoxFuture;
use mgp_types::{PrivateFile, Turn};
use serde::{Deserialize, Serialize};

use super::MAX_KEYS;
use super::error::{KeyError, StoreError};
use super::record::KeyRecord;
use super::store::{KeyStore, add, remove, revoke};

/// No longer file is read: room for the keys of [`MAX_KEYS`] and more.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// How long another process may hold the file that this one wants to change.
const PATIENCE: Duration = Duration::from_secs(5);

/// Keys in a JSON file (on Unix: mode 0600, anything wider is refused).
///
/// A file that is missing has no keys and is made with the first one.
/// It is replaced as a whole, so that no reader sees half of it; processes that change it take turns by a lock on a
/// file beside it, and wait five seconds for one that hangs.
#[derive(Clone, Debug)]
pub struct FileKeys {
    file: PrivateFile,
}

/// The file as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    keys: Vec<KeyRecord>,
}

const VERSION: u32 = 1;

impl FileKeys {
    /// The keys in a file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { file: PrivateFile::new(path, MAX_FILE) }
    }

    fn change(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, KeyRecord>) -> Result<(), KeyError> + Send + 'static,
    ) -> BoxFuture<'_, Result<(), KeyError>> {
        let file = self.file.clone();
        Box::pin(async move {
            off_the_runtime(move || {
                let turn = file.turn(PATIENCE).map_err(StoreError::from)?;
                let mut records = read(&file)?;
                change(&mut records)?;
                Ok(write(&file, &turn, records)?)
            })
            .await
        })
    }
}

impl KeyStore for FileKeys {
    fn load(&self) -> BoxFuture<'_, Result<Vec<KeyRecord>, StoreError>> {
        let file = self.file.clone();
        Box::pin(off_the_runtime(move || Ok(read(&file)?.into_values().collect())))
    }

    fn add(&self, record: KeyRecord) -> BoxFuture<'_, Result<(), KeyError>> {
        self.change(|records| add(records, record))
    }

    fn revoke<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), KeyError>> {
        let id = id.to_owned();
        self.change(move |records| revoke(records, &id))
    }

    fn remove<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<(), KeyError>> {
        let id = id.to_owned();
        self.change(move |records| remove(records, &id))
    }

    fn stamp(&self) -> u64 {
        self.file.stamp()
    }
}

/// Files are read and written where they may block.
async fn off_the_runtime<T: Send + 'static, E: From<StoreError> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(StoreError::Other(Box::new(error)).into()),
    }
}

fn read(file: &PrivateFile) -> Result<BTreeMap<String, KeyRecord>, StoreError> {
    let unreadable = |why: String| StoreError::Unreadable { path: file.path().to_owned(), why };
    let Some(text) = file.read()? else { return Ok(BTreeMap::new()) };
    let contents: Contents =
        serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
    if contents.version != VERSION {
        return Err(unreadable(format!("its version is {}, not {VERSION}", contents.version)));
    }
    if contents.keys.len() > MAX_KEYS {
        return Err(unreadable(format!("it has more than {MAX_KEYS} keys")));
    }
    let mut records = BTreeMap::new();
    for record in contents.keys {
        if let Some(twice) = records.insert(record.id().to_owned(), record) {
            return Err(unreadable(format!("the id `{}` stands there twice", twice.id())));
        }
    }
    Ok(records)
}

fn write(
    file: &PrivateFile,
    turn: &Turn,
    records: BTreeMap<String, KeyRecord>,
) -> Result<(), StoreError> {
    let contents = Contents { version: VERSION, keys: records.into_values().collect() };
    let text =
        serde_json::to_vec_pretty(&contents).map_err(|error| StoreError::Other(Box::new(error)))?;
    Ok(file.replace(turn, &text)?)
}
