//! Persistent state: entries in a store, and the snapshot of them that decisions read.
//!
//! The snapshot is replaced only by reading the changes of the store ("catching up"), no matter which process made
//! these changes. A change of this process is in force before its caller gets an answer; a change of another process
//! takes effect shortly after its commit.

mod check;
mod remove;
mod replace;
#[cfg(test)]
mod tests;
mod undo;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context as Task, Waker};
use std::time::{Duration, SystemTime};

use mgp_types::mgp::AuditEvent;
use mgp_types::service::{AuditError, AuditSink};
use mgp_types::store::{Change, Store, StoreError, with_timeout};
use mgp_types::sync::RwLock;
use mgp_types::{Payload, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};

use self::undo::UndoChange;
use crate::hooks::{HookState, Hooks};

pub(crate) use check::check_entries;

/// The delay before a store is read again after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The maximum time for which the task that waits for the next expiry sleeps. After the machine was suspended, an
/// expiry is announced with at most this delay.
const MAX_SLEEP: Duration = Duration::from_mins(1);

/// An immutable view of all entries of one space, from which decisions are made.
pub(crate) trait Snapshot: Send + Sync + 'static {
    /// The type of an entry, which is stored under one key.
    type Entry: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// The space of the store, i.e. its group of records, in which the entries are.
    const SPACE: &'static str;

    /// Builds the snapshot from all entries.
    fn of(entries: &BTreeMap<String, Arc<Self::Entry>>) -> Self;

    /// Returns the time of the first expiry after the given time, or `None` if nothing expires.
    fn next_expiry(&self, _after: SystemTime) -> Option<SystemTime> {
        None
    }
}

/// Entries of one type in a store, with their snapshot; a handle that is cheap to clone.
pub(crate) struct State<S: Snapshot>(Arc<StoreCache<S>>);

struct StoreCache<S: Snapshot> {
    store: Arc<dyn Store>,
    audit: Arc<dyn AuditSink>,
    now: RwLock<Arc<S>>,
    /// `true` before the store is first read, and while it cannot be read; no decision is possible then.
    lost: AtomicBool,
    /// Locked while the snapshot catches up, so that an older snapshot never replaces a newer one.
    table: tokio::sync::Mutex<EntryTable<S::Entry>>,
    /// The revision of the store that the snapshot shows.
    known: AtomicU64,
    /// Receives each new revision of the store.
    news: watch::Receiver<u64>,
    hooks: Hooks,
    /// The hooks that run when the store can be read again, before the other hooks.
    recovery_hooks: Hooks,
    /// `true` while a task follows the store, i.e. reads each of its changes. The task ends with its runtime.
    followed: AtomicBool,
    /// Wakes the task that follows the store, to retry after a failed read, or to end after the last handle was
    /// dropped.
    again: Arc<Notify>,
}

struct EntryTable<E> {
    entries: BTreeMap<String, Arc<E>>,
    /// The revision of the store at which the entry of each key was written.
    written: HashMap<String, u64>,
    /// The revision of the store up to which the entries were read; `None` before the first load.
    revision: Option<u64>,
}

/// An entry that was read from the store.
pub(crate) struct Found<E> {
    pub(crate) key: String,
    pub(crate) entry: Arc<E>,
    /// The revision of the store at which the entry was written. A change that expects this revision fails if the entry
    /// has been changed since.
    pub(crate) revision: u64,
}

/// The reason why a change of the state failed, or why its outcome is not certain.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The store refused the change of the state.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store did not answer in time; the change may have been made or may still be made.
    #[error("it is not known whether the change was made: {0}")]
    Late(#[source] StoreError),
    /// The change cannot be recorded, so it was not made, or was undone.
    #[error("the change was not made: {0}")]
    Unaudited(#[from] AuditError),
    /// An entry of the state cannot be written as JSON.
    #[error("the change was not made: {0}")]
    Encode(#[source] RpcError),
    /// The change was made, but the store cannot be read again. No decisions are made until that succeeds.
    #[error("the change was made, but the new state cannot be read: {0}")]
    Unread(#[source] StoreError),
    /// The change was made, but could be neither recorded nor undone.
    #[error("the change was made and could not be recorded: {0}")]
    Unrecorded(#[source] AuditError),
}

impl ChangeError {
    /// Returns the message for a caller. It omits details of a store's failure: these are only in the error's sources,
    /// which operators see.
    pub(crate) fn caller_message(&self) -> String {
        match self {
            Self::Store(error) => format!("the change was not made: {}", caller_message(error)),
            Self::Unread(error) => {
                format!(
                    "the change was made, but the new state cannot be read: {}",
                    caller_message(error)
                )
            }
            other => other.to_string(),
        }
    }
}

fn commit_error(error: StoreError) -> ChangeError {
    match error {
        StoreError::Timeout(_) => ChangeError::Late(error),
        error => ChangeError::Store(error),
    }
}

/// Returns the message for a caller about a failed store, without details.
pub(crate) fn caller_message(error: &StoreError) -> String {
    RpcError::from(error.clone()).message().to_owned()
}

/// The entries to write, by key; `None` removes an entry.
pub(crate) type Writes<E> = Vec<(String, Option<E>)>;

impl<S: Snapshot> State<S> {
    /// Creates a state over a store; no decision can be made before [`open`](Self::open) has read the store.
    pub(crate) fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>) -> Self {
        let entries = BTreeMap::new();
        let state = Self(Arc::new(StoreCache {
            news: store.revision(),
            store,
            audit,
            now: RwLock::new(Arc::new(S::of(&entries))),
            lost: AtomicBool::new(true),
            table: tokio::sync::Mutex::new(EntryTable {
                entries,
                written: HashMap::new(),
                revision: None,
            }),
            known: AtomicU64::new(0),
            hooks: Hooks::default(),
            recovery_hooks: Hooks::default(),
            followed: AtomicBool::new(false),
            again: Arc::default(),
        }));
        // A memory store answers immediately, so its state is opened here. Any other store must be opened with
        // [`open`](Self::open).
        let _ = pin!(state.0.catch_up()).poll(&mut Task::from_waker(Waker::noop()));
        state
    }

    /// Reads the store and follows its changes.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub(crate) async fn open(&self) -> Result<(), StoreError> {
        self.0.catch_up().await?;
        self.follow();
        Ok(())
    }

    /// Returns the snapshot.
    ///
    /// # Errors
    /// [`StoreError::NotLoaded`] if the store was not read yet or cannot be read: an old snapshot could grant too much.
    pub(crate) fn now(&self) -> Result<Arc<S>, StoreError> {
        self.readable()?;
        Ok(Arc::clone(&self.0.now.read()))
    }

    /// Checks that decisions can be made from the snapshot.
    ///
    /// # Errors
    /// The same errors as [`now`](Self::now).
    pub(crate) fn readable(&self) -> Result<(), StoreError> {
        let inner = &*self.0;
        if inner.followed.load(Ordering::Acquire) && !inner.lost.load(Ordering::Acquire) {
            return Ok(());
        }
        self.readable_alone()
    }

    /// Checks the same as [`readable`](Self::readable), for the rare cases in which no task follows the store or the
    /// snapshot might be outdated. Starts the task if there is none.
    #[cold]
    fn readable_alone(&self) -> Result<(), StoreError> {
        if self.0.news.has_changed().is_err() {
            return Err(StoreError::Closed);
        }
        self.follow();
        if self.0.is_current() { Ok(()) } else { Err(StoreError::NotLoaded) }
    }

    /// Catches up with the store, and returns the matching entries.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    pub(crate) async fn latest(
        &self,
        is_wanted: impl Fn(&S::Entry) -> bool,
    ) -> Result<Vec<Found<S::Entry>>, StoreError> {
        with_timeout(self.0.store.answer_timeout(), self.catch_up()).await?;
        let table = self.0.table.lock().await;
        let wanted = table.entries.iter().filter(|(_, entry)| is_wanted(entry));
        Ok(wanted
            .map(|(key, entry)| Found {
                key: key.clone(),
                entry: Arc::clone(entry),
                revision: table.written.get(key).copied().unwrap_or_default(),
            })
            .collect())
    }

    /// Writes entries together with their audit events. When this returns, the change is in force.
    ///
    /// # Errors
    /// The same errors as [`commit`](Self::commit).
    pub(crate) async fn write(
        &self,
        writes: Writes<S::Entry>,
        events: Vec<AuditEvent>,
    ) -> Result<u64, ChangeError> {
        self.commit(Self::with_writes(Change::new(), writes)?, events).await
    }

    /// Adds writes to a change.
    fn with_writes(mut change: Change, writes: Writes<S::Entry>) -> Result<Change, ChangeError> {
        for (key, entry) in writes {
            change = match entry {
                Some(entry) => {
                    change.put(S::SPACE, key, Payload::of(&entry).map_err(ChangeError::Encode)?)
                }
                None => change.remove(S::SPACE, key),
            };
        }
        Ok(change)
    }

    /// Commits a change of this space, with its audit events.
    ///
    /// If the audit sink reads its events from this same store, the change and its events form one commit. Otherwise
    /// the events are recorded after the change. If the sink refuses them, the change is undone, unless that fails too.
    ///
    /// # Errors
    /// - [`ChangeError::Unread`]: the change was made, but cannot be read back yet.
    /// - [`ChangeError::Unrecorded`]: the change was made; it could be neither recorded nor undone.
    /// - [`ChangeError::Late`]: the change may have been made or may be made later; the snapshot shows it as soon as it
    ///   is made.
    /// - Any other [`ChangeError`]: the change was not made, or was undone.
    pub(crate) async fn commit(
        &self,
        mut change: Change,
        events: Vec<AuditEvent>,
    ) -> Result<u64, ChangeError> {
        let inner = &*self.0;
        let patience = inner.store.answer_timeout();
        let commit = |change| async move {
            with_timeout(patience, inner.store.commit(change)).await.map_err(|error| {
                // Start the task that follows the store: it detects whether the change was made.
                self.follow();
                commit_error(error)
            })
        };
        let revision = match inner.audit.outbox(&*inner.store) {
            Some(log) => {
                for event in events {
                    change = change.event(log, event);
                }
                commit(change).await?
            }
            None if events.is_empty() => commit(change).await?,
            None => self.commit_and_record(change, events).await?,
        };
        let seen = with_timeout(patience, self.catch_up()).await;
        self.follow();
        if matches!(seen, Err(StoreError::Timeout(_))) {
            inner.again.notify_one();
        }
        seen.map_err(ChangeError::Unread)?;
        Ok(revision)
    }

    /// Commits the expiry of an entry. Unlike other changes, it is made even if it cannot be recorded.
    ///
    /// # Errors
    /// The same errors as [`commit`](Self::commit), but a change that could not be recorded is not undone.
    pub(crate) async fn commit_end(
        &self,
        change: Change,
        events: Vec<AuditEvent>,
    ) -> Result<(), ChangeError> {
        let inner = &*self.0;
        if inner.audit.outbox(&*inner.store).is_some() {
            return self.commit(change, events).await.map(drop);
        }
        self.commit(change, Vec::new()).await?;
        for event in events {
            inner.audit.record(event).await.map_err(ChangeError::Unrecorded)?;
        }
        Ok(())
    }

    /// Commits a change, then records its events in a sink that does not use the same store.
    async fn commit_and_record(
        &self,
        change: Change,
        events: Vec<AuditEvent>,
    ) -> Result<u64, ChangeError> {
        let state = self.clone();
        let (made, was_made) = oneshot::channel();
        let work = async move {
            let inner = &*state.0;
            let undo = UndoChange::of(&state, &change).await?;
            let revision = inner.store.commit(change).await?;
            // Ignore the error: the receiver may have been dropped.
            let _ = made.send(());
            for event in events {
                if let Err(unaudited) = inner.audit.record(event).await {
                    return Err(undo.undo(&*inner.store, revision, unaudited).await);
                }
            }
            Ok(revision)
        };
        let Ok(runtime) = Handle::try_current() else { return work.await };
        // Run this in a separate task: if the caller drops its future, the work must not stop between the change and
        // its audit record.
        let work = runtime.spawn(work);
        // If nothing is received, the task has ended. Treat this as success here, because the result of the task below
        // contains the error.
        let was_made = async { was_made.await.or(Ok(())) };
        with_timeout(self.0.store.answer_timeout(), was_made).await.map_err(commit_error)?;
        match work.await {
            Ok(done) => done,
            Err(end) => match end.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(StoreError::Closed.into()),
            },
        }
    }

    pub(crate) fn audit(&self) -> &Arc<dyn AuditSink> {
        &self.0.audit
    }

    /// Registers a hook that runs after each change of the snapshot, and when an entry expires. The hook must not
    /// block.
    pub(crate) fn on_change<L: Into<HookState>>(
        &self,
        hook: impl Fn() -> L + Send + Sync + 'static,
    ) {
        self.0.hooks.add(hook);
        self.follow();
    }

    /// Registers a hook that runs when the store can be read again after a failure, and after it was first read. The
    /// hook must not block.
    pub(crate) fn on_recovery<L: Into<HookState>>(
        &self,
        hook: impl Fn() -> L + Send + Sync + 'static,
    ) {
        self.0.recovery_hooks.add(hook);
    }

    /// Starts the task that follows the store, if there is a runtime.
    fn follow(&self) {
        let inner = &*self.0;
        if let Ok(runtime) = Handle::try_current()
            && !inner.followed.swap(true, Ordering::AcqRel)
        {
            // Changes were made while no task followed the store. So set this flag, with which the next decision reads
            // them first.
            if !inner.is_current() {
                inner.lost.store(true, Ordering::Release);
            }
            let follower = Follower { state: Arc::downgrade(&self.0), again: inner.again.clone() };
            runtime.spawn(follower.run());
        }
    }

    /// Catches up with the store. If that fails, the task that follows the store retries.
    async fn catch_up(&self) -> Result<(), StoreError> {
        let caught = self.0.catch_up().await;
        if caught.is_err() {
            self.follow();
            self.0.again.notify_one();
        }
        caught
    }
}

impl<S: Snapshot> StoreCache<S> {
    /// Reads the changes of the store, and runs the hooks if the snapshot has changed.
    async fn catch_up(&self) -> Result<(), StoreError> {
        let mut table = self.table.lock().await;
        let caught = self.read(&mut table).await;
        self.known.store(table.revision.unwrap_or_default(), Ordering::Release);
        let was_lost = self.lost.swap(caught.is_err(), Ordering::AcqRel);
        let changed = caught?;
        drop(table);
        if was_lost {
            self.recovery_hooks.run();
        }
        // Also run the hooks if the store could not be read until now: a hook may wake a caller that waited for it.
        if changed || was_lost {
            self.hooks.run();
        }
        Ok(())
    }

    /// Returns whether the snapshot is as new as the newest known revision of the store.
    fn is_current(&self) -> bool {
        !self.lost.load(Ordering::Acquire)
            && self.known.load(Ordering::Acquire) >= *self.news.borrow()
    }

    /// Reads the changes since the last read; returns whether there were any.
    async fn read(&self, table: &mut EntryTable<S::Entry>) -> Result<bool, StoreError> {
        let mut reload = table.revision.is_none();
        let loaded = match table.revision {
            Some(since) => match self.store.changes(S::SPACE, since).await {
                Err(StoreError::TooOld) => {
                    reload = true;
                    self.store.load(S::SPACE).await?
                }
                changes => changes?,
            },
            None => self.store.load(S::SPACE).await?,
        };
        if loaded.records.is_empty() && !reload {
            table.revision = Some(loaded.revision);
            return Ok(false);
        }
        if reload {
            table.entries.clear();
            table.written.clear();
        }
        for record in loaded.records {
            let Some(entry) = check::entry::<S>(&record)? else {
                table.written.remove(&record.key);
                table.entries.remove(&record.key);
                continue;
            };
            table.written.insert(record.key.clone(), record.revision);
            table.entries.insert(record.key, Arc::new(entry));
        }
        // Set the revision last: if the read fails before, the same entries are read again.
        table.revision = Some(loaded.revision);
        *self.now.write() = Arc::new(S::of(&table.entries));
        Ok(true)
    }

    fn next_expiry(&self, now: SystemTime) -> Option<SystemTime> {
        let snapshot = Arc::clone(&self.now.read());
        snapshot.next_expiry(now)
    }
}

/// Stops the task that follows the store when the last handle is dropped.
impl<S: Snapshot> Drop for StoreCache<S> {
    fn drop(&mut self) {
        self.again.notify_one();
    }
}

/// The task that follows a store; it runs until the last handle is dropped or the runtime ends.
struct Follower<S: Snapshot> {
    state: Weak<StoreCache<S>>,
    again: Arc<Notify>,
}

/// Clears `followed`, so that the next decision starts a new task that follows the store.
impl<S: Snapshot> Drop for Follower<S> {
    fn drop(&mut self) {
        if let Some(state) = self.state.upgrade() {
            state.followed.store(false, Ordering::Release);
        }
    }
}

impl<S: Snapshot> Follower<S> {
    async fn run(self) {
        let Some(mut news) = self.state.upgrade().map(|state| state.store.revision()) else {
            return;
        };
        // Treat the current revision as new, so that changes from before the start of this task are also read.
        news.mark_changed();
        loop {
            let now = SystemTime::now();
            let Some(next) = self.state.upgrade().map(|state| state.next_expiry(now)) else {
                return;
            };
            let left = next.map(|at| at.duration_since(now).unwrap_or_default());
            let sleep = left.unwrap_or(MAX_SLEEP).min(MAX_SLEEP);
            tokio::select! {
                changed = news.changed() => if changed.is_err() {
                    // A closed store can no longer report revocations, so decisions from the snapshot could grant too
                    // much. Therefore mark the state as lost.
                    if let Some(state) = self.state.upgrade() {
                        state.lost.store(true, Ordering::Release);
                    }
                    return;
                },
                () = self.again.notified() => {}
                // Sleep slightly longer, so that the entry has expired when the task wakes.
                () = tokio::time::sleep(sleep + Duration::from_millis(5)) => {
                    let Some(state) = self.state.upgrade() else { return };
                    if is_due(next, sleep, SystemTime::now()) {
                        state.hooks.run();
                    }
                    continue;
                }
            }
            // Log a fault once and not at each attempt, so that a long fault does not displace its cause from the log.
            let mut is_logged = false;
            loop {
                let Some(state) = self.state.upgrade() else { return };
                match state.catch_up().await {
                    Ok(()) => {
                        if is_logged {
                            tracing::warn!(space = S::SPACE, "recovered: the state is read again");
                        }
                        // An entry may have expired shortly before the store changed, so check this here too.
                        if is_due(next, MAX_SLEEP, SystemTime::now()) {
                            state.hooks.run();
                        }
                        break;
                    }
                    // The store is closed, because the process is about to end. So stop following it.
                    Err(StoreError::Closed) => return,
                    Err(error) if !is_logged => {
                        tracing::error!(space = S::SPACE, %error, "failed to read the state; decisions are denied");
                        is_logged = true;
                    }
                    Err(_) => {}
                }
                drop(state);
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// Returns whether the next expiry has passed after a sleep. A sleep shorter than `MAX_SLEEP` lasted until the expiry.
/// After any other sleep, compare with the clock, which goes on while the machine is suspended; the sleep does not.
fn is_due(next: Option<SystemTime>, sleep: Duration, now: SystemTime) -> bool {
    next.is_some_and(|at| sleep < MAX_SLEEP || at <= now)
}

impl<S: Snapshot> Clone for State<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: Snapshot> fmt::Debug for State<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State({})", S::SPACE)
    }
}
