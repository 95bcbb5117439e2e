//! Migrations of the tables. Each component that has tables in the file has a namespace and a list of steps that create
//! and change its tables. New steps are added only at the end of the list.

use std::io::ErrorKind;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};

use crate::private_file;
use crate::store::StoreError;

/// The application id in the header of the file: "mgp" and a version. It distinguishes files of this program from files
/// of other programs, which must not be changed.
const APPLICATION: i32 = 0x6d67_7001;

/// The namespace of the store's own tables.
const STORE: &str = "store";

const STEPS: &[&str] = &["
    CREATE TABLE store_state (revision INTEGER NOT NULL, forgotten INTEGER NOT NULL) STRICT;
    INSERT INTO store_state VALUES (0, 0);
    -- A record that is gone has no value.
    CREATE TABLE store_record (
        space TEXT NOT NULL, key TEXT NOT NULL, value TEXT, revision INTEGER NOT NULL,
        PRIMARY KEY (space, key)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX store_record_news ON store_record (space, revision);
    -- Contains the value, which is always NULL, so that the removed records are counted without reading the table.
    CREATE INDEX store_record_gone ON store_record (revision, value) WHERE value IS NULL;
    -- AUTOINCREMENT: the number of a removed event is not assigned again.
    CREATE TABLE store_event (
        number INTEGER PRIMARY KEY AUTOINCREMENT, log TEXT NOT NULL, event TEXT NOT NULL
    ) STRICT;
    CREATE INDEX store_event_of_log ON store_event (log);
"];

/// Checks that the file is new or belongs to this program, and migrates the store's own tables in a transaction.
pub(super) fn prepare(conn: &Connection) -> Result<(), StoreError> {
    let application: i32 = conn.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if application != APPLICATION {
        let tables: u32 =
            conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if application != 0 || tables != 0 {
            return Err(StoreError::Unreadable(
                "its file belongs to another program; name another file".to_owned(),
            ));
        }
        conn.pragma_update(None, "application_id", APPLICATION)?;
        conn.execute_batch(
            "CREATE TABLE store_migration (namespace TEXT PRIMARY KEY, version INTEGER NOT NULL) STRICT",
        )?;
    }
    migrate(conn, STORE, STEPS)
}

/// Copies the last commit of the database before its format changes, e.g. to `state.db.store-1`, so that an operator
/// can return to the older program.
///
/// The caller's transaction prevents other processes from writing. SQLite makes the copy, because this process must not
/// open the file by itself: SQLite loses all locks of a process when the process closes *any* descriptor of the file.
fn back_up(conn: &Connection, namespace: &str, version: usize) -> Result<(), StoreError> {
    let Some(path) = conn.path().filter(|path| !path.is_empty()) else { return Ok(()) };
    let copy = format!("{path}.{namespace}-{version}");
    // Remove an older copy with its files. Otherwise SQLite would take the write-ahead log of the older copy for that
    // of the new copy.
    for part in ["", "-wal", "-shm"] {
        match std::fs::remove_file(format!("{copy}{part}")) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(StoreError::failed(error));
            }
            _ => {}
        }
    }
    private_file::create(Path::new(&copy)).map_err(StoreError::failed)?;
    // SQLite cannot run this statement in a transaction, so use a separate connection instead of the caller's
    // connection.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let reader = Connection::open_with_flags(path, flags)?;
    reader.pragma_update(None, "temp_store", "MEMORY")?;
    reader.execute("VACUUM INTO ?1", [&copy])?;
    Ok(())
}

/// Returns the number of steps of a namespace that the file has run; fails if the file has run more steps than this
/// program knows.
pub(super) fn steps_run(
    conn: &Connection,
    namespace: &str,
    known: usize,
) -> Result<usize, StoreError> {
    let found: Option<usize> = conn
        .query_row("SELECT version FROM store_migration WHERE namespace = ?1", [namespace], |row| {
            row.get::<_, u32>(0).map(|version| version as usize)
        })
        .optional()?;
    let run = found.unwrap_or(0);
    if run > known {
        return Err(StoreError::Unreadable(format!(
            "a newer version of this program wrote its `{namespace}` (version {run}, known up to {known}); update this program"
        )));
    }
    Ok(run)
}

/// Runs the steps of a namespace that the file has not run yet, in the caller's transaction.
pub(super) fn migrate(
    conn: &Connection,
    namespace: &str,
    steps: &[&str],
) -> Result<(), StoreError> {
    let done = steps_run(conn, namespace, steps.len())?;
    let missing = &steps[done..];
    if done > 0 && !missing.is_empty() {
        back_up(conn, namespace, done)?;
    }
    for step in missing {
        conn.execute_batch(step)?;
    }
    if !missing.is_empty() {
        conn.execute(
            "INSERT OR REPLACE INTO store_migration VALUES (?1, ?2)",
            (namespace, i64::try_from(steps.len()).unwrap_or(i64::MAX)),
        )?;
    }
    Ok(())
}
