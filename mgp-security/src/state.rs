//! What a book of grants keeps: entries in a store, and the snapshot that decisions read (DESIGN §6).
//!
//! There is one way from the store into the snapshot, for changes made here and elsewhere: catching up with it.
//! A change is in force before it is answered; what other processes change is in force soon after.
//!
//! Applies to: both.

mod leaving;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::task::{Context as Task, Waker};
use std::time::{Duration, SystemTime};

use mgp_types::mgp::AuditEvent;
use mgp_types::service::{AuditSink, Unaudited};
use mgp_types::store::{Change, Store, StoreError, within};
use mgp_types::{Payload, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot, watch};

use crate::hooks::{Hooks, Listening};

/// How long is waited until a store that failed is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// The longest sleep until something expires by itself.
const LONGEST: Duration = Duration::from_hours(1);

/// What decisions read, made from all entries of one space.
pub(crate) trait Snapshot: Send + Sync + 'static {
    /// What the store keeps under one key.
    type Entry: Serialize + DeserializeOwned + Send + Sync + 'static;

    /// The space of the store.
    const SPACE: &'static str;

    /// Puts the snapshot together.
    fn of(entries: &BTreeMap<String, Arc<Self::Entry>>) -> Self;

    /// When the next entry expires, after a moment.
    fn next_expiry(&self, _after: SystemTime) -> Option<SystemTime> {
        None
    }
}

/// Entries of one kind, with the snapshot that is made of them.
pub(crate) struct State<S: Snapshot>(Arc<Inner<S>>);

struct Inner<S: Snapshot> {
    store: Arc<dyn Store>,
    audit: Arc<dyn AuditSink>,
    now: RwLock<Arc<S>>,
    /// Set until the store was read, and while it cannot be: then nothing is decided.
    lost: AtomicBool,
    /// Held while the snapshot catches up, so that it never goes back.
    kept: tokio::sync::Mutex<Kept<S::Entry>>,
    /// The revision the snapshot stands at.
    known: AtomicU64,
    /// The revision the store stands at.
    news: watch::Receiver<u64>,
    hooks: Hooks,
    /// Whether a task follows the store; it ends with its runtime.
    followed: AtomicBool,
    /// Wakes that task: something could not be read, or nobody holds the state any more.
    again: Arc<Notify>,
}

struct Kept<E> {
    entries: BTreeMap<String, Arc<E>>,
    /// The revisions that wrote them.
    written: HashMap<String, u64>,
    /// The revision that is in them; none before the first load.
    revision: Option<u64>,
}

/// An entry as the store has it.
pub(crate) struct Found<E> {
    pub(crate) key: String,
    pub(crate) entry: Arc<E>,
    /// The revision that wrote it: a change that expects it depends on nobody having changed the entry since.
    pub(crate) revision: u64,
}

/// Why a change was not made.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store did not answer in time: the change was made, is made yet, or never is.
    #[error("whether the change was made is not known: {0}")]
    Late(#[source] StoreError),
    /// What cannot be recorded does not happen.
    #[error("the change was not made: {0}")]
    Unaudited(#[from] Unaudited),
    /// An entry cannot be written as JSON.
    #[error("the change was not made: {0}")]
    Encode(#[source] RpcError),
    /// The change was made, but what holds now cannot be read: nothing is decided until it can.
    #[error("the change was made, but what holds now cannot be read: {0}")]
    Unread(#[source] StoreError),
    /// The change was made, could not be recorded and not be undone.
    #[error("the change was made and could not be recorded: {0}")]
    Untold(#[source] Unaudited),
}

impl ChangeError {
    /// What a caller hears of it: what is wrong with the store is for whoever runs it, and stands in the causes.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Store(error) => format!("the change was not made: {}", told(error)),
            Self::Unread(error) => {
                format!("the change was made, but what holds now cannot be read: {}", told(error))
            }
            other => other.to_string(),
        }
    }
}

/// Why a change was not made, or is not known to be.
fn unmade(error: StoreError) -> ChangeError {
    match error {
        StoreError::Late(_) => ChangeError::Late(error),
        error => ChangeError::Store(error),
    }
}

/// What a caller hears of a store that fails.
pub(crate) fn told(error: &StoreError) -> String {
    RpcError::from(error.clone()).message().to_owned()
}

/// Entries to write, or to remove where there is none.
pub(crate) type Writes<E> = Vec<(String, Option<E>)>;

impl<S: Snapshot> State<S> {
    /// State over a store; until it was [opened](Self::open) nothing is decided from it.
    pub(crate) fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>) -> Self {
        let entries = BTreeMap::new();
        let state = Self(Arc::new(Inner {
            news: store.revision(),
            store,
            audit,
            now: RwLock::new(Arc::new(S::of(&entries))),
            lost: AtomicBool::new(true),
            kept: tokio::sync::Mutex::new(Kept {
                entries,
                written: HashMap::new(),
                revision: None,
            }),
            known: AtomicU64::new(0),
            hooks: Hooks::default(),
            followed: AtomicBool::new(false),
            again: Arc::default(),
        }));
        // A store in memory answers at once, and so it is open; of another one nothing is known yet.
        let _ = pin!(state.0.catch_up()).poll(&mut Task::from_waker(Waker::noop()));
        state
    }

    /// Reads what the store has and follows it from then on.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub(crate) async fn open(&self) -> Result<(), StoreError> {
        self.0.catch_up().await?;
        self.follow();
        Ok(())
    }

    /// The snapshot.
    ///
    /// # Errors
    /// [`StoreError::Unread`] while the store was not read or cannot be: an old answer may be a wrong one.
    pub(crate) fn now(&self) -> Result<Arc<S>, StoreError> {
        self.readable()?;
        Ok(Arc::clone(&self.0.now.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Whether the snapshot may be decided from, or from what was made of it.
    ///
    /// # Errors
    /// As [`now`](Self::now).
    pub(crate) fn readable(&self) -> Result<(), StoreError> {
        let inner = &*self.0;
        if inner.followed.load(Ordering::Acquire) && !inner.lost.load(Ordering::Acquire) {
            return Ok(());
        }
        self.readable_alone()
    }

    /// The same where nobody follows the store: it may have changed meanwhile.
    #[cold]
    fn readable_alone(&self) -> Result<(), StoreError> {
        if self.0.news.has_changed().is_err() {
            return Err(StoreError::Closed);
        }
        self.follow();
        if self.0.is_current() { Ok(()) } else { Err(StoreError::Unread) }
    }

    /// The entries the store has now, of those that are wanted.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub(crate) async fn latest(
        &self,
        is_wanted: impl Fn(&S::Entry) -> bool,
    ) -> Result<Vec<Found<S::Entry>>, StoreError> {
        within(self.0.store.answers_within(), self.catch_up()).await?;
        let kept = self.0.kept.lock().await;
        let wanted = kept.entries.iter().filter(|(_, entry)| is_wanted(entry));
        Ok(wanted
            .map(|(key, entry)| Found {
                key: key.clone(),
                entry: Arc::clone(entry),
                revision: kept.written.get(key).copied().unwrap_or_default(),
            })
            .collect())
    }

    /// Writes entries together with the events that tell of it; in force once it has answered.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub(crate) async fn write(
        &self,
        writes: Writes<S::Entry>,
        events: Vec<AuditEvent>,
    ) -> Result<u64, ChangeError> {
        let mut change = Change::new();
        for (key, entry) in writes {
            change = match entry {
                Some(entry) => {
                    change.put(S::SPACE, key, Payload::of(&entry).map_err(ChangeError::Encode)?)
                }
                None => change.remove(S::SPACE, key),
            };
        }
        self.commit(change, events).await
    }

    /// Commits a change of this space, with the events that tell of it.
    ///
    /// Where the sink takes events out of this very store, both are one commit.
    /// Any other sink is told once the change is made, which is undone if the sink does not take it.
    ///
    /// # Errors
    /// [`ChangeError`]; only [`ChangeError::Unread`] and [`ChangeError::Untold`] say that the change was made,
    /// and [`ChangeError::Late`] that it may have been. The snapshot shows it once it is.
    pub(crate) async fn commit(
        &self,
        mut change: Change,
        events: Vec<AuditEvent>,
    ) -> Result<u64, ChangeError> {
        let inner = &*self.0;
        let patience = inner.store.answers_within();
        let kept = |change| async move {
            within(patience, inner.store.commit(change)).await.map_err(|error| {
                // What comes of it is seen by whoever follows.
                self.follow();
                unmade(error)
            })
        };
        let revision = match inner.audit.outbox(&*inner.store) {
            Some(log) => {
                for event in events {
                    change = change.event(log, event);
                }
                kept(change).await?
            }
            None if events.is_empty() => kept(change).await?,
            None => self.commit_and_tell(change, events).await?,
        };
        let seen = within(patience, self.catch_up()).await;
        self.follow();
        if matches!(seen, Err(StoreError::Late(_))) {
            inner.again.notify_one();
        }
        seen.map_err(ChangeError::Unread)?;
        Ok(revision)
    }

    /// Commits what happens whether or not it can be recorded: the end of what was granted for a time.
    ///
    /// # Errors
    /// As [`commit`](Self::commit), but what could not be recorded is not undone.
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
            inner.audit.record(event).await.map_err(ChangeError::Untold)?;
        }
        Ok(())
    }

    /// Commits, then tells a sink that has no part in the store.
    async fn commit_and_tell(
        &self,
        change: Change,
        events: Vec<AuditEvent>,
    ) -> Result<u64, ChangeError> {
        let state = self.clone();
        let (keep, kept) = oneshot::channel();
        let work = async move {
            let inner = &*state.0;
            let undo = Undo::of(&state, &change).await?;
            let revision = inner.store.commit(change).await?;
            // Whoever asked may have left.
            let _ = keep.send(());
            for event in events {
                if let Err(unaudited) = inner.audit.record(event).await {
                    return Err(undo.undo(&*inner.store, revision, unaudited).await);
                }
            }
            Ok(revision)
        };
        let Ok(runtime) = Handle::try_current() else { return work.await };
        // In a task of its own: whoever stops waiting must not stop it between the change and its record.
        let work = runtime.spawn(work);
        // Where that fails it ends without a word here; the work itself says why.
        let kept = async { kept.await.or(Ok(())) };
        within(self.0.store.answers_within(), kept).await.map_err(unmade)?;
        match work.await {
            Ok(done) => done,
            Err(end) => match end.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(StoreError::Closed.into()),
            },
        }
    }

    /// The sink that changes are told to.
    pub(crate) fn audit(&self) -> &Arc<dyn AuditSink> {
        &self.0.audit
    }

    /// Runs after each change of the snapshot, and when an entry expires; it must not wait.
    pub(crate) fn on_change<L: Into<Listening>>(
        &self,
        hook: impl Fn() -> L + Send + Sync + 'static,
    ) {
        self.0.hooks.add(hook);
        self.follow();
    }

    /// Follows the store from now on, once there is a runtime to do it.
    fn follow(&self) {
        let inner = &*self.0;
        if let Ok(runtime) = Handle::try_current()
            && !inner.followed.swap(true, Ordering::AcqRel)
        {
            // What changed while nobody followed is read before anything is decided.
            if !inner.is_current() {
                inner.lost.store(true, Ordering::Release);
            }
            let follower = Follower { state: Arc::downgrade(&self.0), again: inner.again.clone() };
            runtime.spawn(follower.run());
        }
    }

    /// Brings the snapshot up to what the store has; what fails is tried again by whoever follows.
    async fn catch_up(&self) -> Result<(), StoreError> {
        let caught = self.0.catch_up().await;
        if caught.is_err() {
            self.follow();
            self.0.again.notify_one();
        }
        caught
    }
}

impl<S: Snapshot> Inner<S> {
    /// Brings the snapshot up to what the store has.
    async fn catch_up(&self) -> Result<(), StoreError> {
        let mut kept = self.kept.lock().await;
        let caught = self.read(&mut kept).await;
        self.known.store(kept.revision.unwrap_or_default(), Ordering::Release);
        let was_lost = self.lost.swap(caught.is_err(), Ordering::AcqRel);
        let changed = caught?;
        drop(kept);
        // Whoever asked while nothing could be decided asks again.
        if changed || was_lost {
            self.hooks.tell();
        }
        Ok(())
    }

    /// Whether the snapshot is what the store has, as far as is known.
    fn is_current(&self) -> bool {
        !self.lost.load(Ordering::Acquire)
            && self.known.load(Ordering::Acquire) >= *self.news.borrow()
    }

    /// Whether anything had changed.
    async fn read(&self, kept: &mut Kept<S::Entry>) -> Result<bool, StoreError> {
        let mut anew = kept.revision.is_none();
        let loaded = match kept.revision {
            Some(since) => match self.store.changes(S::SPACE, since).await {
                Err(StoreError::Forgotten) => {
                    anew = true;
                    self.store.load(S::SPACE).await?
                }
                changes => changes?,
            },
            None => self.store.load(S::SPACE).await?,
        };
        if loaded.records.is_empty() && !anew {
            kept.revision = Some(loaded.revision);
            return Ok(false);
        }
        if anew {
            kept.entries.clear();
            kept.written.clear();
        }
        for record in loaded.records {
            let Some(value) = record.value else {
                kept.written.remove(&record.key);
                kept.entries.remove(&record.key);
                continue;
            };
            let entry = value.get().map_err(|error| {
                StoreError::Unreadable(format!("`{}` in `{}`: {error}", record.key, S::SPACE))
            })?;
            kept.written.insert(record.key.clone(), record.revision);
            kept.entries.insert(record.key, Arc::new(entry));
        }
        // Only now: what could not be read must be read again, not passed over.
        kept.revision = Some(loaded.revision);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(S::of(&kept.entries));
        Ok(true)
    }

    /// How long until an entry expires, at most [`LONGEST`].
    fn until_expiry(&self, now: SystemTime) -> Option<Duration> {
        let snapshot = Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner));
        let at = snapshot.next_expiry(now)?;
        Some(at.duration_since(now).unwrap_or_default().min(LONGEST))
    }
}

/// Without anybody to hold the state, nobody needs to follow.
impl<S: Snapshot> Drop for Inner<S> {
    fn drop(&mut self) {
        self.again.notify_one();
    }
}

/// The task that follows a store, until nobody holds the state or the runtime ends.
struct Follower<S: Snapshot> {
    state: Weak<Inner<S>>,
    again: Arc<Notify>,
}

/// Whoever decides next follows anew.
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
        // What changed before this task came to run counts as news.
        news.mark_changed();
        loop {
            let Some(sleep) =
                self.state.upgrade().map(|state| state.until_expiry(SystemTime::now()))
            else {
                return;
            };
            // A little later, so that the entry has expired for everyone.
            let patience = sleep.unwrap_or(LONGEST) + Duration::from_millis(5);
            tokio::select! {
                changed = news.changed() => if changed.is_err() {
                    // A store that has ended tells of no revocation: an old answer may be a wrong one.
                    if let Some(state) = self.state.upgrade() {
                        state.lost.store(true, Ordering::Release);
                    }
                    return;
                },
                () = self.again.notified() => {}
                () = tokio::time::sleep(patience) => {
                    let Some(state) = self.state.upgrade() else { return };
                    if sleep.is_some_and(|sleep| sleep < LONGEST) {
                        state.hooks.tell();
                    }
                    continue;
                }
            }
            loop {
                let Some(state) = self.state.upgrade() else { return };
                match state.catch_up().await {
                    Ok(()) => break,
                    Err(error) => {
                        tracing::error!(space = S::SPACE, %error, "the state cannot be read; nothing is decided");
                    }
                }
                drop(state);
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// What a change of one space replaced.
struct Undo {
    space: &'static str,
    /// Each record, whether the change left one there, and what was there before.
    before: Vec<(String, bool, Option<Payload>)>,
}

impl Undo {
    /// What a change will replace.
    async fn of<S: Snapshot>(state: &State<S>, change: &Change) -> Result<Self, ChangeError> {
        state.catch_up().await?;
        let kept = state.0.kept.lock().await;
        let before = change.writes_to(S::SPACE).map(|(key, stays)| {
            let before = kept.entries.get(key).map(|entry| Payload::of(&**entry)).transpose();
            before.map(|before| (key.to_owned(), stays, before)).map_err(ChangeError::Encode)
        });
        Ok(Self { space: S::SPACE, before: before.collect::<Result<_, _>>()? })
    }

    /// Takes back what cannot be recorded, unless somebody has changed it again by now.
    async fn undo(self, store: &dyn Store, revision: u64, why: Unaudited) -> ChangeError {
        let mut change = Change::new();
        for (key, stays, before) in self.before {
            change = change.expect(self.space, &key, stays.then_some(revision));
            change = match before {
                Some(before) => change.put(self.space, key, before),
                None => change.remove(self.space, key),
            };
        }
        match store.commit(change).await {
            Ok(_) => ChangeError::Unaudited(why),
            Err(error) => {
                tracing::error!(space = self.space, %error, "a change that could not be recorded stays");
                ChangeError::Untold(why)
            }
        }
    }
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
