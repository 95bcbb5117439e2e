//! Entries that end by themselves: out of force at their moment, then recorded once as ended (MGP §3.6, §5, §6.4).
//!
//! Of all processes that share a store the first one records an end. Its commit depends on the entry not having changed
//! since, so that each end is recorded once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use mgp_types::mgp::AuditEvent;
use mgp_types::service::AuditSink;
use mgp_types::store::{Change, Store, StoreError};
use tokio::runtime::Handle;
use tokio::sync::MutexGuard;

use crate::state::{ChangeError, Found, Snapshot, State};

/// The number of ends that one commit records; further ones follow in the next.
const MAX_ENDS: usize = 256;

/// The number of attempts when other processes change the same entries.
pub(crate) const MAX_ATTEMPTS: usize = 8;

/// A snapshot of entries that may have an end.
pub(crate) trait Expiring: Snapshot {
    /// Returns whether the end of an entry has passed and is still to be recorded.
    fn any_ended(&self, at: SystemTime) -> bool;

    /// Returns whether the end of this entry has passed and is still to be recorded.
    fn has_ended(entry: &Self::Entry, at: SystemTime) -> bool;

    /// Adds to a change what follows from the end of an entry, and returns the event that records it.
    ///
    /// # Errors
    /// [`ChangeError::Encode`] if the entry cannot be written.
    fn end(change: Change, found: &Found<Self::Entry>)
    -> Result<(Change, AuditEvent), ChangeError>;
}

/// Entries in a store, changed one change at a time; a cheap handle.
pub(crate) struct Entries<S: Expiring>(Arc<Shared<S>>);

struct Shared<S: Expiring> {
    state: State<S>,
    clock: OnceLock<Box<Clock>>,
    /// Held by each change, so that its events match what it changes.
    changing: tokio::sync::Mutex<()>,
    /// `true` while a task records the ends of entries.
    recording: AtomicBool,
}

type Clock = dyn Fn() -> SystemTime + Send + Sync;

impl<S: Expiring> Entries<S> {
    /// Creates entries over a store; ends are recorded as they pass.
    pub(crate) fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>) -> Self {
        let entries = Self(Arc::new(Shared {
            state: State::new(store, audit),
            clock: OnceLock::new(),
            changing: tokio::sync::Mutex::default(),
            recording: AtomicBool::new(false),
        }));
        let weak = Arc::downgrade(&entries.0);
        entries.0.state.on_change(move || weak.upgrade().map(|shared| Self(shared).record_soon()));
        entries
    }

    pub(crate) fn state(&self) -> &State<S> {
        &self.0.state
    }

    /// Waits for other changes to finish.
    pub(crate) async fn begin_change(&self) -> MutexGuard<'_, ()> {
        self.0.changing.lock().await
    }

    /// Replaces the clock of the system; the first replacement stays.
    pub(crate) fn set_clock(&self, now: impl Fn() -> SystemTime + Send + Sync + 'static) {
        let _ = self.0.clock.set(Box::new(now));
    }

    /// Returns the time that decides about ends.
    pub(crate) fn now(&self) -> SystemTime {
        self.0.clock.get().map_or_else(SystemTime::now, |clock| clock())
    }

    /// Records what has ended, in a task of its own; without a runtime that waits until the next change.
    fn record_soon(&self) {
        if !self.0.state.now().is_ok_and(|snapshot| snapshot.any_ended(self.now())) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        if self.0.recording.swap(true, Ordering::AcqRel) {
            return;
        }
        let entries = self.clone();
        runtime.spawn(async move {
            let change = entries.begin_change().await;
            if let Err(error) = entries.record_ends().await {
                // They are out of force all the same, and the next change tries again.
                tracing::warn!(space = S::SPACE, %error, "the end of entries was not recorded");
            }
            drop(change);
            entries.0.recording.store(false, Ordering::Release);
        });
    }

    /// Records what has ended, within a change that has [begun](Self::begin_change).
    ///
    /// # Errors
    /// [`ChangeError`] if an end cannot be kept or recorded.
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
                // Another process was first.
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
