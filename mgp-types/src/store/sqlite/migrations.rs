//! Schema migrations: each component that has tables in the file has a namespace and a list of steps; new steps are
//! added only at the end of the list.

use rusqlite::{Connection, OptionalExtension as _};

use crate::store::StoreError;

/// The application id of the file: "mgp" and a version. It distinguishes files of this program from those of other
/// programs, which are not changed.
const APPLICATION: i32 = 0x6d67_7001;

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
    -- It has the value, which is none, so that counting needs no look at the table.
    CREATE INDEX store_record_gone ON store_record (revision, value) WHERE value IS NULL;
    -- Numbers are never used again.
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

/// Copies the file before its format changes, e.g. to `state.db.store-1`, so that an operator can
/// return to the older program.
///
/// The caller's transaction prevents other processes from writing; the copy includes the write-ahead log.
fn back_up(conn: &Connection, namespace: &str, version: usize) -> std::io::Result<()> {
    let Some(path) = conn.path().filter(|path| !path.is_empty()) else { return Ok(()) };
    for part in ["", "-wal"] {
        match std::fs::copy(format!("{path}{part}"), format!("{path}.{namespace}-{version}{part}"))
        {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Runs the steps of a namespace that the file has not run yet, in the caller's transaction.
pub(super) fn migrate(
    conn: &Connection,
    namespace: &str,
    steps: &[&str],
) -> Result<(), StoreError> {
    let found: Option<usize> = conn
        .query_row("SELECT version FROM store_migration WHERE namespace = ?1", [namespace], |row| {
            row.get::<_, u32>(0).map(|version| version as usize)
        })
        .optional()?;
    let done = found.unwrap_or(0);
    let Some(missing) = steps.get(done..) else {
        let known = steps.len();
        return Err(StoreError::Unreadable(format!(
            "a newer version of this program wrote its `{namespace}` (version {done}, known up to {known}); update this program"
        )));
    };
    if found.is_some() && !missing.is_empty() {
        back_up(conn, namespace, done).map_err(StoreError::failed)?;
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
