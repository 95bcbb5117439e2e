//! The database file: readable by its owner only, and opened so that processes can share it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rusqlite::{Connection, Error, OpenFlags, Transaction, TransactionBehavior, ffi};
use tokio::time::Instant;

use super::{DbConfig, DbError, Durability, migrations};
use crate::private_file::{self, PrivateFileError};
use crate::store::StoreError;
use crate::sync::Mutex;

/// The pause between two attempts to lock; short, because waiting processes do not queue.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// The maximum size of the write-ahead log after a checkpoint; a checkpoint follows every 1,000 pages of 4 KiB.
const MAX_LOG_BYTES: i64 = 8 * 1024 * 1024;

/// SQLite releases the locks of a process when *any* descriptor of the file is closed in it, so no thread may create
/// the file while another one opens it.
static CREATE_LOCK: Mutex<()> = Mutex::new(());

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To write to a file that is still empty.
    CreateTables,
    Write,
    Read,
}

pub(super) struct OpenFile {
    pub(super) conn: Connection,
    /// `true` if the file has not been synced to disk yet, see [`settle`].
    pub(super) unsynced: bool,
}

/// Creates the file if it does not exist, and migrates its tables.
///
/// It is not checked as a whole (`PRAGMA quick_check`): 100,000 records take 50 ms even in memory, and opening the file
/// after a kill may take at most 100 ms.
/// A kill cannot damage the file, since the log has checksums; damage by a disk is reported when it is read.
pub(super) fn open(config: &DbConfig) -> Result<OpenFile, StoreError> {
    let path = absolute(&config.path)?;
    create_file(&path).map_err(StoreError::failed)?;
    let is_empty = std::fs::metadata(&path).is_ok_and(|file| file.len() == 0);
    let purpose = if is_empty { Purpose::CreateTables } else { Purpose::Write };
    // The path is added here, since later errors do not know it.
    let opened = connect(config, purpose).and_then(prepared).and_then(|conn| {
        synchronise(&conn, config.durability)?;
        Ok(OpenFile { conn, unsynced: is_empty && config.durability == Durability::Normal })
    });
    opened.map_err(|error| match error {
        StoreError::Unreadable(why) => {
            StoreError::Unreadable(format!("`{}`: {why}", path.display()))
        }
        StoreError::Failed(source) => DbError::Opening { path, source }.into(),
        other => other,
    })
}

/// Syncs all commits and the names of the files to disk; any connection can do this.
pub(super) fn settle(conn: &Connection) -> rusqlite::Result<()> {
    // Pages that a reader still uses are left to the next checkpoint; this does not wait.
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// Opens a database that no other connection sees.
pub(super) fn in_memory() -> Result<Connection, StoreError> {
    prepared(Connection::open_in_memory()?)
}

pub(super) fn connect(config: &DbConfig, purpose: Purpose) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // An absolute path is never taken for a URI, or for `:memory:`.
    let mut conn = Connection::open_with_flags(absolute(&config.path)?, flags)?;
    // SQLite falls back to read-only access; noticed later, that would leave files beside it that nothing can write.
    if conn.is_readonly("main")? {
        return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY), None).into());
    }
    conn.busy_handler(Some(busy_handler(config.lock_timeout)))?;
    // Secrets must not be written to the system's temporary folder.
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    if purpose == Purpose::Read {
        conn.pragma_update(None, "query_only", true)?;
        return Ok(conn);
    }
    if purpose == Purpose::CreateTables {
        // An empty file has nothing to roll back to, so it switches to WAL without a journal: one sync, not four.
        // If another process was faster, this is refused, and the migrations below find nothing to do.
        let _ = conn.pragma_update(None, "journal_mode", "MEMORY");
        if config.durability == Durability::Normal {
            // An empty file has nothing to lose either: opening does not wait for the disk, and the sync follows soon.
            conn.pragma_update(None, "synchronous", "OFF")?;
        }
    }
    enable_wal(&conn, config.lock_timeout)?;
    if purpose == Purpose::Write {
        synchronise(&conn, config.durability)?;
    }
    // On macOS a plain `fsync` leaves the data in the disk's cache.
    conn.pragma_update(None, "fullfsync", config.durability == Durability::Full)?;
    conn.pragma_update(None, "journal_size_limit", MAX_LOG_BYTES)?;
    Ok(conn)
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

/// Enables the write-ahead log; SQLite refuses concurrent attempts without calling the busy handler.
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

/// Returns a busy handler that sleeps until the timeout has passed.
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

/// Creates the file if it does not exist, and refuses one that other users can access.
fn create_file(path: &Path) -> Result<(), PrivateFileError> {
    let guard = CREATE_LOCK.lock();
    private_file::create(path)?;
    drop(guard);
    for ending in ["", "-wal", "-shm"] {
        let mut name = OsString::from(path);
        name.push(ending);
        private_file::check(Path::new(&name))?;
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf, StoreError> {
    std::path::absolute(path).map_err(StoreError::failed)
}
