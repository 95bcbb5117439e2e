//! The threads of a store: one writes, one reads and checks for changes by other processes, one reads for callers.
//!
//! Each ends when all senders of its queue are gone.

use std::iter;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use rusqlite::{Connection, Transaction, TransactionBehavior};
use tokio::sync::watch;
use tokio::time::Instant;

use super::DbFault;
use super::file;
use super::job::{Job, Jobs};
use super::records;
use crate::store::StoreError;

/// The maximum number of jobs per transaction, so that the first of them is answered soon.
const TOGETHER_MAX: usize = 256;

/// The interval between checks for changes by other processes.
///
/// A check takes 7 µs, and the wake-up for it up to 70 µs: 0.2 % of one core.
const LOOK: Duration = Duration::from_millis(50);

/// The delay before a new file is synced: processes that open it read most in that time, and have priority.
const OWING: Duration = Duration::from_millis(50);

/// Runs the queued writes.
pub(super) fn write(conn: &Connection, jobs: &Jobs, news: &watch::Sender<u64>) {
    while let Ok(first) = jobs.recv() {
        let mut batch: Vec<_> =
            iter::once(first).chain(jobs.try_iter()).take(TOGETHER_MAX).collect();
        let committed = commit(conn, &mut batch);
        if let Ok(revision) = committed {
            tell(news, revision);
        }
        let kept = committed.map(drop);
        for job in batch {
            job.answer(kept.clone());
        }
    }
}

/// Reads for the store itself, notifies of changes by other processes, and syncs a new file.
///
/// Writers do not wait for the sync. If this thread ends before, closing the file syncs it.
pub(super) fn read_and_look(conn: &Connection, jobs: &Jobs, news: &watch::Sender<u64>, owes: bool) {
    let mut look = Look { seen: None, failing: false };
    let mut due = Instant::now();
    let mut owed = owes.then_some(due);
    loop {
        match jobs.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(job) => read_one(conn, job),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if Instant::now() >= due {
            look.look(conn, news);
            due = Instant::now() + LOOK;
        }
        if owed.take_if(|since| since.elapsed() >= OWING).is_some()
            && let Err(error) = file::settle(conn)
        {
            tracing::warn!(%error, "a new store is brought to the disk later");
        }
    }
}

/// Reads for callers, whose queries may take longer than the store itself can wait.
pub(super) fn read(conn: &Connection, jobs: &Jobs) {
    for job in jobs {
        read_one(conn, job);
    }
}

/// Runs all jobs in one transaction; a failed job does not affect the others.
///
/// Returns the newest revision.
fn commit(conn: &Connection, batch: &mut [Box<dyn Job>]) -> Result<u64, StoreError> {
    let tx = Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
    for job in batch {
        tx.execute_batch("SAVEPOINT job")?;
        let ran = job.run(&tx);
        if tx.is_autocommit() {
            // After some errors SQLite rolls back the whole transaction.
            return Err(ran.err().unwrap_or(DbFault::Ended.into()));
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

/// Runs a job on a consistent snapshot.
fn read_one(conn: &Connection, mut job: Box<dyn Job>) {
    let ran = Transaction::new_unchecked(conn, TransactionBehavior::Deferred)
        .map_err(StoreError::from)
        .and_then(|tx| job.run(&tx));
    job.answer(ran);
}

/// Notifies of a revision, unless a newer one is known.
fn tell(news: &watch::Sender<u64>, revision: u64) {
    news.send_if_modified(|known| {
        let is_newer = revision > *known;
        *known = revision.max(*known);
        is_newer
    });
}

/// The watcher for changes by other processes.
struct Look {
    seen: Option<i64>,
    failing: bool,
}

impl Look {
    fn look(&mut self, conn: &Connection, news: &watch::Sender<u64>) {
        let looked = self.try_look(conn, news);
        if let Err(error) = &looked {
            if !self.failing {
                tracing::error!(%error, "other processes' changes of the store cannot be seen");
            }
            // Subscribers read again, and get the error.
            news.send_modify(|_| {});
        }
        self.failing = looked.is_err();
    }

    fn try_look(&mut self, conn: &Connection, news: &watch::Sender<u64>) -> rusqlite::Result<()> {
        let version = conn.query_row("PRAGMA data_version", [], |row| row.get(0))?;
        if self.seen != Some(version) {
            tell(news, records::revision(conn)?);
            self.seen = Some(version);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_follows_is_woken_when_others_can_no_longer_be_seen() {
        let (news, mut known) = watch::channel(7);
        // There is no table to read the revision from.
        let conn = Connection::open_in_memory().unwrap();
        let mut look = Look { seen: None, failing: false };
        look.look(&conn, &news);
        assert!(look.failing && known.has_changed().unwrap());
        assert_eq!(*known.borrow_and_update(), 7);

        conn.execute_batch(
            "CREATE TABLE store_state (revision); INSERT INTO store_state VALUES (9)",
        )
        .unwrap();
        look.look(&conn, &news);
        assert!(!look.failing);
        assert_eq!(*known.borrow_and_update(), 9);
        look.look(&conn, &news);
        assert!(!known.has_changed().unwrap());
    }
}
