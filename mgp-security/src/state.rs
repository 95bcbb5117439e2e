//! What a book of grants keeps: entries in a store, and the snapshot that decisions read (DESIGN §6).
//!
//! There is one way from the store into the snapshot, for changes made here and elsewhere: catching up with it.
//! A change is in force before it is answered; what other processes change is in force soon after.
//!
//! Applies to: both.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::{Duration, SystemTime};

use mgp_types::mgp::AuditEvent;
use mgp_types::service::{AuditSink, Unaudited};
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::{Payload, RpcError};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;

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
    /// Set while the store was not read, or cannot be: then nothing is decided.
    lost: AtomicBool,
    /// Held while the snapshot catches up, so that it never goes back.
    kept: tokio::sync::Mutex<Kept<S::Entry>>,
    hooks: Mutex<Vec<Arc<dyn Fn() + Send + Sync>>>,
    followed: AtomicBool,
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
    /// What cannot be recorded does not happen.
    #[error("the change was not made: {0}")]
    Unaudited(#[from] Unaudited),
    /// An entry cannot be written as JSON.
    #[error("the change was not made: {0}")]
    Encode(#[source] RpcError),
}

impl ChangeError {
    /// What a caller hears of it: what is wrong with the store is for whoever runs it, and stands in the causes.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Store(error) => format!("the change was not made: {}", told(error)),
            other => other.to_string(),
        }
    }
}

/// What a caller hears of a store that fails.
pub(crate) fn told(error: &StoreError) -> String {
    RpcError::from(error.clone()).message().to_owned()
}

/// Entries to write, or to remove where there is none.
pub(crate) type Writes<E> = Vec<(String, Option<E>)>;

impl<S: Snapshot> State<S> {
    /// State over a store; until it was [opened](Self::open) it is empty.
    ///
    /// Over a store that holds something already nothing is decided until then: what it denies is not known yet.
    pub(crate) fn new(store: Arc<dyn Store>, audit: Arc<dyn AuditSink>) -> Self {
        let entries = BTreeMap::new();
        let is_unread = *store.revision().borrow() > 0;
        Self(Arc::new(Inner {
            store,
            audit,
            now: RwLock::new(Arc::new(S::of(&entries))),
            lost: AtomicBool::new(is_unread),
            kept: tokio::sync::Mutex::new(Kept {
                entries,
                written: HashMap::new(),
                revision: None,
            }),
            hooks: Mutex::default(),
            followed: AtomicBool::new(false),
        }))
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
    /// [`StoreError::Closed`] while the store cannot be read: an old answer may be a wrong one.
    pub(crate) fn now(&self) -> Result<Arc<S>, StoreError> {
        self.readable()?;
        Ok(Arc::clone(&self.0.now.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Whether the snapshot may be decided from, or from what was made of it.
    ///
    /// # Errors
    /// As [`now`](Self::now).
    pub(crate) fn readable(&self) -> Result<(), StoreError> {
        if self.0.lost.load(Ordering::Relaxed) { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// The entries the store has now, of those that are wanted.
    ///
    /// # Errors
    /// [`StoreError`] when it cannot be read.
    pub(crate) async fn latest(
        &self,
        is_wanted: impl Fn(&S::Entry) -> bool,
    ) -> Result<Vec<Found<S::Entry>>, StoreError> {
        self.0.catch_up().await?;
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
    /// [`ChangeError`]; nothing was changed then.
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

    /// Commits a change that may touch other spaces too, with the events that tell of it.
    ///
    /// # Errors
    /// [`ChangeError`]; nothing was changed then.
    pub(crate) async fn commit(
        &self,
        mut change: Change,
        events: Vec<AuditEvent>,
    ) -> Result<u64, ChangeError> {
        let inner = &*self.0;
        for event in events {
            match inner.audit.outbox() {
                Some(log) => change = change.event(log, event),
                None => inner.audit.record(event).await?,
            }
        }
        let revision = inner.store.commit(change).await?;
        inner.catch_up().await?;
        self.follow();
        Ok(revision)
    }

    /// The sink that changes are told to.
    pub(crate) fn audit(&self) -> &Arc<dyn AuditSink> {
        &self.0.audit
    }

    /// Runs after each change of the snapshot, and when an entry expires; it must not wait.
    pub(crate) fn on_change(&self, hook: impl Fn() + Send + Sync + 'static) {
        self.0.hooks().push(Arc::new(hook));
        self.follow();
    }

    /// Follows the store from now on, once there is a runtime to do it.
    fn follow(&self) {
        if let Ok(runtime) = Handle::try_current()
            && !self.0.followed.swap(true, Ordering::AcqRel)
        {
            runtime.spawn(follow(Arc::downgrade(&self.0)));
        }
    }
}

impl<S: Snapshot> Inner<S> {
    /// Brings the snapshot up to what the store has.
    async fn catch_up(&self) -> Result<(), StoreError> {
        let mut kept = self.kept.lock().await;
        let caught = self.read(&mut kept).await;
        self.lost.store(caught.is_err(), Ordering::Relaxed);
        let changed = caught?;
        drop(kept);
        if changed {
            self.tell();
        }
        Ok(())
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

    fn tell(&self) {
        let hooks = self.hooks().clone();
        for hook in hooks {
            hook();
        }
    }

    fn hooks(&self) -> MutexGuard<'_, Vec<Arc<dyn Fn() + Send + Sync>>> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long until an entry expires, at most [`LONGEST`].
    fn until_expiry(&self, now: SystemTime) -> Option<Duration> {
        let snapshot = Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner));
        let at = snapshot.next_expiry(now)?;
        Some(at.duration_since(now).unwrap_or_default().min(LONGEST))
    }
}

/// Follows the store until nobody holds the state.
async fn follow<S: Snapshot>(state: Weak<Inner<S>>) {
    let Some(mut news) = state.upgrade().map(|state| state.store.revision()) else { return };
    // What changed before this task came to run counts as news.
    news.mark_changed();
    loop {
        let Some(sleep) = state.upgrade().map(|state| state.until_expiry(SystemTime::now())) else {
            return;
        };
        // A little later, so that the entry has expired for everyone.
        let patience = sleep.unwrap_or(LONGEST) + Duration::from_millis(5);
        match tokio::time::timeout(patience, news.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => {
                // A store that has ended tells of no revocation: an old answer may be a wrong one.
                if let Some(state) = state.upgrade() {
                    state.lost.store(true, Ordering::Relaxed);
                }
                return;
            }
            Err(_) => {
                let Some(state) = state.upgrade() else { return };
                if sleep.is_some_and(|sleep| sleep < LONGEST) {
                    state.tell();
                }
                continue;
            }
        }
        loop {
            let Some(state) = state.upgrade() else { return };
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use mgp_types::service::{BoxFuture, MemoryAudit};
    use mgp_types::store::{Loaded, MemoryStore, PendingEvent};
    use tokio::sync::watch;

    use super::*;

    struct Sum(u64);

    impl Snapshot for Sum {
        type Entry = u64;
        const SPACE: &'static str = "numbers";

        fn of(entries: &BTreeMap<String, Arc<u64>>) -> Self {
            Self(entries.values().map(|number| **number).sum())
        }
    }

    fn state(store: &MemoryStore) -> State<Sum> {
        State::new(Arc::new(store.clone()), Arc::new(MemoryAudit::new()))
    }

    #[tokio::test]
    async fn a_change_is_in_force_here_at_once_and_elsewhere_soon() {
        let store = MemoryStore::new();
        let (here, there) = (state(&store), state(&store));
        there.open().await.unwrap();
        let told = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&told);
        there.on_change(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
        here.write(vec![("a".to_owned(), Some(1)), ("b".to_owned(), Some(2))], Vec::new())
            .await
            .unwrap();
        assert_eq!(here.now().unwrap().0, 3);
        tokio::time::timeout(Duration::from_secs(5), async {
            while there.now().unwrap().0 != 3 {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
        here.write(vec![("a".to_owned(), None)], Vec::new()).await.unwrap();
        assert_eq!(here.now().unwrap().0, 2);
        assert!(told.load(Ordering::Relaxed) >= 1);
    }

    /// A store whose news come from elsewhere.
    struct Told(MemoryStore, watch::Receiver<u64>);

    impl Store for Told {
        fn load(&self, space: &'static str) -> BoxFuture<'static, Result<Loaded, StoreError>> {
            self.0.load(space)
        }

        fn changes(
            &self,
            space: &'static str,
            since: u64,
        ) -> BoxFuture<'static, Result<Loaded, StoreError>> {
            self.0.changes(space, since)
        }

        fn commit(&self, change: Change) -> BoxFuture<'static, Result<u64, StoreError>> {
            self.0.commit(change)
        }

        fn revision(&self) -> watch::Receiver<u64> {
            self.1.clone()
        }

        fn pending(
            &self,
            log: &str,
            most: usize,
        ) -> BoxFuture<'static, Result<Vec<PendingEvent>, StoreError>> {
            self.0.pending(log, most)
        }

        fn settle(&self, log: &str, through: u64) -> BoxFuture<'static, Result<(), StoreError>> {
            self.0.settle(log, through)
        }
    }

    #[tokio::test]
    async fn a_store_that_ended_decides_nothing() {
        let (news, known) = watch::channel(0);
        let store = Arc::new(Told(MemoryStore::new(), known));
        let state = State::<Sum>::new(store, Arc::new(MemoryAudit::new()));
        state.open().await.unwrap();
        tokio::task::yield_now().await;
        assert!(state.now().is_ok());
        drop(news);
        tokio::time::timeout(Duration::from_secs(5), async {
            while state.now().is_ok() {
                tokio::task::yield_now().await;
            }
        })
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn what_cannot_be_read_decides_nothing() {
        let store = MemoryStore::new();
        let state = state(&store);
        state.open().await.unwrap();
        let odd = Change::new().put(Sum::SPACE, "a", Payload::from_trusted(r#""x""#));
        store.commit(odd).await.unwrap();
        for _ in 0..2 {
            assert!(state.write(Vec::new(), Vec::new()).await.is_err());
            assert!(state.now().is_err());
        }
        store.commit(Change::new().remove(Sum::SPACE, "a")).await.unwrap();
        state.write(Vec::new(), Vec::new()).await.unwrap();
        assert_eq!(state.now().unwrap().0, 0);
    }
}
