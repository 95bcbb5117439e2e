//! The threads of a store: one writes; one reads for the store itself and checks for changes by other processes; one
//! runs the queries of callers.
//!
//! Each thread ends when all senders of its queue are dropped.

use std::iter;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::watch;
use tokio::time::Instant;

use super::DbError;
use super::file::{self, FileIdentity};
use super::job::{Job, Jobs};
use super::records;
use crate::store::StoreError;

/// The maximum number of jobs in one transaction. It is limited, so that the caller of the first job does not wait too
/// long for the commit.
const MAX_BATCH: usize = 256;

/// The interval between two checks for changes that other processes made.
///
/// A check takes 7 µs, plus up to 70 µs to wake the thread: about 0.2 % of one core.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The delay after which a new file is synced to disk. Other processes that open the file at the same time read most of
/// it, and the sync would slow them down.
const SYNC_DELAY: Duration = Duration::from_millis(50);

pub(super) fn write(
    conn: &Connection,
    file: Option<&FileIdentity>,
    jobs: &Jobs,
    news: &watch::Sender<u64>,
) {
    while let Ok(first) = jobs.recv() {
        let mut batch: Vec<_> = iter::once(first).chain(jobs.try_iter()).take(MAX_BATCH).collect();
        let committed = commit(conn, file, &mut batch);
        if let Ok(revision) = committed {
            notify(news, revision);
        }
        let committed = committed.map(drop);
        for job in batch {
            job.answer(committed.clone());
        }
    }
}

/// Runs the reads of the store itself until its queue is closed. In between, notifies subscribers of changes by other
/// processes, and syncs a new file to disk.
///
/// Writers do not wait for the sync. If this thread ends before the sync, the file is synced when the store is closed.
pub(super) fn read_and_watch(
    conn: &Connection,
    jobs: &Jobs,
    news: &watch::Sender<u64>,
    unsynced: bool,
) {
    let mut watcher = ChangeWatcher { seen: None, failing: false };
    let mut due = Instant::now();
    let mut unsynced_since = unsynced.then_some(due);
    loop {
        match jobs.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(job) => read_one(conn, job),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if Instant::now() >= due {
            watcher.check(conn, news);
            due = Instant::now() + CHECK_INTERVAL;
        }
        if unsynced_since.take_if(|since| since.elapsed() >= SYNC_DELAY).is_some() {
            match file::settle(conn) {
                Ok(true) => {}
                Ok(false) => unsynced_since = Some(Instant::now()),
                Err(error) => tracing::warn!(%error, "sync of a new store postponed"),
            }
        }
    }
}

/// Runs the queries of callers. They have a thread of their own, so that reads of the store itself need not wait for a
/// long query.
pub(super) fn read(conn: &Connection, jobs: &Jobs) {
    for job in jobs {
        read_one(conn, job);
    }
}

/// Runs all jobs in one transaction; a failed job is rolled back without affecting the other jobs.
///
/// Returns the newest revision.
fn commit(
    conn: &Connection,
    file: Option<&FileIdentity>,
    batch: &mut [Box<dyn Job>],
) -> Result<u64, StoreError> {
    if let Err(lost) = file.map_or(Ok(()), FileIdentity::refuse_lost) {
        if let (StoreError::LogLost, Some(file)) = (&lost, file) {
            // Ignore a failure: the next change tries it again.
            let _ = file.leave_log(conn);
        }
        return Err(lost);
    }
    if !conn.is_autocommit() {
        // The log is back, so end the transaction of `leave_log`.
        conn.execute_batch("ROLLBACK")?;
    }
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    for job in batch {
        tx.execute_batch("SAVEPOINT job")?;
        let ran = job.run(&tx);
        if tx.is_autocommit() {
            // After some errors, SQLite rolls back the whole transaction. Then all jobs in it have failed, so return
            // the error for all of them.
            return Err(ran.err().unwrap_or(DbError::Ended.into()));
        }
        tx.execute_batch(match ran {
            Ok(()) => "RELEASE job",
            Err(_) => "ROLLBACK TO job; RELEASE job",
        })?;
    }
    let revision = records::revision(&tx)?;
    tx.commit()?;
    Ok(revision)
}

/// Runs a job that only reads, in a transaction, so that it sees a consistent snapshot.
fn read_one(conn: &Connection, mut job: Box<dyn Job>) {
    let ran = Transaction::new_unchecked(conn, TransactionBehavior::Deferred)
        .map_err(StoreError::from)
        .and_then(|tx| job.run(&tx));
    job.answer(ran);
}

/// Notifies subscribers of a revision, unless they were already notified of the same or a newer revision.
fn notify(news: &watch::Sender<u64>, revision: u64) {
    news.send_if_modified(|known| {
        let is_newer = revision > *known;
        *known = revision.max(*known);
        is_newer
    });
}

struct ChangeWatcher {
    /// The `data_version` of the database at the last check. SQLite changes it with each commit of another connection.
    seen: Option<i64>,
    /// `true` if the last check failed, so that a further failure is not logged again.
    failing: bool,
}

impl ChangeWatcher {
    /// Notifies subscribers if another process has changed the file, or if that cannot be checked.
    fn check(&mut self, conn: &Connection, news: &watch::Sender<u64>) {
        let checked = self.try_check(conn, news);
        if let Err(error) = &checked {
            if !self.failing {
                tracing::error!(%error, "checking for changes of other processes failed");
            }
            // Notify subscribers although nothing has changed: they then read the store and receive the error.
            news.send_modify(|_| {});
        }
        self.failing = checked.is_err();
    }

    fn try_check(&mut self, conn: &Connection, news: &watch::Sender<u64>) -> rusqlite::Result<()> {
        let version =
            conn.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.seen != Some(version) {
            notify(news, records::revision(conn)?);
            self.seen = Some(version);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_are_notified_when_changes_cannot_be_checked() {
        let (news, mut known) = watch::channel(7);
        // The check fails, because the table `store_state` is missing.
        let conn = Connection::open_in_memory().unwrap();
        let mut watcher = ChangeWatcher { seen: None, failing: false };
        watcher.check(&conn, &news);
        assert!(watcher.failing && known.has_changed().unwrap());
        assert_eq!(*known.borrow_and_update(), 7);

        conn.execute_batch(
            "CREATE TABLE store_state (revision); INSERT INTO store_state VALUES (9)",
        )
        .unwrap();
        watcher.check(&conn, &news);
        assert!(!watcher.failing);
        assert_eq!(*known.borrow_and_update(), 9);
        watcher.check(&conn, &news);
        assert!(!known.has_changed().unwrap());
    }
}
