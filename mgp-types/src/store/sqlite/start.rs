//! Opens and closes a store. Both happen on the writing thread, so that no thread of a runtime waits for the disk.

use std::sync::mpsc::sync_channel;
use std::thread::{Builder, JoinHandle};

use rusqlite::Connection;
use tokio::sync::{oneshot, watch};

use super::file::FileIdentity;
use super::job::{Jobs, Queue};
use super::{ANSWER_TIMEOUT, Db, DbConfig, Queues, file, records, threads};
use crate::store::StoreError;

const MAX_QUEUED_IN_MEMORY: usize = 1024;

/// Opens a file; without a configuration, opens a database in memory.
pub(super) async fn start(config: Option<DbConfig>) -> Result<Db, StoreError> {
    let (report, opened) = oneshot::channel();
    spawn("mgp-store-write", move || match config.map_or_else(in_memory, in_file) {
        Ok((db, writer)) => {
            // If the caller has dropped its future, the handle is dropped here, and the store is closed.
            drop(report.send(Ok(db)));
            writer.run();
        }
        Err(error) => drop(report.send(Err(error))),
    })?;
    opened.await.unwrap_or(Err(StoreError::Closed))
}

/// The state of the writing thread, which runs until the last handle of the store is dropped.
struct Writer {
    conn: Connection,
    /// The identity of the file; `None` for a database in memory.
    file: Option<FileIdentity>,
    jobs: Jobs,
    readers: Vec<JoinHandle<()>>,
    /// The sender of revisions. It is dropped after the file is closed, which wakes callers that wait until the store
    /// is closed.
    news: watch::Sender<u64>,
}

impl Writer {
    fn run(self) {
        threads::write(&self.conn, self.file.as_ref(), &self.jobs, &self.news);
        // Wait until the other connections are closed, because the last connection that closes writes the log into the
        // file. If two connections closed at the same time, neither would write it.
        for reader in self.readers {
            let _ = reader.join();
        }
        if let Err((_, error)) = self.conn.close() {
            tracing::warn!(%error, "store not closed cleanly; the next open repairs it");
        }
    }
}

fn in_memory() -> Result<(Db, Writer), StoreError> {
    let conn = file::in_memory()?;
    let (write, jobs) = sync_channel(MAX_QUEUED_IN_MEMORY);
    let (news, known) = watch::channel(0);
    // A database in memory is visible to only one connection, so the writing thread must also run the reads.
    let queues = Queues { read: write.clone(), query: write.clone(), write };
    let db = Db::new(queues, known, None, ANSWER_TIMEOUT);
    Ok((db, Writer { conn, file: None, jobs, readers: Vec::new(), news }))
}

fn in_file(config: DbConfig) -> Result<(Db, Writer), StoreError> {
    let file::OpenFile { conn, unsynced, identity } = file::open(&config)?;
    let (news, known) = watch::channel(records::revision(&conn)?);
    let (write, jobs) = sync_channel(config.max_queued.max(1));
    let news_of_reader = news.clone();
    let (read, reads) = reader("mgp-store-read", &config, move |conn, jobs| {
        threads::read_and_watch(conn, jobs, &news_of_reader, unsynced);
    })?;
    let (query, queries) = reader("mgp-store-query", &config, threads::read)?;
    let queues = Queues { write, read, query };
    let writer = Writer { conn, file: Some(identity), jobs, readers: vec![reads, queries], news };
    Ok((Db::new(queues, known, Some(config.path), config.answer_timeout), writer))
}

fn reader(
    name: &str,
    config: &DbConfig,
    run: impl FnOnce(&Connection, &Jobs) + Send + 'static,
) -> Result<(Queue, JoinHandle<()>), StoreError> {
    let conn = file::connect(config, file::Purpose::Read)?;
    let (queue, jobs) = sync_channel(config.max_queued.max(1));
    let thread = spawn(name, move || run(&conn, &jobs))?;
    Ok((queue, thread))
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    Builder::new().name(name.to_owned()).spawn(run).map_err(StoreError::failed)
}
