//! A key store in a private file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use async_trait::async_trait;
use mgp_types::store::{Change, Store, StoreError, with_timeout};
use mgp_types::{FileLock, Payload, PrivateFile};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::MAX_KEYS;
use super::error::{KeyError, KeyStoreError};
use super::record::KeyRecord;
use super::store::{KeyStore, add, end_expired, remove, revoke};

/// The size limit for the file in bytes. A file with [`MAX_KEYS`] keys is smaller.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// The time limit for waiting while another process changes the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The space of a store with the ids of revoked keys.
const REVOKED: &str = "revoked_keys";

/// The number of ids in the store beyond which the oldest ids of keys that are no longer in the file are removed. It
/// leaves room for all keys of the file, and for as many others.
const MAX_REVOKED: usize = 2 * MAX_KEYS;

/// Keys in a JSON file (on Unix with mode 0600; any wider mode is refused).
///
/// A missing file counts as empty, and is created with the first key. The file is replaced as a whole, so no reader
/// sees an incomplete one. Processes that change it lock a second file in the same folder, and wait up to five seconds
/// for the lock. The last uses are recorded in a folder that has the path of the file, with the extension `used`: for
/// each used key, the folder has an empty file, whose modification time is the time of the last use. Each change of the
/// keys deletes the empty files of keys that were removed or revoked.
#[derive(Clone)]
pub struct FileKeys {
    file: PrivateFile,
    /// The store that also has the ids of revoked keys.
    revoked: Option<Arc<dyn Store>>,
}

mgp_types::opaque_debug!(FileKeys { file });

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    version: u32,
    keys: Vec<KeyRecord>,
}

const VERSION: u32 = 1;

impl FileKeys {
    /// Creates a store that uses a file. Does not read the file yet.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { file: PrivateFile::new(path, MAX_FILE), revoked: None }
    }

    /// Keeps the ids of revoked keys also in a store, to which each read of the file adds them. If an older copy
    /// replaces the file, its keys that were revoked meanwhile are revoked again. If the store cannot be read, the file
    /// counts as unreadable too.
    ///
    /// Of keys that the file does not have any more, at least the [`MAX_KEYS`] newest ids are kept. A key is forgotten
    /// when it is added again, and a key that was removed without being revoked is not remembered.
    #[must_use]
    pub fn remember_revoked(mut self, store: Arc<dyn Store>) -> Self {
        self.revoked = Some(store);
        self
    }

    /// Returns the ids of the revoked keys in the store, each with the revision of the store that added it.
    async fn known_revoked(&self) -> Result<BTreeMap<String, u64>, KeyStoreError> {
        let Some(store) = &self.revoked else { return Ok(BTreeMap::new()) };
        let loaded = with_timeout(store.answer_timeout(), store.load(REVOKED)).await;
        let records = loaded.map_err(store_failed)?.records.into_iter();
        let known = records.filter(|record| record.value.is_some());
        Ok(known.map(|record| (record.key, record.revision)).collect())
    }

    /// Ends the keys again that the store knows as revoked, and adds the other revoked keys of the file to the store.
    /// Only logs errors, because the next read of the file tries again.
    async fn reconcile(
        &self,
        store: &dyn Store,
        known: &BTreeMap<String, u64>,
        records: &mut BTreeMap<String, KeyRecord>,
    ) {
        let (mut change, mut ended, now) = (Change::new(), Vec::new(), SystemTime::now());
        for (id, record) in &mut *records {
            let is_known = known.contains_key(id);
            if record.revoked().is_none() && is_known {
                tracing::error!(
                    key = id.as_str(),
                    "ended an API key again: an older copy of the key file had it as valid"
                );
                record.end(now);
                ended.push(id.clone());
            } else if record.revoked().is_some() && !is_known {
                change = change.put(REVOKED, id, Payload::empty_object());
            }
        }
        let gone = known.iter().filter(|(id, _)| !records.contains_key(*id));
        let mut gone: Vec<(u64, &String)> = gone.map(|(id, added)| (*added, id)).collect();
        gone.sort_unstable();
        for (_, id) in gone.into_iter().take(known.len().saturating_sub(MAX_REVOKED)) {
            change = change.remove(REVOKED, id);
        }
        if !ended.is_empty()
            && let Err(error) = self.correct(ended, now).await
        {
            tracing::error!(%error, "the key file was not corrected");
        }
        if !change.is_empty()
            && let Err(error) = with_timeout(store.answer_timeout(), store.commit(change)).await
        {
            tracing::warn!(%error, "revocations of API keys were not added to the state");
        }
    }

    /// Ends keys in the file. Does not wait for another process, because requests may wait for this method; a change by
    /// the other process causes another read.
    async fn correct(&self, ids: Vec<String>, now: SystemTime) -> Result<(), KeyError> {
        self.change_within(Duration::ZERO, move |records| {
            for id in &ids {
                if let Some(record) = records.get_mut(id) {
                    record.end(now);
                }
            }
            Ok(())
        })
        .await
    }

    /// Returns the folder of the empty files that record the last uses of keys.
    fn use_markers(&self) -> PathBuf {
        self.file.path().with_extension("used")
    }

    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, KeyRecord>) -> Result<T, KeyError> + Send + 'static,
    ) -> Result<T, KeyError> {
        self.change_within(LOCK_TIMEOUT, change).await
    }

    async fn change_within<T: Send + 'static>(
        &self,
        limit: Duration,
        change: impl FnOnce(&mut BTreeMap<String, KeyRecord>) -> Result<T, KeyError> + Send + 'static,
    ) -> Result<T, KeyError> {
        let (file, markers) = (self.file.clone(), self.use_markers());
        blocking(move || {
            let turn = file.lock(limit).map_err(KeyStoreError::from)?;
            let mut records = read(&file)?;
            let changed = change(&mut records)?;
            let kept = records.values().filter(|record| record.keeps_last_use());
            let kept: BTreeSet<_> = kept.map(|record| record.id().to_owned()).collect();
            write(&file, &turn, records)?;
            remove_others(&markers, &kept);
            Ok(changed)
        })
        .await
    }
}

#[async_trait]
impl KeyStore for FileKeys {
    async fn load(&self) -> Result<Vec<KeyRecord>, KeyStoreError> {
        // Read the store first, so that a key that is revoked meanwhile does not look like a key of an older copy.
        let known = self.known_revoked().await?;
        let file = self.file.clone();
        let mut records = blocking(move || read(&file)).await?;
        if let Some(store) = &self.revoked {
            self.reconcile(&**store, &known, &mut records).await;
        }
        Ok(records.into_values().collect())
    }

    async fn add(&self, record: KeyRecord) -> Result<(), KeyError> {
        if let Some(store) = &self.revoked
            && self.known_revoked().await?.contains_key(record.id())
        {
            // If the key cannot be added because the file still has it, the next read remembers its revocation again.
            let change = Change::new().remove(REVOKED, record.id());
            let forgotten = with_timeout(store.answer_timeout(), store.commit(change)).await;
            forgotten.map_err(store_failed)?;
        }
        self.change(|records| add(records, record)).await
    }

    async fn revoke(&self, id: &str) -> Result<(), KeyError> {
        let id = id.to_owned();
        self.change(move |records| revoke(records, &id)).await
    }

    async fn end_expired(&self, at: SystemTime) -> Result<Vec<KeyRecord>, KeyError> {
        self.change(move |records| Ok(end_expired(records, at))).await
    }

    async fn remove(&self, id: &str) -> Result<(), KeyError> {
        let id = id.to_owned();
        self.change(move |records| remove(records, &id)).await
    }

    fn stamp(&self) -> u64 {
        self.file.version()
    }

    fn record_use(&self, id: &str) {
        let marker = self.use_markers().join(id);
        let Ok(runtime) = Handle::try_current() else { return };
        runtime.spawn_blocking(move || {
            if let Err(error) = touch(&marker) {
                tracing::debug!(path = %marker.display(), %error, "use of an API key not recorded");
            }
        });
    }

    fn last_use(&self, id: &str) -> Option<SystemTime> {
        fs::metadata(self.use_markers().join(id)).ok()?.modified().ok()
    }
}

/// Sets the modification time of a file to now; creates the file and its folder if necessary.
fn touch(file: &Path) -> io::Result<()> {
    let created = match (fs::File::create(file), file.parent()) {
        (Err(error), Some(folder)) if error.kind() == io::ErrorKind::NotFound => {
            let mut builder = fs::DirBuilder::new();
            // Create only this folder: its parent might have been removed on purpose.
            builder.recursive(false);
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            // Ignore the error: another thread or process might have created the folder just now.
            let _ = builder.create(folder);
            fs::File::create(file)
        }
        (created, _) => created,
    };
    created?.set_modified(SystemTime::now())
}

/// Removes the files of a folder whose names are not in `names`. Ignores failures, because the next change of the keys
/// tries again.
fn remove_others(folder: &Path, names: &BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().to_str().is_some_and(|name| names.contains(name)) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn store_failed(error: StoreError) -> KeyStoreError {
    KeyStoreError::Other(Box::new(error))
}

/// Runs file operations on a thread that is allowed to block.
async fn blocking<T: Send + 'static, E: From<KeyStoreError> + Send + 'static>(
    work: impl FnOnce() -> Result<T, E> + Send + 'static,
) -> Result<T, E> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(KeyStoreError::Other(Box::new(error)).into()),
    }
}

fn read(file: &PrivateFile) -> Result<BTreeMap<String, KeyRecord>, KeyStoreError> {
    let unreadable = |why: String| KeyStoreError::Unreadable { path: file.path().to_owned(), why };
    let Some(text) = file.read()? else { return Ok(BTreeMap::new()) };
    let contents: Contents =
        serde_json::from_slice(&text).map_err(|error| unreadable(error.to_string()))?;
    if contents.version != VERSION {
        let version = contents.version;
        let why = format!("its version is {version}, not {VERSION}; update this program");
        return Err(unreadable(why));
    }
    if contents.keys.len() > MAX_KEYS {
        return Err(unreadable(format!("it has more than {MAX_KEYS} keys")));
    }
    let mut records = BTreeMap::new();
    for record in contents.keys {
        if let Some(twice) = records.insert(record.id().to_owned(), record) {
            return Err(unreadable(format!("the id `{}` occurs twice", twice.id())));
        }
    }
    Ok(records)
}

fn write(
    file: &PrivateFile,
    turn: &FileLock,
    records: BTreeMap<String, KeyRecord>,
) -> Result<(), KeyStoreError> {
    let contents = Contents { version: VERSION, keys: records.into_values().collect() };
    let text = serde_json::to_vec_pretty(&contents)
        .map_err(|error| KeyStoreError::Other(Box::new(error)))?;
    Ok(file.replace(turn, &text)?)
}
