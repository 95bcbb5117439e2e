//! A store in an SQLite file that processes share (DESIGN §6).
//!
//! One thread writes, several changes in one transaction; others read.
//! Nothing here blocks a runtime, and nothing needs one.

mod fault;
mod file;
mod job;
mod migrations;
mod records;
mod start;
#[cfg(test)]
mod tests;
mod threads;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;

use self::job::Queue;
use super::{Change, Loaded, PendingEvent, Store, StoreError};
use crate::service::BoxFuture;

pub use fault::DbFault;
#[cfg(test)]
pub(super) use tests::Folder;

/// Keeps records in an SQLite file that only its owner may read (on Unix: mode 0600) and that processes may share.
///
/// What is committed survives the death of the process; what [`Durability::Full`] commits also survives the loss of power.
/// Other processes' changes are seen within 100 ms.
/// The file has to be on a local disk; beside it are `…-wal` and `…-shm` while it is in use.
/// Once the last handle is dropped, what waits is still done, the file is closed and those two go.
///
/// ```
/// use mgp_types::Payload;
/// use mgp_types::store::{Change, Db, Store};
///
/// # let folder = std::env::temp_dir().join(format!("mgp-db-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).unwrap();
/// # let path = folder.join("mgp.db");
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let db = Db::open(&path).await.unwrap();
/// db.commit(Change::new().put("fruit", "apple", Payload::from_trusted("1"))).await.unwrap();
/// db.close().await;
///
/// let again = Db::open(&path).await.unwrap();
/// assert_eq!(again.load("fruit").await.unwrap().records.len(), 1);
/// # again.close().await;
/// # });
/// # std::fs::remove_dir_all(&folder).unwrap();
/// ```
#[derive(Clone)]
pub struct Db(Arc<Inner>);

/// How a [`Db`] is kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DbConfig {
    /// The file; it is made where there is none, its folder is not.
    pub path: PathBuf,
    /// What a commit survives. [`Durability::Normal`].
    pub durability: Durability,
    /// How many changes wait for the file, and how many reads; more are refused as [`StoreError::Busy`]. 1024.
    pub waiting: usize,
    /// How long another process' lock is waited for; then it is [`StoreError::Busy`]. Five seconds.
    pub patience: Duration,
    /// How long whoever serves a caller waits for an answer ([`Store::answers_within`]). 500 ms.
    pub answer: Duration,
}

/// What a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// The death of the process, however it comes; a loss of power may undo the last changes, all of each, and of a
    /// file that was made a tenth of a second ago all of it.
    ///
    /// Revisions and numbers of events that were undone are given again: an audit log that syncs each of its records
    /// wants [`Full`](Self::Full) here.
    #[default]
    Normal,
    /// The loss of power too; each commit waits for the disk.
    Full,
}

/// How long an answer is waited for where nobody said otherwise.
const ANSWER: Duration = Duration::from_millis(500);

struct Inner {
    /// None once the store was closed.
    queues: Mutex<Option<Queues>>,
    /// It ends when all connections are closed.
    news: watch::Receiver<u64>,
    path: Option<PathBuf>,
    answer: Duration,
}

/// Where the threads get their jobs; they end when this is dropped.
struct Queues {
    write: Queue,
    read: Queue,
    /// Reads that are not the store's own.
    query: Queue,
}

// === impl DbConfig ===

impl DbConfig {
    /// A file, with the defaults.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            durability: Durability::default(),
            waiting: 1024,
            patience: Duration::from_secs(5),
            answer: ANSWER,
        }
    }

    /// Opens the file.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] when it is damaged, newer than this program or no store, [`StoreError::Busy`] when
    /// another process does not let go of it, [`StoreError::Failed`] when others may use it (the reason is a
    /// [`PrivateFileError`](crate::PrivateFileError)) or the system refuses (the reason is a [`DbFault`]).
    ///
    /// # Cancel safety
    /// Dropping the future closes the file again; it may have been made.
    pub async fn open(self) -> Result<Db, StoreError> {
        start::start(Some(self)).await
    }
}

// === impl Db ===

impl Db {
    /// Opens a file with the defaults.
    ///
    /// # Errors
    /// As [`DbConfig::open`].
    ///
    /// # Cancel safety
    /// As [`DbConfig::open`].
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        DbConfig::new(path).open().await
    }

    /// A database in memory: nothing survives the last handle.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when there is no room for it.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub async fn in_memory() -> Result<Self, StoreError> {
        start::start(None).await
    }

    /// Brings the tables of a namespace up to date: does those of its steps that were not done yet, all or none.
    ///
    /// Steps are SQL; their list only ever grows.
    /// Tables are named after their namespace, because all are in one file.
    ///
    /// ```
    /// use mgp_types::store::{Db, sql};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let db = Db::in_memory().await.unwrap();
    /// db.migrate("words", &["CREATE TABLE words (word TEXT PRIMARY KEY)"]).await.unwrap();
    /// db.write(|tx| Ok(tx.execute("INSERT INTO words VALUES (?1)", ["apple"])?)).await.unwrap();
    /// let count = |conn: &sql::Connection| {
    ///     Ok(conn.query_row("SELECT count(*) FROM words", [], |row| row.get::<_, i64>(0))?)
    /// };
    /// assert_eq!(db.read(count).await.unwrap(), 1);
    /// # });
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] when a newer program has done more steps; else the store cannot be written.
    ///
    /// # Cancel safety
    /// As [`Store::commit`].
    #[must_use = "what went wrong is told here"]
    pub fn migrate(
        &self,
        namespace: &'static str,
        steps: &'static [&'static str],
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        self.write(move |tx| migrations::migrate(tx, namespace, steps))
    }

    /// Writes with SQL (see [`sql`](crate::store::sql)); what a closure that fails had written is undone.
    ///
    /// It runs on the thread that writes, in a transaction that it shares with others: all of them wait for it.
    /// It does not move [`Store::revision`].
    ///
    /// # Errors
    /// Those of the closure; else the store cannot be written.
    ///
    /// # Cancel safety
    /// As [`Store::commit`].
    pub fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        job::ask(self.queues().as_ref().map(|queues| &queues.write), work)
    }

    /// Reads with SQL.
    ///
    /// It runs on a thread of its own, one after the other, and sees one state of the file all the way through.
    /// While it runs the write-ahead log cannot shrink.
    ///
    /// # Errors
    /// Those of the closure; else the store cannot be read.
    ///
    /// # Cancel safety
    /// Safe to drop at any time; the closure may run all the same.
    pub fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        job::ask(self.queues().as_ref().map(|queues| &queues.query), work)
    }

    /// Ends the store for all its handles, once what waits is done, and waits until the file is closed.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the store closing.
    pub async fn close(self) {
        drop(self.queues().take());
        let mut news = self.0.news.clone();
        while news.changed().await.is_ok() {}
    }

    fn new(
        queues: Queues,
        news: watch::Receiver<u64>,
        path: Option<PathBuf>,
        answer: Duration,
    ) -> Self {
        Self(Arc::new(Inner { queues: Mutex::new(Some(queues)), news, path, answer }))
    }

    /// Reads for the store itself, which must not wait for others' queries.
    fn look_up<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        job::ask(self.queues().as_ref().map(|queues| &queues.read), work)
    }

    fn queues(&self) -> MutexGuard<'_, Option<Queues>> {
        self.0.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Db").field(&self.0.path).finish()
    }
}

// === impl Store ===

impl Store for Db {
    fn load(&self, space: &'static str) -> BoxFuture<'static, Result<Loaded, StoreError>> {
        self.look_up(move |conn| records::load(conn, space))
    }

    fn changes(
        &self,
        space: &'static str,
        since: u64,
    ) -> BoxFuture<'static, Result<Loaded, StoreError>> {
        self.look_up(move |conn| records::changes(conn, space, since))
    }

    fn commit(&self, mut change: Change) -> BoxFuture<'static, Result<u64, StoreError>> {
        let events: Result<Vec<_>, _> = std::mem::take(&mut change.events)
            .into_iter()
            .map(|(log, event)| serde_json::to_string(&event).map(|event| (log, event)))
            .collect();
        let events = events.map_err(StoreError::failed);
        self.write(move |tx| records::commit(tx, &change, &events?))
    }

    fn revision(&self) -> watch::Receiver<u64> {
        let mut news = self.0.news.clone();
        news.mark_unchanged();
        news
    }

    fn pending(
        &self,
        log: &str,
        most: usize,
    ) -> BoxFuture<'static, Result<Vec<PendingEvent>, StoreError>> {
        let log = log.to_owned();
        self.look_up(move |conn| records::pending(conn, &log, most))
    }

    fn settle(&self, log: &str, through: u64) -> BoxFuture<'static, Result<(), StoreError>> {
        let log = log.to_owned();
        self.write(move |tx| records::settle(tx, &log, through))
    }

    fn answers_within(&self) -> Duration {
        self.0.answer
    }
}
