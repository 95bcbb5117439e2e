//! A history in a database.
//!
//! What changed is written in the background, the state it has by then: nobody waits for the disk, and a query that was
//! called ten times meanwhile is written once. What was erased is handed to the database under the same lock as what
//! is written, so nothing that was read before it arrives after it.
//! Of two processes with one file the last to write a query wins; each reads the other's when it opens the file.
//!
//! Applies to: inbound.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::SystemTime;

use mgp_types::service::{BoxFuture, Principal};
use mgp_types::store::sql::{Connection, params};
use mgp_types::store::{Db, StoreError};

use super::config::{Erase, HistoryConfig, Keep};
use super::entry::{Key, Owner, Secret, Word};
use super::history::{History, Inner};
use super::shelf::{Fresh, Shelf};

/// What the tables go by.
const NAMESPACE: &str = "toolindex_history";

const STEPS: &[&str] = &["
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
"];

/// How many queries are written at once.
const BATCH: usize = 512;

/// Ready when the database has it.
type Written = BoxFuture<'static, Result<(), StoreError>>;

/// The database of a history.
pub(super) struct Kept {
    db: Db,
    /// Held while something is read to be written or erased, until the database has it.
    order: Mutex<()>,
    /// Held until what was handed over is written.
    writing: tokio::sync::Mutex<()>,
    is_writing: AtomicBool,
    /// Vectors that wait for the embedder of their model.
    vectors: Mutex<Vec<Vector>>,
}

struct Vector {
    key: Key,
    model: String,
    row: Vec<i8>,
}

/// A query as it is written; without a body it is gone.
struct Row {
    key: Key,
    body: Option<Body>,
}

struct Body {
    owner: Owner,
    text: Option<Box<str>>,
    words: Vec<u8>,
    vector: Option<(String, Vec<u8>)>,
    last: u64,
    calls: Vec<(Arc<str>, u32)>,
}

// === impl History ===

impl History {
    /// Opens the history that is kept in a database, and keeps it there from now on.
    ///
    /// What the configuration does not let it keep any more is forgotten at once: texts, vectors, what is too old.
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be read or written.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn open(db: Db, config: HistoryConfig) -> Result<Self, StoreError> {
        db.migrate(NAMESPACE, STEPS).await?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let oldest =
            now.map_or(0, |now| now.as_secs()).saturating_sub(config.forget_after.as_secs());
        let keep = config.keep;
        db.write(move |tx| forget(tx, keep, oldest)).await?;
        let most = config.most;
        let (secret, rows) = db.read(move |conn| Ok((secret(conn)?, load(conn, most)?))).await?;
        let mut shelf = Shelf::new(config);
        let mut vectors = Vec::new();
        for Row { key, body } in rows {
            let Some(Body { owner, text, words, vector, last, calls }) = body else { continue };
            for (tool, count) in calls {
                let fresh = Fresh {
                    owner: owner.clone(),
                    key,
                    text: text.as_deref(),
                    words: hashes(&words),
                    vector: None,
                    now: last,
                };
                shelf.remember(&fresh, &tool, count);
            }
            if let Some((model, row)) = vector {
                let row = row.into_iter().map(u8::cast_signed).collect();
                vectors.push(Vector { key, model, row });
            }
        }
        shelf.changed = Some(shelf.changed.take().unwrap_or_default());
        let mut inner = Inner::new(shelf, secret);
        inner.kept = Some(Kept {
            db,
            order: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            is_writing: AtomicBool::new(false),
            vectors: Mutex::new(vectors),
        });
        let history = Self::made(inner);
        history.attend();
        Ok(history)
    }

    /// Waits until all that was remembered so far is in the database; there is nothing to wait for without one.
    ///
    /// # Errors
    /// [`StoreError`] when it could not be written; it is tried again with the next call that is remembered.
    ///
    /// # Cancel safety
    /// Safe to drop at any time; what was handed over is written all the same.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let Some(kept) = &self.0.kept else { return Ok(()) };
        let _alone = kept.writing.lock().await;
        while let Some((keys, written)) = kept.hand_over(&self.0) {
            if let Err(error) = written.await {
                if let Some(changed) = &mut self.0.shelf_mut().changed {
                    changed.extend(keys);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes what changed, on a task if there is a runtime; else [`flush`](Self::flush) does.
    pub(super) fn write_soon(&self) {
        let Some(kept) = &self.0.kept else { return };
        if self.0.shelf().changed.as_ref().is_none_or(std::collections::HashSet::is_empty) {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if kept.is_writing.swap(true, Ordering::AcqRel) {
            return;
        }
        let this = self.clone();
        drop(runtime.spawn(async move {
            // It is let go before the look, so that what comes during the look is not left lying.
            if let Some(kept) = &this.0.kept {
                let _open = Open(&kept.is_writing);
                if let Err(error) = this.flush().await {
                    tracing::warn!(%error, "the usage history was not written");
                    return;
                }
            }
            this.write_soon();
        }));
    }
}

// === impl Kept ===

impl Kept {
    /// Erases in memory, and in the database once the future is ready.
    pub(super) fn erase(
        &self,
        shelf: &RwLock<Shelf>,
        what: Erase<'_>,
    ) -> BoxFuture<'static, Result<usize, StoreError>> {
        let (sql, names): (&'static str, Vec<String>) = match what {
            Erase::All => ("DELETE FROM toolindex_history", Vec::new()),
            Erase::Tenant(tenant) => (
                "DELETE FROM toolindex_history WHERE tenant = ?1",
                vec![tenant.as_str().to_owned()],
            ),
            Erase::Principal(who) => {
                ("DELETE FROM toolindex_history WHERE tenant = ?1 AND subject = ?2", subject(who))
            }
            Erase::Tool(tool) => {
                ("DELETE FROM toolindex_history_call WHERE tool = ?1", vec![tool.to_owned()])
            }
        };
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let erased = {
            let mut shelf = shelf.write().unwrap_or_else(PoisonError::into_inner);
            let erased = shelf.erase(what);
            let mut vectors = self.vectors.lock().unwrap_or_else(PoisonError::into_inner);
            vectors.retain(|vector| shelf.knows(vector.key));
            erased
        };
        let done = self.db.write(move |tx| {
            tx.pragma_update(None, "secure_delete", true)?;
            tx.execute(sql, mgp_types::store::sql::params_from_iter(names))?;
            sweep(tx)
        });
        Box::pin(async move { done.await.map(|()| erased) })
    }

    /// Gives entries the vectors that were read for them, if the embedder still makes such ones.
    pub(super) fn restore_vectors(&self, inner: &Inner) {
        let Some(embedder) = inner.embedder() else { return };
        let vectors =
            std::mem::take(&mut *self.vectors.lock().unwrap_or_else(PoisonError::into_inner));
        let mut shelf = inner.shelf_mut();
        for Vector { key, row, .. } in
            vectors.into_iter().filter(|vector| vector.model == embedder.model())
        {
            shelf.restore(key, &row);
        }
    }

    /// Hands some of what changed to the database; none when nothing did.
    fn hand_over(&self, inner: &Inner) -> Option<(Vec<Key>, Written)> {
        let _order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let model = inner.embedder().map(|embedder| embedder.model().to_owned());
        let (keys, rows) = {
            let mut shelf = inner.shelf_mut();
            let changed = shelf.changed.as_mut()?;
            let keys: Vec<Key> = changed.iter().take(BATCH).copied().collect();
            for key in &keys {
                changed.remove(key);
            }
            if keys.is_empty() {
                return None;
            }
            let rows: Vec<Row> =
                keys.iter().map(|key| row(&shelf, *key, model.as_deref())).collect();
            (keys, rows)
        };
        let written = self.db.write(move |tx| rows.iter().try_for_each(|row| store(tx, row)));
        Some((keys, written))
    }
}

fn row(shelf: &Shelf, key: Key, model: Option<&str>) -> Row {
    let body = shelf.entry(key).map(|(place, entry)| {
        let bytes = shelf.rows.as_ref().and_then(|rows| rows.row(place));
        let calls = entry
            .calls
            .iter()
            .filter_map(|call| Some((Arc::clone(&shelf.tools.get(call.tool)?.id), call.count)));
        Body {
            owner: entry.owner.clone(),
            text: entry.text.clone(),
            words: entry.words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            vector: model.zip(bytes).map(|(model, bytes)| {
                (model.to_owned(), bytes.iter().map(|byte| byte.cast_unsigned()).collect())
            }),
            last: entry.last,
            calls: calls.collect(),
        }
    });
    Row { key, body }
}

fn store(tx: &Connection, row: &Row) -> Result<(), StoreError> {
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
    tx.prepare("INSERT OR REPLACE INTO toolindex_history VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?
        .execute(params![
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

/// Forgets what may not be kept any more.
fn forget(tx: &Connection, keep: Keep, oldest: u64) -> Result<(), StoreError> {
    tx.pragma_update(None, "secure_delete", true)?;
    tx.execute("DELETE FROM toolindex_history WHERE last < ?1", [oldest.cast_signed()])?;
    if keep != Keep::Text {
        tx.execute("UPDATE toolindex_history SET text = NULL WHERE text IS NOT NULL", [])?;
    }
    if keep == Keep::Words {
        let sql =
            "UPDATE toolindex_history SET model = NULL, vector = NULL WHERE vector IS NOT NULL";
        tx.execute(sql, [])?;
    }
    sweep(tx)
}

/// Removes queries without calls, and calls without a query.
fn sweep(tx: &Connection) -> Result<(), StoreError> {
    tx.execute_batch(
        "DELETE FROM toolindex_history_call WHERE key NOT IN (SELECT key FROM toolindex_history);
         DELETE FROM toolindex_history WHERE key NOT IN (SELECT key FROM toolindex_history_call);",
    )?;
    Ok(())
}

fn secret(conn: &Connection) -> Result<Secret, StoreError> {
    let sql = "SELECT secret FROM toolindex_history_secret";
    let secret: Vec<u8> = conn.query_row(sql, [], |row| row.get(0))?;
    let secret = secret.try_into().map_err(|_| {
        StoreError::Unreadable("the secret of the usage history is damaged".to_owned())
    })?;
    Ok(Secret(secret))
}

/// The newest queries, the oldest of them first; what is damaged is left out.
fn load(conn: &Connection, most: usize) -> Result<Vec<Row>, StoreError> {
    let mut calls =
        conn.prepare("SELECT tool, count FROM toolindex_history_call WHERE key = ?1")?;
    let mut queries = conn.prepare(
        "SELECT key, tenant, subject, text, words, model, vector, last FROM toolindex_history
         ORDER BY last DESC, key LIMIT ?1",
    )?;
    let mut found = queries.query([i64::try_from(most).unwrap_or(i64::MAX)])?;
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
        rows.push(Row {
            key: Key::from_le_bytes(key),
            body: Some(Body {
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

fn hashes(words: &[u8]) -> Vec<Word> {
    words
        .chunks_exact(8)
        .filter_map(|word| Some(Word::from_le_bytes(word.try_into().ok()?)))
        .collect()
}

fn subject(who: &Principal) -> Vec<String> {
    vec![who.tenant().as_str().to_owned(), who.subject().as_str().to_owned()]
}

/// Lets the next one write, however this one ended.
struct Open<'a>(&'a AtomicBool);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
