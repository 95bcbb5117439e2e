//! Stores a history in a database.
//!
//! Changed queries are written in the background, in their latest state: a query that changed ten times since the last
//! write is written once. Erasures and writes are passed to the database under the same lock, so an older write cannot
//! follow an erasure. If two processes write the same query to one file, the last of them wins; each process reads the
//! queries of the other when it opens the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use mgp_types::service::{BoxFuture, Principal};
use mgp_types::store::sql::{Connection, params};
use mgp_types::store::{Db, StoreError};
use mgp_types::sync::{Mutex, RwLock};
use rustc_hash::FxHashSet;

use super::config::{Erase, HistoryConfig, HistoryScope, Retention};
use super::history::{FlagGuard, History, HistoryState};
use super::query::{AGENT_SEPARATOR, HashKey, Owner, QueryKey, WordHash};
use super::table::{HistoryTable, NewQuery};
use super::unmet::{UnmetCounts, UnmetKey};

const NAMESPACE: &str = "toolindex_history";

const MIGRATIONS: &[&str] = &[
    "
    CREATE TABLE toolindex_history_secret (secret BLOB NOT NULL) STRICT;
    INSERT INTO toolindex_history_secret VALUES (randomblob(32));
    CREATE TABLE toolindex_history (
        key BLOB PRIMARY KEY, tenant TEXT NOT NULL, subject TEXT NOT NULL, text TEXT,
        words BLOB NOT NULL, model TEXT, vector BLOB, last INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX toolindex_history_last ON toolindex_history (last);
    CREATE INDEX toolindex_history_owner ON toolindex_history (tenant, subject);
    CREATE TABLE toolindex_history_call (
        key BLOB NOT NULL, tool TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (key, tool)
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX toolindex_history_call_tool ON toolindex_history_call (tool);
",
    "
    CREATE TABLE toolindex_history_unmet (
        tenant TEXT NOT NULL, subject TEXT NOT NULL, text TEXT NOT NULL,
        found_nothing INTEGER NOT NULL, not_called INTEGER NOT NULL, last INTEGER NOT NULL,
        PRIMARY KEY (tenant, subject, text)
    ) STRICT, WITHOUT ROWID;
",
];

/// The condition for the rows of one agent of a subject, or for the rows of a subject's calls without an agent.
const OF_AGENT: &str = "WHERE tenant = ?1 AND subject = ?2";

/// The condition for the rows of a subject, and for the rows of its agents that were stored with
/// [`HistoryScope::Agent`].
const OF_SUBJECT: &str = "WHERE tenant = ?1
    AND (subject = ?2 OR substr(subject, 1, length(?2) + 1) = ?2 || char(31))";

/// The condition for the rows that a history uses; `?1` is true with [`HistoryScope::Agent`]. With any other scope, the
/// rows of single agents are omitted, because the agents of one subject would otherwise count as several subjects.
const USED: &str = "WHERE (?1 OR instr(subject, char(31)) = 0)";

/// The statement that stores a query. If the history has no embedder, the query has no vector; then a vector that was
/// stored earlier is kept for a later history with that embedder.
const STORE_QUERY: &str = "
    INSERT INTO toolindex_history VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (key) DO UPDATE SET
        tenant = excluded.tenant, subject = excluded.subject, text = excluded.text,
        words = excluded.words, last = excluded.last,
        model = coalesce(excluded.model, toolindex_history.model),
        vector = coalesce(excluded.vector, toolindex_history.vector)
";

/// The number of queries that are written in one batch.
const WRITE_BATCH: usize = 512;

type WriteFuture = BoxFuture<'static, Result<(), StoreError>>;

pub(super) struct HistoryDatabase {
    db: Db,
    /// A lock that keeps writes and erasures in order. It is held while a write or an erasure is prepared and passed to
    /// the database.
    order: Mutex<()>,
    /// A lock that is held from the start of a write until it has finished.
    writing: tokio::sync::Mutex<()>,
    is_writing: AtomicBool,
    /// The vectors that were read from the database. When an embedder is set, vectors of its model are moved to the
    /// table, and all other vectors are dropped.
    vectors: Mutex<Vec<StoredVector>>,
}

struct StoredVector {
    key: QueryKey,
    model: String,
    row: Vec<i8>,
}

/// A query to write. Without a body, the stored query is deleted.
struct QueryRow {
    key: QueryKey,
    body: Option<QueryBody>,
}

struct QueryBody {
    owner: Owner,
    text: Option<Box<str>>,
    words: Vec<u8>,
    vector: Option<(String, Vec<u8>)>,
    last: u64,
    calls: Vec<(Arc<str>, u32)>,
}

impl History {
    /// Checks that the history of a database can be read, without changing it. Tables of an older version of the
    /// program are not read.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database cannot be read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn check(db: &Db) -> Result<(), StoreError> {
        if db.steps_run(NAMESPACE, MIGRATIONS.len()).await? < MIGRATIONS.len() {
            return Ok(());
        }
        let (max, scope) = (usize::MAX, HistoryScope::Agent);
        db.read(move |conn| {
            secret(conn)?;
            load(conn, max, scope)?;
            load_unmet(conn, scope).map(drop)
        })
        .await
    }

    /// Returns the caller of each stored query and unmet search in a database, without changing the database. Does not
    /// read tables of an older version of the program.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database cannot be read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn callers(db: &Db) -> Result<Vec<Principal>, StoreError> {
        if db.steps_run(NAMESPACE, MIGRATIONS.len()).await? < MIGRATIONS.len() {
            return Ok(Vec::new());
        }
        db.read(|conn| {
            let sql = "SELECT tenant, subject FROM toolindex_history
                UNION ALL SELECT tenant, subject FROM toolindex_history_unmet";
            let mut read = conn.prepare(sql)?;
            let callers = read.query_map([], |row| {
                let (tenant, subject): (String, String) = (row.get(0)?, row.get(1)?);
                Ok(match subject.split_once(AGENT_SEPARATOR) {
                    Some((subject, agent)) => Principal::new(tenant, subject).agent(agent),
                    None => Principal::new(tenant, subject),
                })
            })?;
            Ok(callers.collect::<Result<Vec<_>, _>>()?)
        })
        .await
    }

    /// Opens the history of a database, and stores all later changes there.
    ///
    /// Immediately removes everything that the options no longer allow: texts, vectors, and old queries.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the database cannot be read or written.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn open(db: Db, config: HistoryConfig) -> Result<Self, StoreError> {
        db.migrate(NAMESPACE, MIGRATIONS).await?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let oldest =
            now.map_or(0, |now| now.as_secs()).saturating_sub(config.forget_after.as_secs());
        let retention = config.retention;
        db.write(move |tx| enforce_options(tx, retention, oldest)).await?;
        let (max, scope) = (config.max_queries, config.scope);
        let (secret, rows) =
            db.read(move |conn| Ok((secret(conn)?, load(conn, max, scope)?))).await?;
        let mut table = HistoryTable::new(config);
        let mut vectors = Vec::new();
        for QueryRow { key, body } in rows {
            let Some(QueryBody { owner, text, words, vector, last, calls }) = body else {
                continue;
            };
            for (tool, count) in calls {
                let new_query = NewQuery {
                    owner: owner.clone(),
                    key,
                    text: text.as_deref(),
                    words: hashes(&words),
                    vector: None,
                    now: last,
                };
                table.record(&new_query, &tool, count);
            }
            if let Some((model, row)) = vector {
                let row = row.into_iter().map(u8::cast_signed).collect();
                vectors.push(StoredVector { key, model, row });
            }
        }
        table.changed = Some(FxHashSet::default());
        let unmet = db.read(move |conn| load_unmet(conn, scope)).await?;
        let mut state = HistoryState::new(table, secret);
        for (key, counts) in unmet {
            state.unmet.lock().restore(key, counts);
        }
        state.unmet.lock().track_changes();
        state.database = Some(HistoryDatabase {
            db,
            order: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            is_writing: AtomicBool::new(false),
            vectors: Mutex::new(vectors),
        });
        let history = Self::from_state(state);
        history.start_due_work();
        Ok(history)
    }

    /// Waits until all queries recorded so far are in the database; returns immediately if the history has no database.
    ///
    /// # Errors
    /// Returns [`StoreError`] if they cannot be written; the write is retried after the next recorded search or call.
    ///
    /// # Cancel safety
    /// Safe to drop at any time; data that was already passed to the database is still written.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let Some(database) = &self.0.database else { return Ok(()) };
        let _guard = database.writing.lock().await;
        while let Some((keys, unmet, write)) = database.start_write(&self.0) {
            if let Err(error) = write.await {
                self.0.unmet.lock().not_written(unmet);
                if let Some(changed) = &mut self.0.table.write().changed {
                    changed.extend(keys);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes changed queries in a background task, if there is a runtime; otherwise [`flush`](Self::flush) writes
    /// them.
    pub(super) fn write_soon(&self) {
        let Some(database) = &self.0.database else { return };
        let is_unchanged =
            self.0.table.read().changed.as_ref().is_none_or(std::collections::HashSet::is_empty);
        if is_unchanged && !self.0.unmet.lock().has_changed() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if database.is_writing.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        drop(runtime.spawn(async move {
            // Clear the flag `is_writing` before the next check for changes, so that changes during the check are not
            // missed.
            if let Some(database) = &this.0.database {
                let _guard = FlagGuard(&database.is_writing);
                if let Err(error) = this.flush().await {
                    tracing::warn!(%error, "usage history write failed");
                    return;
                }
            }
            this.write_soon();
        }));
    }
}

impl HistoryDatabase {
    /// Erases data in memory immediately. In the database, it is erased once the returned future is ready.
    pub(super) fn erase(
        &self,
        table: &RwLock<HistoryTable>,
        what: Erase<'_>,
    ) -> BoxFuture<'static, Result<usize, StoreError>> {
        let (clause, names) = match what {
            Erase::All => (Some(""), Vec::new()),
            Erase::Tenant(tenant) => (Some("WHERE tenant = ?1"), vec![tenant.as_str().to_owned()]),
            Erase::Principal(principal) => {
                // Use the subject of `Owner`, not of the principal: with `HistoryScope::Agent`, it also contains the
                // agent.
                let scope = table.read().config.scope;
                let Owner { tenant, subject } = Owner::of(principal, scope);
                let names = vec![tenant.to_string(), subject.to_string()];
                (Some(if scope == HistoryScope::Agent { OF_AGENT } else { OF_SUBJECT }), names)
            }
            Erase::Tool(tool) => (None, vec![tool.to_owned()]),
        };
        let _order = self.order.lock();
        let erased = {
            let mut table = table.write();
            let erased = table.erase(what);
            let mut vectors = self.vectors.lock();
            vectors.retain(|vector| table.contains(vector.key));
            erased
        };
        let done = self.db.write(move |tx| {
            tx.pragma_update(None, "secure_delete", true)?;
            let names = || mgp_types::store::sql::params_from_iter(&names);
            match clause {
                Some(clause) => {
                    for table in ["toolindex_history", "toolindex_history_unmet"] {
                        tx.execute(&format!("DELETE FROM {table} {clause}"), names())?;
                    }
                }
                None => {
                    tx.execute("DELETE FROM toolindex_history_call WHERE tool = ?1", names())?;
                }
            }
            remove_orphans(tx)
        });
        Box::pin(async move { done.await.map(|()| erased) })
    }

    /// Returns the ids of all tools in the database, including tools that this history does not use.
    pub(super) async fn called_tools(&self) -> Result<Vec<String>, StoreError> {
        let read = self.db.read(|conn| {
            let mut tools = conn.prepare("SELECT DISTINCT tool FROM toolindex_history_call")?;
            let tools = tools.query_map([], |row| row.get::<_, String>(0))?;
            Ok(tools.collect::<Result<Vec<_>, _>>()?)
        });
        read.await
    }

    /// Restores the stored vectors of this model, and drops the vectors of other models.
    pub(super) fn restore_vectors(&self, table: &mut HistoryTable, model: &str) {
        let vectors = std::mem::take(&mut *self.vectors.lock());
        for StoredVector { key, row, .. } in
            vectors.into_iter().filter(|vector| vector.model == model)
        {
            table.restore(key, &row);
        }
    }

    /// Passes a batch of changed queries, and the unmet searches, to the database. Returns their keys and the future of
    /// the write, or `None` if nothing has changed.
    fn start_write(
        &self,
        state: &HistoryState,
    ) -> Option<(Vec<QueryKey>, Vec<UnmetKey>, WriteFuture)> {
        let _order = self.order.lock();
        let unmet = state.unmet.lock().take_changed();
        let model = state.embedder().map(|embedder| embedder.model().to_owned());
        let (keys, rows) = {
            let mut table = state.table.write();
            let changed = table.changed.as_mut()?;
            let keys: Vec<QueryKey> = changed.iter().take(WRITE_BATCH).copied().collect();
            for key in &keys {
                changed.remove(key);
            }
            if keys.is_empty() && unmet.is_empty() {
                return None;
            }
            let rows: Vec<QueryRow> =
                keys.iter().map(|key| row(&table, *key, model.as_deref())).collect();
            (keys, rows)
        };
        let unmet_keys = unmet.iter().map(|(key, _)| key.clone()).collect();
        let write = self.db.write(move |tx| {
            rows.iter().try_for_each(|row| store(tx, row))?;
            unmet.iter().try_for_each(|(key, counts)| store_unmet(tx, key, *counts))
        });
        Some((keys, unmet_keys, write))
    }
}

fn row(table: &HistoryTable, key: QueryKey, model: Option<&str>) -> QueryRow {
    let body = table.query(key).map(|(query_id, query)| {
        let bytes = table.rows.as_ref().and_then(|rows| rows.row(query_id));
        let calls = query
            .calls
            .iter()
            .filter_map(|call| Some((Arc::clone(&table.tools.get(call.tool)?.id), call.count)));
        QueryBody {
            owner: query.owner.clone(),
            text: query.text.clone(),
            words: query.words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            vector: model.zip(bytes).map(|(model, bytes)| {
                (model.to_owned(), bytes.iter().map(|byte| byte.cast_unsigned()).collect())
            }),
            last: query.last_used_at,
            calls: calls.collect(),
        }
    });
    QueryRow { key, body }
}

fn store(tx: &Connection, row: &QueryRow) -> Result<(), StoreError> {
    let key = row.key.to_le_bytes();
    tx.prepare("DELETE FROM toolindex_history_call WHERE key = ?1")?.execute([key])?;
    let Some(body) = &row.body else {
        tx.prepare("DELETE FROM toolindex_history WHERE key = ?1")?.execute([key])?;
        return Ok(());
    };
    let (model, vector) = match &body.vector {
        Some((model, vector)) => (Some(model), Some(vector)),
        None => (None, None),
    };
    tx.prepare(STORE_QUERY)?.execute(params![
        key,
        body.owner.tenant.as_str(),
        body.owner.subject.as_str(),
        body.text.as_deref(),
        body.words,
        model,
        vector,
        body.last.cast_signed(),
    ])?;
    let mut call = tx.prepare("INSERT INTO toolindex_history_call VALUES (?1, ?2, ?3)")?;
    for (tool, count) in &body.calls {
        call.execute(params![key, &**tool, count])?;
    }
    Ok(())
}

fn store_unmet(
    tx: &Connection,
    ((tenant, subject), text): &((Box<str>, Box<str>), Box<str>),
    counts: Option<UnmetCounts>,
) -> Result<(), StoreError> {
    let Some(UnmetCounts { found_nothing, not_called, last }) = counts else {
        let sql = "DELETE FROM toolindex_history_unmet
            WHERE tenant = ?1 AND subject = ?2 AND text = ?3";
        tx.prepare(sql)?.execute(params![tenant, subject, text])?;
        return Ok(());
    };
    let sql = "INSERT OR REPLACE INTO toolindex_history_unmet VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    tx.prepare(sql)?.execute(params![
        tenant,
        subject,
        text,
        found_nothing,
        not_called,
        last.cast_signed()
    ])?;
    Ok(())
}

fn load_unmet(
    conn: &Connection,
    scope: HistoryScope,
) -> Result<Vec<(UnmetKey, UnmetCounts)>, StoreError> {
    let sql = format!(
        "SELECT tenant, subject, text, found_nothing, not_called, last
        FROM toolindex_history_unmet {USED} ORDER BY last DESC"
    );
    let mut read = conn.prepare(&sql)?;
    let text = |row: &mgp_types::store::sql::Row<'_>, at| row.get::<_, String>(at).map(Box::from);
    let rows = read.query_map([scope == HistoryScope::Agent], |row| {
        let key = ((text(row, 0)?, text(row, 1)?), text(row, 2)?);
        let last: i64 = row.get(5)?;
        let counts = UnmetCounts {
            found_nothing: row.get(3)?,
            not_called: row.get(4)?,
            last: u64::try_from(last).unwrap_or_default(),
        };
        Ok((key, counts))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Deletes everything that the options do not allow.
fn enforce_options(tx: &Connection, retention: Retention, oldest: u64) -> Result<(), StoreError> {
    tx.pragma_update(None, "secure_delete", true)?;
    tx.execute("DELETE FROM toolindex_history WHERE last < ?1", [oldest.cast_signed()])?;
    tx.execute("DELETE FROM toolindex_history_unmet WHERE last < ?1", [oldest.cast_signed()])?;
    if retention != Retention::Text {
        tx.execute("DELETE FROM toolindex_history_unmet", [])?;
        tx.execute("UPDATE toolindex_history SET text = NULL WHERE text IS NOT NULL", [])?;
    }
    if retention == Retention::Words {
        let sql =
            "UPDATE toolindex_history SET model = NULL, vector = NULL WHERE vector IS NOT NULL";
        tx.execute(sql, [])?;
    }
    remove_orphans(tx)
}

/// Removes queries without calls, and calls without a query.
fn remove_orphans(tx: &Connection) -> Result<(), StoreError> {
    tx.execute_batch(
        "DELETE FROM toolindex_history_call WHERE key NOT IN (SELECT key FROM toolindex_history);
         DELETE FROM toolindex_history WHERE key NOT IN (SELECT key FROM toolindex_history_call);",
    )?;
    Ok(())
}

fn secret(conn: &Connection) -> Result<HashKey, StoreError> {
    let sql = "SELECT secret FROM toolindex_history_secret";
    let secret: Vec<u8> = conn.query_row(sql, [], |row| row.get(0))?;
    let secret = secret.try_into().map_err(|_| {
        StoreError::Unreadable("the secret of the usage history is damaged".to_owned())
    })?;
    Ok(HashKey(secret))
}

/// Reads the newest queries, in ascending order of time; damaged queries are skipped.
fn load(conn: &Connection, max: usize, scope: HistoryScope) -> Result<Vec<QueryRow>, StoreError> {
    let mut calls =
        conn.prepare("SELECT tool, count FROM toolindex_history_call WHERE key = ?1")?;
    let sql = format!(
        "SELECT key, tenant, subject, text, words, model, vector, last FROM toolindex_history
         {USED} ORDER BY last DESC, key LIMIT ?2"
    );
    let mut queries = conn.prepare(&sql)?;
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let mut found = queries.query(params![scope == HistoryScope::Agent, max])?;
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        let key: Vec<u8> = row.get(0)?;
        let Ok(key) = <[u8; 16]>::try_from(key) else { continue };
        let (tenant, subject): (String, String) = (row.get(1)?, row.get(2)?);
        let text: Option<String> = row.get(3)?;
        let words: Vec<u8> = row.get(4)?;
        let vector: Option<(String, Vec<u8>)> =
            row.get::<_, Option<_>>(5)?.zip(row.get::<_, Option<_>>(6)?);
        let last: i64 = row.get(7)?;
        let called =
            calls.query_map([key], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
        let calls = called
            .map(|call| call.map(|(tool, count)| (tool.into(), u32::try_from(count).unwrap_or(1))));
        rows.push(QueryRow {
            key: QueryKey::from_le_bytes(key),
            body: Some(QueryBody {
                owner: Owner { tenant: tenant.into(), subject: subject.into() },
                text: text.map(Into::into),
                words,
                vector,
                last: u64::try_from(last).unwrap_or(0),
                calls: calls.collect::<Result<_, _>>()?,
            }),
        });
    }
    rows.reverse();
    Ok(rows)
}

fn hashes(words: &[u8]) -> Vec<WordHash> {
    words
        .chunks_exact(8)
        .filter_map(|word| Some(WordHash::from_le_bytes(word.try_into().ok()?)))
        .collect()
}
