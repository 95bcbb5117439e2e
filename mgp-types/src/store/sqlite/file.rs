//! The database file: accessible only to its owner, and opened so that several processes can share it.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rusqlite::{Connection, Error, OpenFlags, Transaction, TransactionBehavior, ffi};
use tokio::time::Instant;

use super::{DbConfig, DbError, Durability, migrations};
use crate::private_file::{self, PrivateFileError, is_other_file};
use crate::store::StoreError;
use crate::sync::Mutex;

/// The pause between two attempts to acquire a lock of the file. It is short, because processes that wait for the lock
/// do not queue: a process that tries rarely would often miss the moments in which the lock is free.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// The maximum size of the write-ahead log after a checkpoint; a checkpoint follows every 1,000 pages of 4 KiB.
const MAX_LOG_BYTES: i64 = 8 * 1024 * 1024;

/// A passive checkpoint, which does not wait for readers: it leaves out the pages that a reader still uses, and a later
/// checkpoint writes them. Its result is whether another connection prevents it, the number of pages in the log, and
/// the number of those that are in the file now.
const CHECKPOINT: &str = "PRAGMA wal_checkpoint(PASSIVE)";

/// A lock that is held while the file is created. Otherwise another thread could open the database before the creating
/// thread has closed its descriptor of the file. The other thread would then lose its locks: SQLite loses all locks of
/// a process when the process closes *any* descriptor of the file.
static CREATE_LOCK: Mutex<()> = Mutex::new(());

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Opens an empty file in order to create the tables in it.
    CreateTables,
    Write,
    Read,
}

pub(super) struct OpenFile {
    pub(super) conn: Connection,
    /// `true` if the file is new and must still be synced to disk with [`settle`].
    pub(super) unsynced: bool,
    pub(super) identity: FileIdentity,
}

/// The paths of an open database file and of its write-ahead log, and the identities of the files that had these paths
/// when they were opened.
pub(super) struct FileIdentity {
    path: PathBuf,
    own: Metadata,
    log_path: PathBuf,
    /// The identity of the log; `None` if it could not be read.
    own_log: Option<Metadata>,
}

impl FileIdentity {
    fn of(path: PathBuf) -> Result<Self, StoreError> {
        // SQLite follows symbolic links, and creates the log beside the file itself.
        let file = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
        let log_path = beside(&file, "-wal");
        let own = fs::metadata(&path).map_err(StoreError::failed)?;
        let own_log = fs::metadata(&log_path).ok();
        Ok(Self { path, own, log_path, own_log })
    }

    /// Returns an error if another program has removed or replaced one of the files. A change would be lost: without
    /// the file when it is closed, without the log when this process is killed.
    pub(super) fn refuse_lost(&self) -> Result<(), StoreError> {
        if is_other_file(&self.own, &self.path) {
            return Err(StoreError::Lost);
        }
        let is_other_log = |own| is_other_file(own, &self.log_path);
        if self.own_log.as_ref().is_some_and(is_other_log) {
            return Err(StoreError::LogLost);
        }
        Ok(())
    }

    /// Writes the accepted changes into the file after the log was removed, because a kill of this process would lose
    /// them. From then on, keeps other processes from changing the file with a transaction that stays open: they would
    /// write into a new log, which this process does not read, and with the old one it would then damage the file.
    pub(super) fn leave_log(&self, conn: &Connection) -> rusqlite::Result<()> {
        // Leave the file as it is if the new log has content, e.g. that of a copy: after a kill, SQLite would apply
        // older pages to newer ones.
        let is_log_empty = match fs::metadata(&self.log_path) {
            Ok(log) => log.len() == 0,
            Err(error) => error.kind() == ErrorKind::NotFound,
        };
        if !is_log_empty || !conn.is_autocommit() {
            return Ok(());
        }
        let is_complete = conn.query_row(CHECKPOINT, [], |row| {
            let is_busy: bool = row.get(0)?;
            let (logged, written): (i64, i64) = (row.get(1)?, row.get(2)?);
            Ok(!is_busy && logged == written)
        })?;
        if is_complete {
            conn.execute_batch("BEGIN IMMEDIATE")?;
        }
        Ok(())
    }
}

/// Opens the file for writing; creates it if it does not exist, and migrates the tables.
///
/// The whole file is not checked (`PRAGMA quick_check`), because that takes 50 ms for 100,000 records even in memory,
/// and opening after a kill may take at most 100 ms. A kill cannot damage the file, because the log has checksums.
/// Damage by the disk is reported when the damaged part is read.
pub(super) fn open(config: &DbConfig) -> Result<OpenFile, StoreError> {
    let path = absolute(&config.path)?;
    create_file(&path).map_err(StoreError::failed)?;
    let is_empty = fs::metadata(&path).is_ok_and(|file| file.len() == 0);
    let purpose = if is_empty { Purpose::CreateTables } else { Purpose::Write };
    // The errors of SQLite do not contain the path of the file, so add it.
    let opened = connect(config, purpose).and_then(prepared).and_then(|conn| {
        synchronise(&conn, config.durability)?;
        let unsynced = is_empty && config.durability == Durability::Normal;
        let identity = FileIdentity::of(path.clone())?;
        Ok(OpenFile { conn, unsynced, identity })
    });
    opened.map_err(|error| match error {
        StoreError::Unreadable(why) => {
            StoreError::Unreadable(format!("`{}`: {why}", path.display()))
        }
        StoreError::Failed(source) => DbError::Opening { path, source }.into(),
        other => other,
    })
}

/// Syncs all commits, and the names of the files, to disk; this is possible on any connection. Returns `false` if
/// another connection prevents it at the moment.
pub(super) fn settle(conn: &Connection) -> rusqlite::Result<bool> {
    let is_busy: bool = conn.query_row(CHECKPOINT, [], |row| row.get(0))?;
    Ok(!is_busy)
}

/// Opens a database in memory, which no other connection sees.
pub(super) fn in_memory() -> Result<Connection, StoreError> {
    prepared(Connection::open_in_memory()?)
}

pub(super) fn connect(config: &DbConfig, purpose: Purpose) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // Use an absolute path, because SQLite could interpret a relative path as a URI or as `:memory:`.
    let mut conn = Connection::open_with_flags(absolute(&config.path)?, flags)?;
    // If SQLite cannot open the file for writing, it opens the file read-only without an error. Check this here, before
    // SQLite creates further files in the folder, which could not be written either.
    if conn.is_readonly("main")? {
        return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY), None).into());
    }
    conn.busy_handler(Some(busy_handler(config.lock_timeout)))?;
    // Keep temporary data in memory: they may contain secrets, which must not reach the temporary folder of the system.
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    if purpose == Purpose::Read {
        conn.pragma_update(None, "query_only", true)?;
        return Ok(conn);
    }
    if purpose == Purpose::CreateTables {
        // An empty file has no content to roll back to, so it needs no journal on disk while it switches to WAL (the
        // write-ahead log); this saves three of four syncs. If another process has created the tables meanwhile, SQLite
        // refuses this setting, and the migrations have nothing to do.
        let _ = conn.pragma_update(None, "journal_mode", "MEMORY");
        if config.durability == Durability::Normal {
            // An empty file has no content that a loss of power could destroy, so do not wait for the disk while
            // opening it. The file is synced soon afterwards.
            conn.pragma_update(None, "synchronous", "OFF")?;
        }
    }
    enable_wal(&conn, config.lock_timeout)?;
    if purpose == Purpose::Write {
        synchronise(&conn, config.durability)?;
    }
    // On macOS, a disk writes its own cache only on `fullfsync`, so commits that must survive a loss of power need it.
    conn.pragma_update(None, "fullfsync", config.durability == Durability::Full)?;
    conn.pragma_update(None, "journal_size_limit", MAX_LOG_BYTES)?;
    Ok(conn)
}

/// A guard for a time in which a connection refuses changes; dropping the guard ends that time.
pub(super) struct RefusedWrites<'a>(&'a Connection);

impl<'a> RefusedWrites<'a> {
    pub(super) fn of(conn: &'a Connection) -> rusqlite::Result<Self> {
        conn.pragma_update(None, "query_only", true)?;
        Ok(Self(conn))
    }
}

impl Drop for RefusedWrites<'_> {
    fn drop(&mut self) {
        // Cannot fail: the statement sets a flag of the connection.
        let _ = self.0.pragma_update(None, "query_only", false);
    }
}

fn synchronise(conn: &Connection, durability: Durability) -> Result<(), StoreError> {
    let synchronous = match durability {
        Durability::Normal => "NORMAL",
        Durability::Full => "FULL",
    };
    Ok(conn.pragma_update(None, "synchronous", synchronous)?)
}

fn prepared(conn: Connection) -> Result<Connection, StoreError> {
    let tx = Transaction::new_unchecked(&conn, TransactionBehavior::Immediate)?;
    migrations::prepare(&tx)?;
    tx.commit()?;
    Ok(conn)
}

/// Enables the write-ahead log. Waits for the lock in this function, because SQLite does not call the busy handler for
/// this statement.
fn enable_wal(conn: &Connection, patience: Duration) -> Result<(), StoreError> {
    let mut busy_handler = busy_handler(patience);
    for tries in 0.. {
        let mode: rusqlite::Result<String> =
            conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode.map_err(StoreError::from) {
            Ok(mode) if mode == "wal" => break,
            Ok(_) => return Err(DbError::NotShared.into()),
            Err(StoreError::Busy(_)) if busy_handler(tries) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns a function that SQLite calls while the file is locked. It pauses, and requests another attempt until
/// `patience` has passed.
fn busy_handler(patience: Duration) -> impl FnMut(i32) -> bool + Send + 'static {
    let mut since = Instant::now();
    move |tries| {
        if tries == 0 {
            since = Instant::now();
        }
        sleep(RETRY_INTERVAL);
        since.elapsed() < patience
    }
}

/// Creates the database file if it does not exist. Refuses the file, and the two files that belong to it, if other
/// users can access them.
fn create_file(path: &Path) -> Result<(), PrivateFileError> {
    let guard = CREATE_LOCK.lock();
    private_file::create(path)?;
    drop(guard);
    for ending in ["", "-wal", "-shm"] {
        private_file::check(&beside(path, ending))?;
    }
    Ok(())
}

/// Returns the path of a file that belongs to the database.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(StoreError::failed)
}

#[cfg(test)]
mod tests {
    use super::super::Db;
    use super::*;
    #[cfg(unix)]
    use crate::Payload;
    #[cfg(unix)]
    use crate::store::{Change, Store as _};

    #[tokio::test]
    async fn a_read_of_a_database_in_memory_cannot_write() {
        let db = Db::in_memory().await.unwrap();
        let create = |conn: &Connection| Ok(conn.execute_batch("CREATE TABLE words (word TEXT)")?);
        assert!(db.read(create).await.is_err());
        db.write(create).await.unwrap();
    }

    /// Returns the keys in a store, and an empty list if it cannot be read.
    #[cfg(unix)]
    async fn keys(path: &Path) -> Vec<String> {
        let Ok(db) = Db::open(path).await else { return Vec::new() };
        let loaded = db.load("s").await;
        db.close().await;
        let records = loaded.map(|loaded| loaded.records).unwrap_or_default();
        records.into_iter().map(|record| record.key).collect()
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_removed_write_ahead_log_costs_no_change_that_was_accepted() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("a.db");
        let db = Db::open(&path).await.unwrap();
        let put = |key: &str| Change::new().put("s", key, Payload::from_trusted("1"));
        db.commit(put("kept")).await.unwrap();
        let (log, away) = (beside(&path, "-wal"), beside(&path, "-away"));
        fs::rename(&log, &away).unwrap();
        let mut copies = 0;
        mgp_testkit::until("the file alone has the change", async || {
            let refused = db.commit(put("refused")).await;
            assert!(matches!(refused, Err(StoreError::LogLost)), "{refused:?}");
            // After a kill of this process, only the file would remain.
            copies += 1;
            let copy = folder.path().join(format!("copy-{copies}.db"));
            fs::copy(&path, &copy).unwrap();
            keys(&copy).await == ["kept"]
        })
        .await;
        // A change of another process would be in a new log, which this process does not read.
        let mut other = DbConfig::new(&path);
        other.lock_timeout = Duration::from_millis(50);
        mgp_testkit::until("others cannot change the file", async || {
            assert!(db.commit(put("refused")).await.is_err());
            matches!(other.clone().open().await, Err(StoreError::Busy(_)))
        })
        .await;
        fs::rename(&away, &log).unwrap();
        db.commit(put("later")).await.unwrap();
        db.close().await;
        assert_eq!(keys(&path).await, ["kept", "later"]);
    }
}
