//! Keys in a file of their own, which only its owner may read.
//!
//! Applies to: inbound.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use mgp_types::service::BoxFuture;
use serde::{Deserialize, Serialize};

use super::MAX_KEYS;
use super::error::{KeyError, StoreError};
use super::record::KeyRecord;
use super::store::{KeyStore, add, remove, revoke};

/// No longer file is read: room for the keys of [`MAX_KEYS`] and more.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Keys in a JSON file (on Unix: mode 0600, anything wider is refused).
///
/// A file that is missing has no keys and is made with the first one.
/// It is replaced as a whole, so that no reader sees half of it; processes that change it take turns by a lock on a
/// file beside it.
#[derive(Clone, Debug)]
pub struct FileKeys {
    path: PathBuf,
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
        Self { path: path.into() }
    }

    fn change(
        &self,
        change: impl FnOnce(&mut BTreeMap<String, KeyRecord>) -> Result<(), KeyError> + Send + 'static,
    ) -> BoxFuture<'_, Result<(), KeyError>> {
        let path = self.path.clone();
        Box::pin(async move {
            off_the_runtime(move || {
                let _turn = lock(&path)?;
                let mut records = read(&path)?;
                change(&mut records)?;
                Ok(write(&path, records)?)
            })
            .await
        })
    }
}

impl KeyStore for FileKeys {
    fn load(&self) -> BoxFuture<'_, Result<Vec<KeyRecord>, StoreError>> {
        let path = self.path.clone();
        Box::pin(off_the_runtime(move || Ok(read(&path)?.into_values().collect())))
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
        fs::metadata(&self.path).map_or(0, |metadata| {
            let mut hasher = DefaultHasher::new();
            (metadata.len(), metadata.modified().ok()).hash(&mut hasher);
            identity(&metadata).hash(&mut hasher);
            hasher.finish()
        })
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

fn read(path: &Path) -> Result<BTreeMap<String, KeyRecord>, StoreError> {
    let io = |source| StoreError::Io { path: path.to_owned(), source };
    let unreadable = |why: String| StoreError::Unreadable { path: path.to_owned(), why };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(io(error)),
    };
    // Of what was opened, not of what the path may name by now.
    let metadata = file.metadata().map_err(io)?;
    if !metadata.is_file() {
        return Err(unreadable("it is not a plain file".to_owned()));
    }
    if let Some(mode) = open_to_others(&metadata) {
        return Err(StoreError::OpenToOthers { path: path.to_owned(), mode });
    }
    let mut text = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut text).map_err(io)?;
    if text.len() as u64 > MAX_FILE {
        return Err(unreadable(format!("it is longer than {MAX_FILE} bytes")));
    }
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

fn write(path: &Path, records: BTreeMap<String, KeyRecord>) -> Result<(), StoreError> {
    let contents = Contents { version: VERSION, keys: records.into_values().collect() };
    let text =
        serde_json::to_vec_pretty(&contents).map_err(|error| StoreError::Other(Box::new(error)))?;
    replace(path, &text).map_err(|source| StoreError::Io { path: path.to_owned(), source })
}

/// Writes beside the file, then takes its place.
pub(super) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let fresh = beside(path, ".new");
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // What is left was left by a process that died.
        _ => {}
    }
    let mut file = private().create_new(true).open(&fresh)?;
    file.write_all(text)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    // The new name must survive a crash as well; where folders cannot be synced, the system sees to it.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
        let _ = folder.sync_all();
    }
    Ok(())
}

/// Waits for this process' turn to change the file; the lock ends with the handle.
fn lock(path: &Path) -> Result<File, StoreError> {
    let path = beside(path, ".lock");
    let io = |source| StoreError::Io { path: path.clone(), source };
    let file = private().create(true).truncate(false).open(&path).map_err(io)?;
    file.lock().map_err(io)?;
    Ok(file)
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

#[cfg(unix)]
fn private() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

#[cfg(not(unix))]
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    options
}

#[cfg(unix)]
fn open_to_others(metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = metadata.permissions().mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}

/// Rights are lists there, which the folder's owner sets.
#[cfg(not(unix))]
fn open_to_others(_: &Metadata) -> Option<u32> {
    None
}

/// What changes when a file is replaced, written or opened to others.
#[cfg(unix)]
fn identity(metadata: &Metadata) -> impl Hash {
    use std::os::unix::fs::MetadataExt;
    (metadata.ino(), metadata.ctime(), metadata.ctime_nsec(), metadata.mode())
}

#[cfg(not(unix))]
fn identity(metadata: &Metadata) -> impl Hash {
    metadata.created().ok()
}
