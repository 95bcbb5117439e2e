//! The thread that writes the index to its database, and the handle of that thread.

use std::sync::{Arc, Condvar, PoisonError};
use std::thread;
use std::time::Duration;

use mgp_types::Backoff;
use mgp_types::store::{Db, StoreError};
use mgp_types::sync::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::queue::{Batch, Change, MAX_QUEUED, Queue};
use super::rows::LoadedIndex;
use super::tables;

/// The delay before a failed write is retried; it doubles up to [`MAX_RETRY_DELAY`].
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);

const MAX_RETRY_DELAY: Duration = Duration::from_mins(1);

/// The number of attempts to write a batch after the handle was dropped; they follow each other without a delay.
const MAX_LAST_ATTEMPTS: u32 = 3;

/// The handle of the thread that writes changes to the database. After the handle is dropped, queued changes are still
/// written, unless writing fails [`MAX_LAST_ATTEMPTS`] times.
pub(crate) struct IndexStore {
    shared: Arc<SharedQueue>,
    progress: watch::Receiver<WriteProgress>,
}

struct SharedQueue {
    state: Mutex<QueueState>,
    /// Wakes the thread when `state` changes, i.e. when a change was queued or a flag was set.
    changed: Condvar,
}

#[derive(Default)]
struct QueueState {
    queue: Queue,
    /// `true` if the handle was dropped; the thread ends once the queue is empty.
    is_closed: bool,
    /// `true` if the writing thread has given up, so that no further changes are written.
    is_broken: bool,
    /// `true` while a caller waits in `flush`, so that a failed write is retried immediately.
    is_urgent: bool,
}

#[derive(Clone, Debug, Default)]
struct WriteProgress {
    /// The sequence number of the last change that was written to the file.
    through: u64,
    /// The number of failed writes so far.
    failures: u64,
    /// The error of the last failed write.
    error: Option<StoreError>,
    /// `true` if the thread has ended.
    is_closed: bool,
}

impl IndexStore {
    /// Reads the index from a database without changing it. Tables that an older version of the program did not create
    /// yet count as empty.
    pub(crate) async fn load(db: &Db) -> Result<LoadedIndex, StoreError> {
        let steps = db.steps_run(tables::NAMESPACE, tables::STEPS.len()).await?;
        match steps {
            0 => Ok(LoadedIndex::default()),
            _ => db.read(move |conn| tables::load(conn, steps)).await,
        }
    }

    /// Creates missing tables, reads the index from a database, and starts the thread that writes later changes.
    pub(crate) async fn open(db: Db) -> Result<(Self, LoadedIndex), StoreError> {
        db.migrate(tables::NAMESPACE, tables::STEPS).await?;
        let opened = Self::load(&db).await?;
        let stored = opened.servers.iter().map(|server| server.server.id.clone());
        let state = QueueState { queue: Queue::new(stored), ..QueueState::default() };
        let shared = Arc::new(SharedQueue { state: Mutex::new(state), changed: Condvar::new() });
        let (sender, progress) = watch::channel(WriteProgress::default());
        let runtime = Builder::new_current_thread().build().map_err(StoreError::failed)?;
        let writer = StoreWriter { shared: Arc::clone(&shared), db, runtime, progress: sender };
        thread::Builder::new()
            .name("mgp-index-store".to_owned())
            .spawn(move || writer.run())
            .map_err(StoreError::failed)?;
        Ok((Self { shared, progress }, opened))
    }

    /// Queues changes that are written in one transaction; never waits.
    pub(crate) fn push(&self, changes: Vec<Change>) {
        let mut state = self.shared.state.lock();
        if !state.is_broken && !changes.is_empty() {
            state.queue.push(changes);
            self.shared.changed.notify_all();
        }
    }

    /// Waits until the queue is at most half full, or until `timeout` has passed. It is meant for threads that produce
    /// changes faster than the disk can write them.
    pub(crate) fn wait_for_room(&self, timeout: Duration) {
        let state = self.shared.state.lock();
        let is_full =
            |state: &mut QueueState| !state.is_broken && state.queue.len() > MAX_QUEUED / 2;
        drop(self.shared.changed.wait_timeout_while(state, timeout, is_full));
    }

    /// Waits until all changes so far are in the file.
    ///
    /// # Errors
    /// Returns the error of a failed write, which is tried again later, or [`StoreError::Closed`] if the store was
    /// closed.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub(crate) async fn flush(&self) -> Result<(), StoreError> {
        let mut progress = self.progress.clone();
        let failures = progress.borrow_and_update().failures;
        let newest = {
            let mut state = self.shared.state.lock();
            state.is_urgent = true;
            self.shared.changed.notify_all();
            state.queue.newest
        };
        let is_settled =
            |now: &WriteProgress| now.through >= newest || now.failures > failures || now.is_closed;
        match progress.wait_for(is_settled).await {
            Ok(now) if now.through >= newest => Ok(()),
            Ok(now) => Err(now.error.clone().unwrap_or(StoreError::Closed)),
            Err(_) => Err(StoreError::Closed),
        }
    }
}

#[cfg(test)]
impl IndexStore {
    /// Returns the receiver of the write progress, whose sender is dropped when the thread ends.
    pub(super) fn progress(&self) -> watch::Receiver<impl Sized + use<>> {
        self.progress.clone()
    }
}

impl Drop for IndexStore {
    fn drop(&mut self) {
        self.shared.state.lock().is_closed = true;
        self.shared.changed.notify_all();
    }
}

mgp_types::opaque_debug!(IndexStore);

struct StoreWriter {
    shared: Arc<SharedQueue>,
    db: Db,
    /// The thread's runtime for waiting for the database; it needs neither timers nor sockets.
    runtime: Runtime,
    progress: watch::Sender<WriteProgress>,
}

impl StoreWriter {
    fn run(self) {
        while let Some(Batch { changes, through }) = self.next() {
            let changes = Arc::new(changes);
            let mut backoff = Backoff::new(MIN_RETRY_DELAY, MAX_RETRY_DELAY);
            let mut last_attempts = MAX_LAST_ATTEMPTS;
            while let Err(error) = self.write(&changes) {
                if matches!(error, StoreError::Closed) {
                    tracing::debug!("store closed; the tool index is no longer stored");
                    return self.end(Some(error));
                }
                last_attempts -= u32::from(self.shared.state.lock().is_closed);
                let is_final = last_attempts == 0;
                let delay = backoff.next_delay();
                if is_final || delay == MIN_RETRY_DELAY {
                    tracing::error!(%error, is_final, "tool index write failed");
                }
                if is_final {
                    return self.end(Some(error));
                }
                self.progress.send_modify(|progress| {
                    progress.failures += 1;
                    progress.error = Some(error);
                });
                self.wait_before_retry(delay);
            }
            self.progress.send_modify(|progress| progress.through = through);
        }
        self.end(None);
    }

    fn next(&self) -> Option<Batch> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(batch) = state.queue.next() {
                self.shared.changed.notify_all();
                return Some(batch);
            }
            if state.is_closed {
                return None;
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write(&self, changes: &Arc<Vec<Change>>) -> Result<(), StoreError> {
        self.shared.state.lock().is_urgent = false;
        let changes = Arc::clone(changes);
        self.runtime.block_on(self.db.write(move |conn| tables::apply(conn, &changes)))
    }

    /// Waits before a retry; ends early if a caller waits in `flush` or the handle is dropped.
    fn wait_before_retry(&self, delay: Duration) {
        let state = self.shared.state.lock();
        let is_waiting = |state: &mut QueueState| !state.is_urgent && !state.is_closed;
        drop(self.shared.changed.wait_timeout_while(state, delay, is_waiting));
    }

    fn end(&self, error: Option<StoreError>) {
        let mut state = self.shared.state.lock();
        state.is_broken = true;
        state.queue.clear();
        drop(state);
        self.shared.changed.notify_all();
        self.progress.send_modify(|progress| {
            progress.failures += u64::from(error.is_some());
            progress.error = error.or(progress.error.take());
            progress.is_closed = true;
        });
    }
}
