//! Governance that survives a restart of the process: its state and its audit log are in one private folder (MGP
//! §3–§6).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mgp_types::store::{Db, DbConfig, Durability, Store, StoreError};

use super::place::LogPlace;
use super::{Governance, GovernanceBuilder};
use crate::audit::{
    AuditLog, BadRecord, DigestKey, Fsync, LogConfig, LogError, LogFiles, LogHead, RecordFlaw,
    private_folder, refuse_others, verify_with_store,
};

/// The name of the database with access entries, permissions, pins, and the head of the audit log.
const STATE: &str = "state.db";

/// The name of the directory of the audit log.
pub(super) const LOG: &str = "audit";

/// The name of the file with the key for digests of arguments. The file is outside the log's directory, so that the log
/// can be given to others without the key.
const KEY: &str = "digest.key";

/// An error that occurs when a state folder is opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FolderError {
    /// Other users than the owner have access to the folder.
    #[error(
        "`{path}` is open to others (mode {mode:o}), who could change its access rules: `chmod 700` it"
    )]
    Exposed {
        /// The path of the state folder.
        path: PathBuf,
        /// The permission bits that the folder has.
        mode: u32,
    },
    /// The state folder cannot be created or read.
    #[error("the folder cannot be used: {0}")]
    Unusable(#[source] LogError),
    /// The database with the state cannot be opened or read.
    #[error("the state in `{path}` cannot be used: {source}")]
    State {
        /// The path of the database in the state folder.
        path: PathBuf,
        /// The error that the store reported.
        source: StoreError,
    },
    /// The database has no entry of the audit log in the folder, so the database lost its content, or belongs to
    /// another folder.
    #[error(
        "`{path}` has no entry of the audit log in `{dir}`: it was lost or replaced, and with it access entries, permissions and approved definitions; without a running kernel, remove it, `…-wal` and `…-shm`, and restore it from a back-up together with its `…-wal`, or start with an empty one: move its folder away, and name another `dir` below `[kernel.audit]` if that has one"
    )]
    StateLost {
        /// The path of the database in the state folder.
        path: PathBuf,
        /// The directory of the audit log.
        dir: PathBuf,
    },
    /// The folder has an audit log or the key of one, but no database. The value is the path of the database.
    #[error(
        "`{0}` is missing, and with it access entries, permissions and approved definitions; without a running kernel, remove `…-wal` and `…-shm`, and restore it from a back-up together with its `…-wal`, or start with an empty one: move its folder away, and name another `dir` below `[kernel.audit]` if that has one"
    )]
    StateMissing(PathBuf),
    /// The audit log cannot be opened, or its records were tampered with.
    #[error("the audit log cannot be used: {0}")]
    Log(#[from] LogError),
    /// The folder has no state. The value is the path at which the database with the state was expected.
    #[error("`{0}` does not exist: name the folder that was passed to `in_folder`")]
    Empty(PathBuf),
    /// The named directory has no log of the folder. The value is its path.
    #[error("`{0}` has no audit log of this folder; name a directory in which the folder had one")]
    NoLog(PathBuf),
    /// The builder has a sink or log of audit events, which the log of the folder would replace.
    #[error("a folder has its own audit log; leave out `audit` and `log`, and forward the events")]
    OtherSink,
}

/// A function that changes the default configuration of the log.
pub(super) type Logging = Box<dyn FnOnce(LogConfig) -> LogConfig + Send>;

impl GovernanceBuilder {
    /// Changes the configuration of the audit log of [`in_folder`](Self::in_folder), e.g. its directory, retention or
    /// durability.
    ///
    /// A relative directory is resolved against the folder. If the directory changes, a new log is started there. With
    /// [`Fsync::Always`], the changes of the state are synced too. The folder remembers the directory and whether each
    /// record is synced, so processes that open the folder without `logging` do the same.
    pub fn logging(mut self, change: impl FnOnce(LogConfig) -> LogConfig + Send + 'static) -> Self {
        self.logging = Some(Box::new(change));
        self
    }

    /// Builds and opens the governance, with all persistent data in a folder: `state.db`, the audit log in `audit/`,
    /// and `digest.key`. The database replaces [`store`](Self::store).
    ///
    /// A missing folder is created. Only its owner may have access to it (on Unix: mode 0700), and only one process at
    /// a time can use it. To let several processes share their state, use a [`Db`], with an [`AuditLog`] of a different
    /// name in each process.
    ///
    /// # Errors
    /// [`FolderError`] if the folder, its state or its log cannot be used, or if the builder has another sink or log.
    ///
    /// # Cancel safety
    /// If the future is dropped, the folder may stay locked for a short time.
    pub async fn in_folder(self, folder: impl AsRef<Path>) -> Result<Governance, FolderError> {
        Ok(self.in_folder_beside(folder, |_| std::future::ready(())).await?.0)
    }

    /// Builds and opens the governance as [`in_folder`](Self::in_folder) does. At the same time, runs `beside` with the
    /// folder's database, so that a program with its own data in this database starts sooner. Returns the governance
    /// and the output of `beside`.
    ///
    /// # Errors
    /// [`FolderError`] if the folder, its state or its log cannot be used; the output of `beside` is then lost.
    ///
    /// # Cancel safety
    /// The same as for [`in_folder`](Self::in_folder); the future of `beside` is dropped too.
    pub async fn in_folder_beside<F: Future>(
        mut self,
        folder: impl AsRef<Path>,
        beside: impl FnOnce(Db) -> F,
    ) -> Result<(Governance, F::Output), FolderError> {
        self.audit.is_none().then_some(()).ok_or(FolderError::OtherSink)?;
        let folder = &absolute(folder.as_ref());
        private_folder(folder).map_err(FolderError::of_folder)?;
        let path = folder.join(STATE);
        if is_missing(&path) && folder.join(KEY).exists() {
            return Err(FolderError::StateMissing(path));
        }
        let config = self.logging.take().map(|change| change(default_config(folder)));
        let opened = open_state(folder, &path, config.as_ref()).await;
        let db = opened.map_err(FolderError::state(&path))?;
        let governed = self.on_store(folder, &path, config, Arc::new(db.clone()));
        let beside = beside(db);
        tokio::try_join!(governed, async { Ok(beside.await) })
    }

    async fn on_store(
        self,
        folder: &Path,
        path: &Path,
        config: Option<LogConfig>,
        store: Arc<dyn Store>,
    ) -> Result<Governance, FolderError> {
        let before = LogPlace::kept(&*store, folder).await.map_err(FolderError::state(path))?;
        let (mut config, place) = match config {
            Some(config) => {
                let place = LogPlace::of(folder, &config, &before);
                (config, place)
            }
            // If the program does not configure the log, keep the log in the stored place.
            None if before.is_synced() => {
                (default_config(folder).fsync(Fsync::Always), before.clone())
            }
            None => (default_config(folder), before.clone()),
        };
        if !place.is_same_log(&before, folder) {
            before.finish(&store, folder).await.map_err(FolderError::state(path))?;
        }
        (config.dir, config.name) = (place.dir_in(folder), place.name.clone());
        let opened = AuditLog::open(config, Some(Arc::clone(&store))).await;
        let log = opened.map_err(FolderError::log(path, place.dir_in(folder)))?;
        if place != before {
            place.keep(&*store).await.map_err(FolderError::state(path))?;
        }
        let governance = self.store(store).log(log).build();
        governance.open().await.map_err(FolderError::state(path))?;
        Ok(governance)
    }
}

impl Governance {
    /// Opens a governance with default settings in a folder; see [`GovernanceBuilder::in_folder`].
    ///
    /// ```
    /// use mgp_security::Governance;
    /// use mgp_types::mgp::AccessGrantParams;
    /// use mgp_types::service::Principal;
    ///
    /// # let folder = std::env::temp_dir().join(format!("mgp-governance-{}", std::process::id()));
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let governance = Governance::in_folder(&folder).await.unwrap();
    /// let ann = Principal::new("local", "ann").operator();
    /// governance.access().grant(&ann, AccessGrantParams::allow("ada", "disk")).await.unwrap();
    /// drop(governance);
    ///
    /// let records = Governance::verify(&folder).await.unwrap();
    /// assert!(records >= 1, "the grant is on the record");
    /// # });
    /// # std::fs::remove_dir_all(&folder).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`FolderError`] if the folder, its state or its log cannot be used.
    ///
    /// # Cancel safety
    /// The same as for [`GovernanceBuilder::in_folder`].
    pub async fn in_folder(folder: impl AsRef<Path>) -> Result<Self, FolderError> {
        Self::builder().in_folder(folder).await
    }

    /// Verifies the audit log of a folder against the head in the folder's state, and returns the number of records;
    /// see [`verify`](crate::verify). Also checks that the state has the changes that the events of the log record.
    ///
    /// # Errors
    /// [`FolderError::Log`] with the first record that was changed, or with the number of changes that the state lost;
    /// other errors mean that the folder cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn verify(folder: impl AsRef<Path>) -> Result<u64, FolderError> {
        verify_at_rest(folder.as_ref(), None).await
    }

    /// Verifies another log of a folder as [`verify`](Self::verify) does: the log in the directory `dir`, e.g. an
    /// earlier log that was changed. A relative directory is resolved against the folder.
    ///
    /// # Errors
    /// [`FolderError::NoLog`] if the directory has no log of the folder; otherwise as [`verify`](Self::verify).
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn verify_in(
        folder: impl AsRef<Path>,
        dir: impl AsRef<Path>,
    ) -> Result<u64, FolderError> {
        verify_at_rest(folder.as_ref(), Some(dir.as_ref())).await
    }

    /// Returns the files of a folder's audit log, which can be read while another process writes it.
    ///
    /// # Errors
    /// [`FolderError::Empty`] if the folder has no state; other errors mean that the state cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn log_files(folder: impl AsRef<Path>) -> Result<LogFiles, FolderError> {
        at_rest(folder.as_ref(), None).await?.into_files().await
    }

    /// Returns the files of another log of a folder: the log in the directory `dir`, e.g. an earlier log that was
    /// changed. A relative directory is resolved against the folder.
    ///
    /// # Errors
    /// [`FolderError::NoLog`] if the directory has no log of the folder; otherwise as [`log_files`](Self::log_files).
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn log_files_in(
        folder: impl AsRef<Path>,
        dir: impl AsRef<Path>,
    ) -> Result<LogFiles, FolderError> {
        at_rest(folder.as_ref(), Some(dir.as_ref())).await?.into_files().await
    }
}

/// A log that this process has not opened.
struct LogAtRest {
    dir: PathBuf,
    name: String,
    head: Option<LogHead>,
    db: Db,
}

impl LogAtRest {
    async fn into_files(self) -> Result<LogFiles, FolderError> {
        self.db.close().await;
        Ok(LogFiles::new(&self.dir, &self.name, self.head.as_ref())?)
    }

    async fn verify(self, folder: &Path, is_current: bool) -> Result<u64, FolderError> {
        let Self { dir, name, head, db } = self;
        let head = head.ok_or_else(BadRecord::no_head).map_err(LogError::from);
        // If the content of the database was lost, it does not name the directory of the log. The key file then shows
        // that the folder had a log, because the first log of a folder creates this file.
        let is_new = !folder.join(KEY).exists()
            && fs::read_dir(&dir).map_or(true, |mut entries| entries.next().is_none());
        let head = match head {
            Err(error) if !is_new => return Err(FolderError::log(&folder.join(STATE), dir)(error)),
            head => head?,
        };
        if is_current {
            refuse_others(&dir, &name)?;
            DigestKey::check(&folder.join(KEY)).map_err(LogError::from)?;
        }
        Ok(verify_with_store(dir, name, head, &db).await?)
    }
}

async fn verify_at_rest(folder: &Path, dir: Option<&Path>) -> Result<u64, FolderError> {
    let is_current = dir.is_none();
    let log = at_rest(folder, dir).await?;
    let db = log.db.clone();
    let verified = log.verify(folder, is_current).await;
    // The caller may move or replace the database now, so do not leave it open.
    db.close().await;
    verified
}

/// Returns whether a file certainly does not exist. Returns `false` if this user may not look into the folder: opening
/// the file then fails with that reason.
fn is_missing(path: &Path) -> bool {
    matches!(path.try_exists(), Ok(false))
}

/// Reads the head of a folder's current log, or of its log in the directory `dir`. The folder must exist.
async fn at_rest(folder: &Path, dir: Option<&Path>) -> Result<LogAtRest, FolderError> {
    let folder = &absolute(folder);
    let path = folder.join(STATE);
    if is_missing(&path) {
        let has_state = [KEY, LOG].iter().any(|name| folder.join(name).exists());
        return Err(if has_state {
            FolderError::StateMissing(path)
        } else {
            FolderError::Empty(path)
        });
    }
    let db = Db::open(&path).await.map_err(FolderError::state(&path))?;
    let place = match dir {
        Some(dir) => {
            let found = LogPlace::in_dir(&db, folder, dir).await?;
            found.ok_or_else(|| FolderError::NoLog(folder.join(dir)))?
        }
        None => LogPlace::kept(&db, folder).await.map_err(FolderError::state(&path))?,
    };
    let head = LogHead::in_store(&db, &place.name).await?;
    Ok(LogAtRest { dir: place.dir_in(folder), name: place.name, head, db })
}

/// Opens the state. If the log syncs each record, the state syncs each change: otherwise a power cut could undo a
/// change whose record remains, e.g. a revocation.
async fn open_state(
    folder: &Path,
    path: &Path,
    config: Option<&LogConfig>,
) -> Result<Db, StoreError> {
    let is_synced = if let Some(config) = config {
        config.fsync == Fsync::Always
    } else {
        let db = Db::open(path).await?;
        if !LogPlace::kept(&db, folder).await?.is_synced() {
            return Ok(db);
        }
        db.close().await;
        true
    };
    let mut config = DbConfig::new(path);
    if is_synced {
        config.durability = Durability::Full;
    }
    config.open().await
}

fn default_config(folder: &Path) -> LogConfig {
    LogConfig::new(folder.join(LOG)).name(LOG).digest_key(folder.join(KEY))
}

/// Makes the path absolute, so that a later change of the working directory has no effect on it.
fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned())
}

impl Governance {
    /// Verifies the audit log of this governance while it is in use. To verify the log of a folder that is not open,
    /// use [`verify`](Self::verify).
    ///
    /// # Errors
    /// [`LogError`] with the first record that was changed, or if the log is missing or cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn verify_log(&self) -> Result<u64, LogError> {
        let log = self.log().ok_or_else(BadRecord::no_head)?;
        let (dir, name) = log.location();
        let (dir, name) = (dir.to_owned(), name.to_owned());
        let head = LogHead::in_store(&**self.store(), &name).await?;
        let head = head.ok_or_else(BadRecord::no_head)?;
        verify_with_store(dir, name, head, &**self.store()).await
    }
}

impl FolderError {
    fn of_folder(error: LogError) -> Self {
        match error {
            LogError::Exposed { path, mode, .. } => Self::Exposed { path, mode },
            error => Self::Unusable(error),
        }
    }

    fn log(path: &Path, dir: PathBuf) -> impl FnOnce(LogError) -> Self {
        let path = path.to_owned();
        move |error| match error {
            LogError::BadRecord(bad) if bad.why == RecordFlaw::NoHead => {
                Self::StateLost { path, dir }
            }
            error => Self::Log(error),
        }
    }

    fn state(path: &Path) -> impl FnOnce(StoreError) -> Self {
        let path = path.to_owned();
        move |source| Self::State { path, source }
    }
}

#[cfg(test)]
mod tests;
