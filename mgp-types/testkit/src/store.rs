//! A store in memory whose operations wait or fail as a test needs it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgp_types::service::BoxFuture;
use mgp_types::store::{Change, LoadedRecords, MemoryStore, PendingEvent, Store, StoreError};
use tokio::sync::watch;

/// The future answer of a store to one operation.
pub type StoreAnswer<T> = BoxFuture<'static, Result<T, StoreError>>;

type Records = StoreAnswer<LoadedRecords>;
type OnRead = dyn Fn(&FaultyStore, Option<u64>, Records) -> Records + Send + Sync;
type OnCommit = dyn Fn(&FaultyStore, Change) -> StoreAnswer<u64> + Send + Sync;

/// A store in memory for tests. A test can replace operations, so that they wait or fail. Clones share the content and
/// all settings.
#[derive(Clone, Default)]
pub struct FaultyStore {
    inner: MemoryStore,
    is_failing: Arc<AtomicBool>,
    on_read: Option<Arc<OnRead>>,
    on_commit: Option<Arc<OnCommit>>,
    pending_delay: Duration,
    revision: Option<watch::Receiver<u64>>,
    answer_timeout: Option<Duration>,
}

impl FaultyStore {
    /// Creates a store that works like `inner` until one of the methods below changes an operation.
    #[must_use]
    pub fn new(inner: MemoryStore) -> Self {
        Self { inner, ..Self::default() }
    }

    /// Creates a store that refuses changes of the records in a space while [`is_failing`](Self::is_failing) returns
    /// `true`.
    #[must_use]
    pub fn of_space(space: &'static str) -> Self {
        Self::default().on_commit(move |store, change| {
            if store.is_failing() && change.writes_to(space).next().is_some() {
                return store_busy("it is broken");
            }
            store.inner().commit(change)
        })
    }

    /// Passes the answer of each read to the function `answer`, which returns the answer for the reader. The second
    /// argument of the function is the revision since which changes are read, or `None` if all records are read.
    #[must_use]
    pub fn on_read<F>(mut self, answer: F) -> Self
    where
        F: Fn(&Self, Option<u64>, Records) -> Records + Send + Sync + 'static,
    {
        self.on_read = Some(Arc::new(answer));
        self
    }

    /// Passes each change to the function `commit` instead of the store in memory. The function may commit the change
    /// to that store.
    #[must_use]
    pub fn on_commit<F>(mut self, commit: F) -> Self
    where
        F: Fn(&Self, Change) -> StoreAnswer<u64> + Send + Sync + 'static,
    {
        self.on_commit = Some(Arc::new(commit));
        self
    }

    /// Makes each read of pending events block its thread for this time.
    #[must_use]
    pub fn pending_delay(mut self, delay: Duration) -> Self {
        self.pending_delay = delay;
        self
    }

    /// Makes the store announce only the revisions that this receiver receives, instead of its own.
    #[must_use]
    pub fn with_revision(mut self, revision: watch::Receiver<u64>) -> Self {
        self.revision = Some(revision);
        self
    }

    /// Sets the time for which callers wait for an answer of the store.
    #[must_use]
    pub fn with_answer_timeout(mut self, timeout: Duration) -> Self {
        self.answer_timeout = Some(timeout);
        self
    }

    /// Returns the store in memory that executes the operations.
    #[must_use]
    pub fn inner(&self) -> &MemoryStore {
        &self.inner
    }

    /// Sets the flag that [`is_failing`](Self::is_failing) returns. The store itself ignores the flag; the functions
    /// that a test passed to this store decide about its meaning.
    pub fn set_failing(&self, is_failing: bool) {
        self.is_failing.store(is_failing, Ordering::SeqCst);
    }

    /// Returns the flag that [`set_failing`](Self::set_failing) sets.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::SeqCst)
    }

    fn read(&self, since: Option<u64>, read: Records) -> Records {
        match &self.on_read {
            Some(on_read) => on_read(self, since, read),
            None => read,
        }
    }
}

/// Returns the answer of a store that is too busy for an operation.
#[must_use]
pub fn store_busy<T: Send + 'static>(reason: &'static str) -> StoreAnswer<T> {
    Box::pin(std::future::ready(Err(StoreError::Busy(reason))))
}

impl Store for FaultyStore {
    fn load(&self, space: &'static str) -> Records {
        self.read(None, self.inner.load(space))
    }

    fn changes(&self, space: &'static str, since: u64) -> Records {
        self.read(Some(since), self.inner.changes(space, since))
    }

    fn commit(&self, change: Change) -> StoreAnswer<u64> {
        match &self.on_commit {
            Some(on_commit) => on_commit(self, change),
            None => self.inner.commit(change),
        }
    }

    fn revision(&self) -> watch::Receiver<u64> {
        self.revision.clone().unwrap_or_else(|| self.inner.revision())
    }

    fn pending_events(&self, log: &str, limit: usize) -> StoreAnswer<Vec<PendingEvent>> {
        let (pending, delay) = (self.inner.pending_events(log, limit), self.pending_delay);
        Box::pin(async move {
            std::thread::sleep(delay);
            pending.await
        })
    }

    fn acknowledge(&self, log: &str, through: u64) -> StoreAnswer<()> {
        self.inner.acknowledge(log, through)
    }

    fn answer_timeout(&self) -> Duration {
        self.answer_timeout.unwrap_or_else(|| self.inner.answer_timeout())
    }
}

impl fmt::Debug for FaultyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyStore").field("inner", &self.inner).finish_non_exhaustive()
    }
}
