//! A store for tests that fails on purpose.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::service::BoxFuture;
use mgp_types::store::{Change, LoadedRecords, MemoryStore, PendingEvent, Store, StoreError};
use tokio::sync::watch;

/// A store in memory that refuses changes of one space while it is broken.
pub(crate) struct Brittle {
    inner: MemoryStore,
    space: &'static str,
    is_broken: AtomicBool,
}

impl Brittle {
    /// Creates a store that works until it is set to be broken.
    pub(crate) fn of(space: &'static str) -> Self {
        Self { inner: MemoryStore::new(), space, is_broken: AtomicBool::new(false) }
    }

    pub(crate) fn set_broken(&self, is_broken: bool) {
        self.is_broken.store(is_broken, Ordering::SeqCst);
    }
}

impl Store for Brittle {
    fn load(&self, space: &'static str) -> BoxFuture<'static, Result<LoadedRecords, StoreError>> {
        self.inner.load(space)
    }

    fn changes(
        &self,
        space: &'static str,
        since: u64,
    ) -> BoxFuture<'static, Result<LoadedRecords, StoreError>> {
        self.inner.changes(space, since)
    }

    fn commit(&self, change: Change) -> BoxFuture<'static, Result<u64, StoreError>> {
        let is_of_space = change.writes_to(self.space).next().is_some();
        if is_of_space && self.is_broken.load(Ordering::SeqCst) {
            return Box::pin(ready(Err(StoreError::Busy("it is broken"))));
        }
        self.inner.commit(change)
    }

    fn revision(&self) -> watch::Receiver<u64> {
        self.inner.revision()
    }

    fn pending_events(
        &self,
        log: &str,
        most: usize,
    ) -> BoxFuture<'static, Result<Vec<PendingEvent>, StoreError>> {
        self.inner.pending_events(log, most)
    }

    fn acknowledge(&self, log: &str, through: u64) -> BoxFuture<'static, Result<(), StoreError>> {
        self.inner.acknowledge(log, through)
    }
}
