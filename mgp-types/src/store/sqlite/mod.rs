//! A store in an SQLite file that several processes can share.
//!
//! One thread writes, and combines several changes in a transaction; other threads read. The methods do not block a
//! runtime, and work without one.

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
use std::sync::{Arc, Weak};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;

use self::job::Queue;
use super::{Change, LoadedRecords, PendingEvent, Store, StoreError};
use crate::service::BoxFuture;
use crate::sync::Mutex;

pub use fault::DbError;
#[cfg(test)]
pub(super) use tests::Folder;

/// A store in an SQLite file. Several processes can share the file, and only its owner can access
/// it (on Unix: mode 0600).
///
/// Committed changes survive the end of the process; with [`Durability::Full`], they also survive a loss of power.
/// [`Store::revision`] usually reports the changes of other processes within 100 ms. If another program removes or
/// replaces the file, changes fail with [`StoreError::Lost`]. The file must be on a local disk; while it is in use, the
/// folder also contains `…-wal`, without which changes fail with [`StoreError::LogLost`], and `…-shm`. When the last
/// handle is dropped, queued jobs are completed and the file is closed. The two other files are removed when no process
/// uses them any more.
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
pub struct Db(Arc<Shared>);

/// The configuration of a [`Db`], i.e. of a store in an SQLite file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DbConfig {
    /// The path of the file. The file is created if it does not exist, but its folder must exist.
    pub path: PathBuf,
    /// The durability of commits. Default: [`Durability::Normal`].
    pub durability: Durability,
    /// The maximum number of queued changes, and of queued reads. If a queue is full, further operations fail with
    /// [`StoreError::Busy`]. Default: 1024.
    pub max_queued: usize,
    /// The time to wait for another process's lock before an operation fails with
    /// [`StoreError::Busy`]. Default: five seconds.
    pub lock_timeout: Duration,
    /// The time that a caller waits for an answer ([`Store::answer_timeout`]). Default: ten seconds.
    pub answer_timeout: Duration,
}

/// The durability of commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Durability {
    /// Committed changes survive the end of the process. A loss of power can undo the most recent changes (each change
    /// completely), and also the creation of the file, if that was less than a tenth of a second earlier.
    ///
    /// Revisions and event numbers of changes that were undone are used again. Therefore an audit log that syncs each
    /// of its records needs [`Full`](Self::Full).
    #[default]
    Normal,
    /// Committed changes also survive a loss of power; each commit waits for the disk.
    Full,
}

/// The default time to wait for an answer, longer than an answer takes while many servers start on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The stores of this process that are files, each with a receiver of its revisions. The channel of the receiver closes
/// when the file is closed. Entries of closed files are removed when another file is opened.
static OPEN_FILES: Mutex<Vec<(Weak<Shared>, watch::Receiver<u64>)>> = Mutex::new(Vec::new());

struct Shared {
    /// The queues of the threads; `None` after the store was closed.
    queues: Mutex<Option<Queues>>,
    /// The receiver of the newest revision. The channel closes when all connections are closed, so that [`Db::close`]
    /// can wait for that.
    news: watch::Receiver<u64>,
    path: Option<PathBuf>,
    answer: Duration,
}

/// The queues of the threads. A thread ends when its queue is dropped.
struct Queues {
    write: Queue,
    read: Queue,
    /// The queue for reads by callers of [`Db::read`]. In contrast, `read` is the queue for reads by the store itself.
    query: Queue,
}

impl DbConfig {
    /// Creates the configuration for a file, with default values.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            durability: Durability::default(),
            max_queued: 1024,
            lock_timeout: Duration::from_secs(5),
            answer_timeout: ANSWER_TIMEOUT,
        }
    }

    /// Opens the file and returns the store.
    ///
    /// # Errors
    /// Returns [`StoreError::Unreadable`] if the file is damaged, was written by a newer program or is not a store;
    /// [`StoreError::Busy`] if another process has locked it; [`StoreError::Failed`] if other users can access it, or
    /// if the system reports an error (the source is usually a [`PrivateFileError`](crate::PrivateFileError) or a
    /// [`DbError`]).
    ///
    /// # Cancel safety
    /// If the future is dropped, the file is closed again; it may have been created.
    pub async fn open(self) -> Result<Db, StoreError> {
        start::start(Some(self)).await
    }
}

impl Db {
    /// Opens a file with the default configuration.
    ///
    /// # Errors
    /// Returns the same errors as [`DbConfig::open`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the file is closed again, as for [`DbConfig::open`].
    pub async fn open(path: impl Into<PathBuf>) -> Result<Self, StoreError> {
        DbConfig::new(path).open().await
    }

    /// Opens a database in memory; its content is lost when the last handle is dropped.
    ///
    /// # Errors
    /// Returns [`StoreError::Failed`] if there is not enough memory, or if no thread can be started.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub async fn in_memory() -> Result<Self, StoreError> {
        start::start(None).await
    }

    /// Migrates the tables of a namespace: runs the steps that the file has not run yet, either all or none.
    ///
    /// Each step is SQL. New steps must be added at the end of the list.
    /// Tables must be named after their namespace, because all namespaces share one file.
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
    /// Returns [`StoreError::Unreadable`] if a newer program has run further steps, else the error that occurred while
    /// the store was written.
    ///
    /// # Cancel safety
    /// If the future is dropped, the change may or may not be applied, as for [`Store::commit`].
    #[must_use = "the future returns the error"]
    pub fn migrate(
        &self,
        namespace: &'static str,
        steps: &'static [&'static str],
    ) -> BoxFuture<'static, Result<(), StoreError>> {
        self.write(move |tx| migrations::migrate(tx, namespace, steps))
    }

    /// Returns the number of steps of a namespace that the file has run (see [`migrate`](Self::migrate)), without
    /// changing the file.
    ///
    /// # Errors
    /// Returns [`StoreError::Unreadable`] if the file has run more than `known` steps, i.e. also steps of a newer
    /// program, else the error that occurred while the store was read.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    #[must_use = "the future returns the number"]
    pub fn steps_run(
        &self,
        namespace: &'static str,
        known: usize,
    ) -> BoxFuture<'static, Result<usize, StoreError>> {
        self.read(move |conn| migrations::steps_run(conn, namespace, known))
    }

    /// Writes with SQL (see [`sql`](crate::store::sql)); if the closure fails, what it wrote is rolled back.
    ///
    /// The closure runs on the writing thread, in a transaction with other changes, which all wait for it. What it
    /// writes does not change [`Store::revision`].
    ///
    /// # Errors
    /// Returns the error of the closure, else the error that occurred while the store was written.
    ///
    /// # Cancel safety
    /// If the future is dropped, the change may or may not be applied, as for [`Store::commit`].
    pub fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        job::ask(self.0.queues.lock().as_ref().map(|queues| &queues.write), work)
    }

    /// Reads with SQL (see [`sql`](crate::store::sql)).
    ///
    /// Closures run one after another on a separate thread; each closure sees a consistent snapshot. The write-ahead
    /// log cannot shrink while a closure runs.
    ///
    /// # Errors
    /// Returns the error of the closure, else the error that occurred while the store was read.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time; the closure may run nevertheless.
    pub fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        // The connection of a database in memory also writes, whereas that of a file refuses each change.
        let also_writes = self.0.path.is_none();
        let work = move |conn: &Connection| {
            let _refusal = also_writes.then(|| file::RefusedWrites::of(conn)).transpose()?;
            work(conn)
        };
        job::ask(self.0.queues.lock().as_ref().map(|queues| &queues.query), work)
    }

    /// Closes the store for all its handles: completes queued jobs, and waits until the file is closed.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the store is closed nevertheless.
    pub async fn close(self) {
        drop(self.0.queues.lock().take());
        let mut news = self.0.news.clone();
        while news.changed().await.is_ok() {}
    }

    /// Closes every file that this process has opened as a store, like [`close`](Self::close), and waits for files
    /// whose handles were dropped before. If a process ends while a file is open, its last changes may be only in
    /// `…-wal`.
    ///
    /// # Cancel safety
    /// If the future is dropped after its first poll, the files are closed nevertheless.
    pub async fn close_all() {
        let files = std::mem::take(&mut *OPEN_FILES.lock());
        for (shared, _) in &files {
            drop(shared.upgrade().map(|shared| shared.queues.lock().take()));
        }
        for (_, mut news) in files {
            while news.changed().await.is_ok() {}
        }
    }

    fn new(
        queues: Queues,
        news: watch::Receiver<u64>,
        path: Option<PathBuf>,
        answer: Duration,
    ) -> Self {
        let of_file = path.is_some().then(|| news.clone());
        let db = Self(Arc::new(Shared { queues: Mutex::new(Some(queues)), news, path, answer }));
        if let Some(news) = of_file {
            let mut files = OPEN_FILES.lock();
            files.retain(|(_, news)| news.has_changed().is_ok());
            files.push((Arc::downgrade(&db.0), news));
        }
        db
    }

    /// Queues a read by the store itself, which does not wait for the queries of callers.
    fn look_up<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        job::ask(self.0.queues.lock().as_ref().map(|queues| &queues.read), work)
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Db").field(&self.0.path).finish()
    }
}

impl Store for Db {
    fn load(&self, space: &'static str) -> BoxFuture<'static, Result<LoadedRecords, StoreError>> {
        self.look_up(move |conn| records::load(conn, space))
    }

    fn changes(
        &self,
        space: &'static str,
        since: u64,
    ) -> BoxFuture<'static, Result<LoadedRecords, StoreError>> {
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

    fn pending_events(
        &self,
        log: &str,
        limit: usize,
    ) -> BoxFuture<'static, Result<Vec<PendingEvent>, StoreError>> {
        let log = log.to_owned();
        self.look_up(move |conn| records::pending(conn, &log, limit))
    }

    fn acknowledge(&self, log: &str, through: u64) -> BoxFuture<'static, Result<(), StoreError>> {
        let log = log.to_owned();
        self.write(move |tx| records::settle(tx, &log, through))
    }

    fn answer_timeout(&self) -> Duration {
        self.0.answer
    }
}
