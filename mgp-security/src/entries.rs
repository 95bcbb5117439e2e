//! Stored entries that expire. An entry has no effect after its expiry, and an audit event then records once that it
//! ended (MGP §3.6, §5, §6.4).
//!
//! If several processes share a store, the first process that notices the end of an entry records it. The commit fails
//! if the entry has changed since it was read, so each end is recorded only once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use mgp_types::mgp::AuditEvent;
use mgp_types::service::AuditSink;
use mgp_types::store::{Change, Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::MutexGuard;

use crate::state::{ChangeError, Found, Snapshot, State};

/// The maximum number of expired entries whose end one commit records. Another commit records the end of further
/// entries.
const MAX_ENDS: usize = 256;

/// The maximum number of attempts if other processes change the same entries at the same time.
pub(crate) const MAX_ATTEMPTS: usize = 8;

/// A snapshot of entries that can expire.
pub(crate) trait Expiring: Snapshot {
    /// Returns whether any entry has expired and no audit event has recorded that yet.
    fn any_ended(&self, at: SystemTime) -> bool;

    /// Returns whether this entry has expired and no audit event has recorded that yet.
    fn has_ended(entry: &Self::Entry, at: SystemTime) -> bool;

    /// Adds the removal or update of an expired entry to a change. Returns the change, and the event that records the
    /// end.
    ///
    /// # Errors
    /// [`ChangeError::Encode`] if the entry cannot be written.
    fn end(change: Change, found: &Found<Self::Entry>)
    -> Result<(Change, AuditEvent), ChangeError>;
}

/// Entries in a store; this process makes only one change at a time. A handle that is cheap to clone.
pub(crate) struct Entries<S: Expiring>(Arc<Shared<S>>);

struct Shared<S: Expiring> {
    state: State<S>,
    clock: OnceLock<Box<Clock>>,
    /// Locked during each change, so that the audit events match the changed entries.
    changing: tokio::sync::Mutex<()>,
    /// `true` while a task waits for its turn to record the ends of expired entries.
    is_queued: AtomicBool,
}

type Clock = dyn Fn() -> SystemTime + Send + Sync;

impl<S: Expiring> Entries<S> {
    /// Creates entries over a store. The end of each entry is recorded shortly after its expiry.
    pub(crate) fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>) -> Self {
        let entries = Self(Arc::new(Shared {
            state: State::new(store, audit),
            clock: OnceLock::new(),
            changing: tokio::sync::Mutex::default(),
            is_queued: AtomicBool::new(false),
        }));
        let weak = Arc::downgrade(&entries.0);
        entries.0.state.on_change(move || weak.upgrade().map(|shared| Self(shared).record_soon()));
        entries
    }

    pub(crate) fn state(&self) -> &State<S> {
        &self.0.state
    }

    /// Waits until no other change of this process is in progress. The change lasts as long as the returned guard.
    pub(crate) async fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.0.changing.lock().await
    }

    /// Replaces the system clock; only the first call has an effect.
    pub(crate) fn set_clock(&self, now: impl Fn() -> SystemTime + Send + Sync + 'static) {
        let _ = self.0.clock.set(Box::new(now));
    }

    /// Returns the current time, against which expiries are compared.
    pub(crate) fn now(&self) -> SystemTime {
        self.0.clock.get().map_or_else(SystemTime::now, |clock| clock())
    }

    /// Starts a task that records the ends of expired entries. Outside of a tokio runtime no task is started; the next
    /// change of an entry then records them.
    fn record_soon(&self) {
        if !self.0.state.now().is_ok_and(|snapshot| snapshot.any_ended(self.now())) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        if self.0.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let entries = self.clone();
        runtime.spawn(async move {
            let _change = entries.begin_change().await;
            // From here on, an entry that expires starts a further task, because `record_ends` might miss it.
            entries.0.is_queued.swap(false, Ordering::AcqRel);
            if let Err(error) = entries.record_ends().await {
                // Only log the error: the expired entries have no effect in any case, and the next change tries again
                // to record their ends.
                tracing::warn!(space = S::SPACE, %error, "the ends of expired entries were not recorded");
            }
        });
    }

    /// Records the ends of all expired entries. The caller must have called [`begin_change`](Self::begin_change).
    ///
    /// # Errors
    /// [`ChangeError`] if an end cannot be stored or recorded.
    pub(crate) async fn record_ends(&self) -> Result<(), ChangeError> {
        let state = &self.0.state;
        let mut conflicts = 0;
        while state.now()?.any_ended(self.now()) {
            let now = self.now();
            let mut ended = state.latest(|entry| S::has_ended(entry, now)).await?;
            ended.truncate(MAX_ENDS);
            let mut change = Change::new();
            let mut events = Vec::with_capacity(ended.len());
            for found in &ended {
                let (more, event) = S::end(change, found)?;
                change = more;
                events.push(event);
            }
            if events.is_empty() {
                return Ok(());
            }
            match state.commit_end(change, events).await {
                // Another process changed one of the entries at the same time: retry.
                Err(ChangeError::Store(StoreError::Conflict { .. }))
                    if conflicts < MAX_ATTEMPTS =>
                {
                    conflicts += 1;
                }
                done => done?,
            }
        }
        Ok(())
    }
}

impl<S: Expiring> Clone for Entries<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}
