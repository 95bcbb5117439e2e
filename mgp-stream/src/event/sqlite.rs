//! Durable subscriptions in an SQLite file.

use std::time::{Duration, SystemTime};

use mgp_types::service::BoxFuture;
use mgp_types::store::{Db, StoreError, sql};

use super::journal::{EventStore, StoredEvent, StoredSubscription};

const NAMESPACE: &str = "events";

const STEPS: &[&str] = &[
    "CREATE TABLE events_subscriptions (id TEXT PRIMARY KEY, terms TEXT NOT NULL, next_seq INTEGER NOT NULL,
         cursor INTEGER NOT NULL, used_at INTEGER NOT NULL)",
    "CREATE TABLE events_kept (subscription TEXT NOT NULL, seq INTEGER NOT NULL, event TEXT NOT NULL,
         stored_at INTEGER NOT NULL, PRIMARY KEY (subscription, seq)) WITHOUT ROWID",
];

/// The time after which an event is removed from the database.
const MAX_AGE: Duration = Duration::from_hours(24 * 7);

/// The time after which a durable subscription that is not used is removed.
const MAX_UNUSED: Duration = Duration::from_hours(24 * 30);

/// An event store in a database that other parts of the program may also use.
#[derive(Clone, Debug)]
pub(super) struct SqliteEvents(Db);

impl SqliteEvents {
    pub(super) async fn open(db: Db) -> Result<Self, StoreError> {
        db.migrate(NAMESPACE, STEPS).await?;
        Ok(Self(db))
    }
}

/// Reads the durable subscriptions of a database without changing it; tables of an older program are not read.
pub(super) async fn read_all(db: &Db) -> Result<Vec<StoredSubscription>, StoreError> {
    if db.steps_run(NAMESPACE, STEPS.len()).await? < STEPS.len() {
        return Ok(Vec::new());
    }
    db.read(load).await
}

fn seconds(age: Duration) -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.saturating_sub(age).as_secs()).unwrap_or(i64::MAX)
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

impl EventStore for SqliteEvents {
    fn load(&self) -> BoxFuture<'static, Result<Vec<StoredSubscription>, StoreError>> {
        let loaded = self.0.write(|tx| {
            let unused = "DELETE FROM events_subscriptions WHERE used_at < ?1";
            let unused = tx.execute(unused, [seconds(MAX_UNUSED)])?;
            tx.execute("DELETE FROM events_kept WHERE stored_at < ?1", [seconds(MAX_AGE)])?;
            tx.execute(
                "DELETE FROM events_kept WHERE subscription NOT IN (SELECT id FROM events_subscriptions)",
                [],
            )?;
            Ok((load(tx)?, unused))
        });
        Box::pin(async move {
            let (loaded, unused) = loaded.await?;
            if unused > 0 {
                tracing::info!(
                    unused,
                    "removed durable subscriptions that were not used for 30 days"
                );
            }
            Ok(loaded)
        })
    }

    fn put(&self, one: StoredSubscription) -> BoxFuture<'static, Result<(), StoreError>> {
        self.0.write(move |tx| {
            let sql = "INSERT INTO events_subscriptions VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (id) DO UPDATE SET cursor = ?4, used_at = ?5";
            let (next, cursor) = (signed(one.next_seq), signed(one.cursor));
            tx.execute(
                sql,
                sql::params![one.id, one.terms, next, cursor, seconds(Duration::ZERO)],
            )?;
            Ok(())
        })
    }

    fn remove(&self, id: &str) -> BoxFuture<'static, Result<(), StoreError>> {
        let id = id.to_owned();
        self.0.write(move |tx| {
            tx.execute("DELETE FROM events_subscriptions WHERE id = ?1", [&id])?;
            tx.execute("DELETE FROM events_kept WHERE subscription = ?1", [&id])?;
            Ok(())
        })
    }

    fn append(&self, events: Vec<StoredEvent>) -> BoxFuture<'static, Result<(), StoreError>> {
        self.0.write(move |tx| {
            let now = seconds(Duration::ZERO);
            let mut insert =
                tx.prepare("INSERT OR REPLACE INTO events_kept VALUES (?1, ?2, ?3, ?4)")?;
            let mut number =
                tx.prepare("UPDATE events_subscriptions SET next_seq = ?2 WHERE id = ?1")?;
            let mut trim =
                tx.prepare("DELETE FROM events_kept WHERE subscription = ?1 AND seq < ?2")?;
            for StoredEvent { subscription, seq, event, oldest } in events {
                insert.execute(sql::params![subscription, signed(seq), event, now])?;
                number.execute(sql::params![subscription, signed(seq + 1)])?;
                if oldest > 1 {
                    trim.execute(sql::params![subscription, signed(oldest)])?;
                }
            }
            Ok(())
        })
    }

    fn read(
        &self,
        id: &str,
        after: u64,
        until: u64,
        max: usize,
    ) -> BoxFuture<'static, Result<Vec<(u64, String)>, StoreError>> {
        let id = id.to_owned();
        self.0.read(move |conn| {
            let mut select = conn.prepare(
                "SELECT seq, event FROM events_kept
                 WHERE subscription = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq LIMIT ?4",
            )?;
            let params = sql::params![
                id,
                signed(after),
                signed(until),
                i64::try_from(max).unwrap_or(i64::MAX)
            ];
            let rows = select
                .query_map(params, |row| Ok((unsigned(row.get(0)?), row.get::<_, String>(1)?)))?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
    }
}

fn load(conn: &sql::Connection) -> Result<Vec<StoredSubscription>, StoreError> {
    let mut select =
        conn.prepare("SELECT id, terms, next_seq, cursor FROM events_subscriptions")?;
    let rows = select.query_map([], |row| {
        Ok(StoredSubscription {
            id: row.get(0)?,
            terms: row.get(1)?,
            next_seq: unsigned(row.get(2)?),
            cursor: unsigned(row.get(3)?),
            sizes: Vec::new(),
        })
    })?;
    let mut all = rows.collect::<Result<Vec<_>, _>>()?;
    let mut sizes =
        conn.prepare("SELECT length(event) FROM events_kept WHERE subscription = ?1 ORDER BY seq")?;
    for one in &mut all {
        let rows = sizes.query_map([&one.id], |row| row.get::<_, u32>(0))?;
        one.sizes = rows.collect::<Result<_, _>>()?;
    }
    Ok(all)
}
