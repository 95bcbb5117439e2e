//! Reads and writes the rows of the store's own tables: records, the revision and pending events.

use rusqlite::{Connection, OptionalExtension as _, Row};

use std::time::SystemTime;

use crate::mgp::{Actor, AuditEvent, AuditResult, EventType};
use crate::store::{
    Change, Expectation, LoadedRecords, MAX_PENDING, MAX_REMOVALS, PENDING_FULL, PendingEvent,
    Record, StoreError, Write,
};
use crate::{Object, Payload, Timestamp};

pub(super) type EventRow = (String, String);

pub(super) fn revision(conn: &Connection) -> rusqlite::Result<u64> {
    conn.prepare_cached("SELECT revision FROM store_state")?.query_row([], |row| number(row, 0))
}

pub(super) fn load(conn: &Connection, space: &str) -> Result<LoadedRecords, StoreError> {
    let records = conn
        .prepare_cached(
            "SELECT key, value, revision FROM store_record WHERE space = ?1 AND value IS NOT NULL",
        )?
        .query_map([space], record)?
        .collect::<Result<_, _>>()?;
    Ok(LoadedRecords::new(revision(conn)?, records))
}

pub(super) fn changes(
    conn: &Connection,
    space: &str,
    since: u64,
) -> Result<LoadedRecords, StoreError> {
    let forgotten = conn
        .prepare_cached("SELECT forgotten FROM store_state")?
        .query_row([], |row| number(row, 0))?;
    if since < forgotten {
        return Err(StoreError::TooOld);
    }
    let records = conn
        .prepare_cached(
            "SELECT key, value, revision FROM store_record WHERE space = ?1 AND revision > ?2",
        )?
        .query_map((space, integer(since)), record)?
        .collect::<Result<_, _>>()?;
    Ok(LoadedRecords::new(revision(conn)?, records))
}

/// Applies a change and returns its revision. The events of the change are given as encoded rows.
pub(super) fn commit(
    conn: &Connection,
    change: &Change,
    events: &[EventRow],
) -> Result<u64, StoreError> {
    for expected in &change.expected {
        check(conn, expected)?;
    }
    let revision = conn
        .prepare_cached("UPDATE store_state SET revision = revision + 1 RETURNING revision")?
        .query_row([], |row| number(row, 0))?;
    let mut is_gone = false;
    for write in &change.writes {
        is_gone |= put(conn, write, revision)?;
    }
    if is_gone {
        forget(conn)?;
    }
    if !events.is_empty() {
        add(conn, events)?;
    }
    Ok(revision)
}

pub(super) fn pending(
    conn: &Connection,
    log: &str,
    limit: usize,
) -> Result<Vec<PendingEvent>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    conn.prepare_cached(
        "SELECT number, event FROM store_event WHERE log = ?1 ORDER BY number LIMIT ?2",
    )?
    .query_map((log, limit), |row| Ok((number(row, 0)?, row.get::<_, String>(1)?)))?
    .map(|row| {
        let (number, event) = row?;
        let event = serde_json::from_str(&event).unwrap_or_else(|error| {
            tracing::error!(number, log, %error, "unreadable pending event replaced");
            unreadable(number)
        });
        Ok(PendingEvent::new(number, event))
    })
    .collect()
}

/// Returns the replacement for an event that cannot be decoded. Without the replacement, later events would be blocked,
/// or a number would be missing.
fn unreadable(number: u64) -> AuditEvent {
    let event_type = EventType::Other("dev.cloto.event_unreadable".into());
    // The time of the original event is not known. Use a fixed time, because the replacement must be the same on every
    // read.
    let never = Timestamp::from(SystemTime::UNIX_EPOCH);
    let mut event = AuditEvent::new(never, event_type, Actor::kernel(), AuditResult::Failure);
    // Encoding a number cannot fail.
    let _ = event.details.get_or_insert_with(Object::new).encode("number", &number);
    event
}

pub(super) fn settle(conn: &Connection, log: &str, through: u64) -> Result<(), StoreError> {
    conn.execute(
        "DELETE FROM store_event WHERE log = ?1 AND number <= ?2",
        (log, integer(through)),
    )?;
    Ok(())
}

fn check(conn: &Connection, expected: &Expectation) -> Result<(), StoreError> {
    let found = conn
        .prepare_cached(
            "SELECT revision FROM store_record WHERE space = ?1 AND key = ?2 AND value IS NOT NULL",
        )?
        .query_row((expected.space, &expected.key), |row| number(row, 0))
        .optional()?;
    if found == expected.revision {
        return Ok(());
    }
    Err(StoreError::Conflict { space: expected.space, key: expected.key.clone() })
}

/// Writes or removes a record; returns whether a record was removed.
fn put(conn: &Connection, write: &Write, revision: u64) -> rusqlite::Result<bool> {
    let Write { space, key, value } = write;
    let revision = integer(revision);
    let Some(value) = value else {
        let gone = conn.execute(
            "UPDATE store_record SET value = NULL, revision = ?3
             WHERE space = ?1 AND key = ?2 AND value IS NOT NULL",
            (space, key, revision),
        )?;
        return Ok(gone != 0);
    };
    conn.prepare_cached(
        "INSERT INTO store_record VALUES (?1, ?2, ?3, ?4) ON CONFLICT (space, key)
         DO UPDATE SET value = excluded.value, revision = excluded.revision",
    )?
    .execute((space, key, value.as_str(), revision))?;
    Ok(false)
}

fn forget(conn: &Connection) -> rusqlite::Result<()> {
    let gone: usize =
        conn.query_row("SELECT count(*) FROM store_record WHERE value IS NULL", [], |row| {
            row.get::<_, u32>(0).map(|gone| gone as usize)
        })?;
    let Some(surplus @ 1..) = gone.checked_sub(MAX_REMOVALS) else { return Ok(()) };
    let surplus = i64::try_from(surplus).unwrap_or(i64::MAX);
    conn.execute(
        "UPDATE store_state SET forgotten = (SELECT max(revision) FROM (
             SELECT revision FROM store_record WHERE value IS NULL ORDER BY revision LIMIT ?1))",
        [surplus],
    )?;
    conn.execute(
        "DELETE FROM store_record WHERE (space, key) IN (
             SELECT space, key FROM store_record WHERE value IS NULL ORDER BY revision LIMIT ?1)",
        [surplus],
    )?;
    Ok(())
}

fn add(conn: &Connection, events: &[EventRow]) -> Result<(), StoreError> {
    let waiting = conn
        .prepare_cached("SELECT count(*) FROM store_event")?
        .query_row([], |row| row.get::<_, u32>(0).map(|waiting| waiting as usize))?;
    if waiting + events.len() > MAX_PENDING {
        return Err(PENDING_FULL);
    }
    let mut insert = conn.prepare_cached("INSERT INTO store_event (log, event) VALUES (?1, ?2)")?;
    for (log, event) in events {
        insert.execute((log, event))?;
    }
    Ok(())
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let value: Option<String> = row.get(1)?;
    Ok(Record::new(row.get::<_, String>(0)?, value.map(Payload::from_trusted), number(row, 2)?))
}

/// Reads a number from a column: a revision, or the sequence number of an event. Neither can be negative, because both
/// begin at zero or one and only increase.
fn number(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
