//! A key store in a private file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{fs, io};

use async_trait::async_trait;
use mgp_types::{FileLock, PrivateFile};
use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;

use super::MAX_KEYS;
use super::error::{KeyError, KeyStoreError};
use super::record::KeyRecord;
use super::store::{KeyStore, add, remove, revoke};

/// The size limit for the file in bytes. A file with [`MAX_KEYS`] keys is smaller.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// The time limit for waiting while another process changes the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Keys in a JSON file (on Unix with mode 0600; any wider mode is refused).
///
/// A missing file counts as empty, and is created with the first key. The file is replaced as a whole, so no reader
/// sees an incomplete one. Processes that change it lock a second file in the same folder, and wait up to five seconds
/// for the lock. The last uses are recorded in a folder that has the path of the file, with the extension `used`: for
/// each used key, the folder has an empty file, whose modification time is the time of the last use. Each change of the
/// keys deletes the empty files of keys that were removed or revoked.
#[derive(Clone, Debug)]
pub struct FileKeys {
    file: PrivateFile,
}

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
        Self { file: PrivateFile::new(path, MAX_FILE) }
    }

    /// Returns the folder of the empty files that record the last uses of keys.
    fn use_markers(&self) -> PathBuf {
        self.file.path().with_extension("used")
    }

    async fn change(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, KeyRecord>) -> Result<(), KeyError> + Send + 'static,
    ) -> Result<(), KeyError> {
        let (file, markers) = (self.file.clone(), self.use_markers());
        blocking(move || {
            let turn = file.lock(LOCK_TIMEOUT).map_err(KeyStoreError::from)?;
            let mut records = read(&file)?;
            change(&mut records)?;
            let live = records.values().filter(|record| record.revoked().is_none());
            let live: BTreeSet<_> = live.map(|record| record.id().to_owned()).collect();
            write(&file, &turn, records)?;
            remove_others(&markers, &live);
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl KeyStore for FileKeys {
    async fn load(&self) -> Result<Vec<KeyRecord>, KeyStoreError> {
        let file = self.file.clone();
        blocking(move || Ok(read(&file)?.into_values().collect())).await
    }

    async fn add(&self, record: KeyRecord) -> Result<(), KeyError> {
        self.change(|records| add(records, record)).await
    }

    async fn revoke(&self, id: &str) -> Result<(), KeyError> {
        let id = id.to_owned();
        self.change(move |records| revoke(records, &id)).await
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
