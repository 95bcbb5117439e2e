//! The thread that writes the index, and the handle to it.
//!
//! Applies to: both.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use mgp_types::store::{Db, StoreError};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use super::queue::{Batch, Change, MOST, Queue};
use super::rows::Opened;
use super::tables;

/// How long a write that failed is left alone; twice as long each time, up to [`LONGEST`].
const AGAIN: Duration = Duration::from_secs(1);

const LONGEST: Duration = Duration::from_mins(1);

/// How often a write is tried that nobody waits for any more, at once each time.
const LAST_TRIES: u32 = 3;

/// Writes an index into its database; once it is dropped, what waits is still written.
pub(crate) struct Keeper {
    shared: Arc<Shared>,
    /// How far it got.
    progress: watch::Receiver<Progress>,
}

struct Shared {
    state: Mutex<State>,
    /// Something was given, taken, or is to be tried again.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: Queue,
    /// Nobody gives anything any more.
    ended: bool,
    /// Nothing can be written any more.
    broken: bool,
    /// Somebody waits for what failed.
    hurry: bool,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    /// All changes up to this one are in the file.
    through: u64,
    /// How often something could not be written.
    failures: u64,
    /// Why, the last time.
    error: Option<StoreError>,
    /// Nothing comes after this.
    ended: bool,
}

// === impl Keeper ===

impl Keeper {
    /// Reads what a database holds, and writes from now on.
    pub(crate) async fn open(db: Db) -> Result<(Self, Opened), StoreError> {
        db.migrate(tables::NAMESPACE, tables::STEPS).await?;
        let opened = db.read(tables::load).await?;
        let kept = opened.servers.iter().map(|server| server.server.id.clone());
        let state = State { queue: Queue::new(kept), ..State::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let (tell, progress) = watch::channel(Progress::default());
        let runtime = Builder::new_current_thread().build().map_err(StoreError::failed)?;
        let writer = Writer { shared: Arc::clone(&shared), db, runtime, tell };
        thread::Builder::new()
            .name("mgp-index-keeper".to_owned())
            .spawn(move || writer.run())
            .map_err(StoreError::failed)?;
        Ok((Self { shared, progress }, opened))
    }

    /// Hands changes over that are to be written together, or not at all; never waits.
    pub(crate) fn give(&self, changes: Vec<Change>) {
        let mut state = self.shared.lock();
        if !state.broken && !changes.is_empty() {
            state.queue.push(changes);
            self.shared.changed.notify_all();
        }
    }

    /// Waits until less than half of what may wait does, or nothing is written any more.
    ///
    /// For threads that make more than the disk can take.
    pub(crate) fn wait_for_room(&self, patience: Duration) {
        let state = self.shared.lock();
        let full = |state: &mut State| !state.broken && state.queue.len() > MOST / 2;
        drop(self.shared.changed.wait_timeout_while(state, patience, full));
    }

    /// Waits until everything that was given so far is in the file.
    ///
    /// # Errors
    /// Why it could not be written; it is tried again later all the same.
    ///
    /// # Cancel safety
    /// Safe to drop at any time.
    pub(crate) async fn flush(&self) -> Result<(), StoreError> {
        let mut progress = self.progress.clone();
        let failures = progress.borrow_and_update().failures;
        let given = {
            let mut state = self.shared.lock();
            state.hurry = true;
            self.shared.changed.notify_all();
            state.queue.given
        };
        let settled = |now: &Progress| now.through >= given || now.failures > failures || now.ended;
        match progress.wait_for(settled).await {
            Ok(now) if now.through >= given => Ok(()),
            Ok(now) => Err(now.error.clone().unwrap_or(StoreError::Closed)),
            Err(_) => Err(StoreError::Closed),
        }
    }
}

#[cfg(test)]
impl Keeper {
    /// How many changes wait.
    pub(super) fn waiting(&self) -> usize {
        self.shared.lock().queue.len()
    }

    /// Ends when nothing is written any more.
    pub(super) fn ended(&self) -> watch::Receiver<impl Sized + use<>> {
        self.progress.clone()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.shared.lock().queue.len();
        f.debug_struct("Keeper").field("waiting", &waiting).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread has.
struct Writer {
    shared: Arc<Shared>,
    db: Db,
    /// Waits for the database; it needs neither timers nor sockets.
    runtime: Runtime,
    tell: watch::Sender<Progress>,
}

// === impl Writer ===

impl Writer {
    fn run(self) {
        while let Some(Batch { changes, through }) = self.next() {
            let changes = Arc::new(changes);
            let (mut wait, mut last_tries) = (AGAIN, LAST_TRIES);
            while let Err(error) = self.write(&changes) {
                last_tries -= u32::from(self.shared.lock().ended);
                let is_over = matches!(error, StoreError::Closed) || last_tries == 0;
                if is_over || wait == AGAIN {
                    tracing::error!(%error, is_over, "the tool index could not be written");
                }
                if is_over {
                    return self.end(Some(error));
                }
                self.tell.send_modify(|progress| {
                    progress.failures += 1;
                    progress.error = Some(error);
                });
                self.pause(wait);
                wait = (wait * 2).min(LONGEST);
            }
            self.tell.send_modify(|progress| progress.through = through);
        }
        self.end(None);
    }

    fn next(&self) -> Option<Batch> {
        let mut state = self.shared.lock();
        loop {
            if let Some(batch) = state.queue.next() {
                self.shared.changed.notify_all();
                return Some(batch);
            }
            if state.ended {
                return None;
            }
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn write(&self, changes: &Arc<Vec<Change>>) -> Result<(), StoreError> {
        self.shared.lock().hurry = false;
        let changes = Arc::clone(changes);
        self.runtime.block_on(self.db.write(move |conn| tables::apply(conn, &changes)))
    }

    /// Leaves the file alone for a while, unless somebody waits for it or nobody comes any more.
    fn pause(&self, wait: Duration) {
        let state = self.shared.lock();
        let patient = |state: &mut State| !state.hurry && !state.ended;
        drop(self.shared.changed.wait_timeout_while(state, wait, patient));
    }

    fn end(&self, error: Option<StoreError>) {
        let mut state = self.shared.lock();
        state.broken = true;
        state.queue.clear();
        drop(state);
        self.shared.changed.notify_all();
        self.tell.send_modify(|progress| {
            progress.failures += u64::from(error.is_some());
            progress.error = error.or(progress.error.take());
            progress.ended = true;
        });
    }
}
