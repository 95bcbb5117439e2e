//! The file: made for its owner alone, opened so that processes can share it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rusqlite::{Connection, Error, OpenFlags, Transaction, TransactionBehavior, ffi};
use tokio::time::Instant;

use super::{DbConfig, DbFault, Durability, migrations};
use crate::private_file::{self, PrivateFileError};
use crate::store::StoreError;

/// How long is slept between two looks at a lock: short, because those who wait do not queue.
const NAP: Duration = Duration::from_millis(1);

/// How long the write-ahead log stays once it was written back; it is written back every 1,000 pages of 4 KiB.
const LOG_MAX: i64 = 8 * 1024 * 1024;

/// SQLite gives the locks of a process up when *any* descriptor of the file is closed in it, so nobody may make
/// the file while somebody else goes on to open it.
static MAKING: Mutex<()> = Mutex::new(());

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// To write, in a file that has nothing in it yet.
    Begin,
    Write,
    Read,
}

/// A file that is open.
pub(super) struct Opened {
    /// The connection to write with.
    pub(super) conn: Connection,
    /// Whether the disk is owed all of it, as [`settle`] pays.
    pub(super) owes: bool,
}

/// Makes the file where there is none, and brings its tables up to date.
///
/// It is not checked as a whole (`PRAGMA quick_check`): 100,000 records take 50 ms where they are in memory already,
/// and opening after a kill may take 100 ms.
/// A kill damages nothing, because the log has checksums; what a disk damages is told when it is read.
pub(super) fn open(config: &DbConfig) -> Result<Opened, StoreError> {
    let path = absolute(&config.path)?;
    make(&path).map_err(StoreError::failed)?;
    let is_empty = std::fs::metadata(&path).is_ok_and(|file| file.len() == 0);
    let begins = if is_empty { Use::Begin } else { Use::Write };
    // The paths are named here: what follows does not know them.
    let opened = connect(config, begins).and_then(prepared).and_then(|conn| {
        synchronise(&conn, config.durability)?;
        Ok(Opened { conn, owes: is_empty && config.durability == Durability::Normal })
    });
    opened.map_err(|error| match error {
        StoreError::Unreadable(why) => {
            StoreError::Unreadable(format!("`{}`: {why}", path.display()))
        }
        StoreError::Failed(source) => DbFault::Opening { path, source }.into(),
        other => other,
    })
}

/// Brings to the disk what was committed so far, and the names of the files; any connection may do it.
pub(super) fn settle(conn: &Connection) -> rusqlite::Result<()> {
    // It tells of pages that somebody still reads, which come with the next one; nobody is waited for.
    conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// A database that no other connection sees.
pub(super) fn in_memory() -> Result<Connection, StoreError> {
    prepared(Connection::open_in_memory()?)
}

/// A connection to a file that is there.
pub(super) fn connect(config: &DbConfig, purpose: Use) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    // An absolute path is never taken for a URI, or for `:memory:`.
    let mut conn = Connection::open_with_flags(absolute(&config.path)?, flags)?;
    // SQLite makes do with reading; told later, that would leave files beside it that nobody can write.
    if conn.is_readonly("main")? {
        return Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY), None).into());
    }
    conn.busy_handler(Some(patient(config.patience)))?;
    // What is secret stays out of the system's temporary folder.
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update(None, "cell_size_check", true)?;
    conn.pragma_update(None, "trusted_schema", false)?;
    if purpose == Use::Read {
        conn.pragma_update(None, "query_only", true)?;
        return Ok(conn);
    }
    if purpose == Use::Begin {
        // There is nothing to go back to, so it needs no journal to become a shared one: one wait for the disk, not four.
        // Where another process was quicker this is refused, and what follows finds everything done.
        let _ = conn.pragma_update(None, "journal_mode", "MEMORY");
        if config.durability == Durability::Normal {
            // Nor is there anything to lose: whoever opens it does not wait for the disk, which is paid soon after.
            conn.pragma_update(None, "synchronous", "OFF")?;
        }
    }
    share(&conn, config.patience)?;
    if purpose == Use::Write {
        synchronise(&conn, config.durability)?;
    }
    // On macOS a mere `fsync` leaves the data in the disk's own memory.
    conn.pragma_update(None, "fullfsync", config.durability == Durability::Full)?;
    conn.pragma_update(None, "journal_size_limit", LOG_MAX)?;
    Ok(conn)
}

/// Has each commit survive what it is to survive.
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

/// Turns the write-ahead log on; two who do that at once are refused without being asked for patience.
fn share(conn: &Connection, patience: Duration) -> Result<(), StoreError> {
    let mut patient = patient(patience);
    for tries in 0.. {
        let mode: rusqlite::Result<String> =
            conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode.map_err(StoreError::from) {
            Ok(mode) if mode == "wal" => break,
            Ok(_) => return Err(DbFault::NotShared.into()),
            Err(StoreError::Busy(_)) if patient(tries) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Naps until patience is at an end.
fn patient(patience: Duration) -> impl FnMut(i32) -> bool + Send + 'static {
    let mut since = Instant::now();
    move |tries| {
        if tries == 0 {
            since = Instant::now();
        }
        sleep(NAP);
        since.elapsed() < patience
    }
}

/// Makes the file unless it is there, and refuses one that others may use.
fn make(path: &Path) -> Result<(), PrivateFileError> {
    let making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    private_file::create(path)?;
    drop(making);
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
