//! The keys of a server: issued, revoked, and looked up for every request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use mgp_types::mgp::Actor;
use mgp_types::service::{AuditSink, Principal};
use mgp_types::sync::{Mutex, RwLock};
use mgp_types::{millis, to_hex};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::error::{KeyError, KeyStoreError};
use super::record::{KeyGrant, KeyRecord};
use super::snapshot::Snapshot;
use super::store::{KeyStore, MemoryKeys};
use super::text::{KeyText, PREFIX};
use crate::audit::Event;
use crate::auth::authenticated::Authenticated;
use crate::auth::refused::AuthRefused;

/// The interval at which the store is checked for changes of other processes. If another process revokes a key, this
/// process refuses requests with the key, including requests that wait, and ends their streams, after this time at the
/// latest.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The use of a key is recorded in the store at most once in this interval.
const USE_INTERVAL: Duration = Duration::from_mins(1);

/// The time after which a key that was found expired is ended, if it is still expired by the clock then. Within this
/// time, a machine that starts with a wrong clock should have corrected it; an ended key cannot be valid again.
const END_DELAY: Duration = Duration::from_mins(1);

/// The minimum length of an imported secret that is considered hard to guess: 128 bits in base64.
const MIN_SECRET: usize = 22;

/// The API keys of a server; a handle that is cheap to clone.
///
/// A key can restrict its holder with these permissions, which [`AccessLayer`](crate::AccessLayer) enforces:
///
/// | permission | allows |
/// |---|---|
/// | `tools.call` | calling every tool, and listing it |
/// | `tools.call:NAME`, `tools.call:SERVER.NAME` | calling the tool, of any server or of SERVER only, and listing it |
/// | `tools.list` | listing every tool |
/// | `tools.read:NAME`, `tools.read:SERVER.NAME` | listing the tool, of any server or of SERVER only |
/// | `admin.write` | operators: granting and revoking access |
/// | `admin.read` | operators: querying the access of other agents |
///
/// A key without any `tools.` permission is not restricted; a key with such permissions can call and list only the
/// tools that they allow. A key with any `tools.` or `admin.` permission can administer only what an `admin.`
/// permission allows. A permission never grants access that the entries and policies do not grant, and never makes its
/// holder an operator.
///
/// ```
/// use mgp_security::auth::{ApiKeys, KeyGrant};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let keys = ApiKeys::new();
/// let new = keys.issue(KeyGrant::new("acme", "nightly-build")).await.unwrap();
/// assert!(new.reveal().starts_with("mgp_"));
/// assert!(keys.check(new.reveal()).await.is_ok());
///
/// keys.revoke(new.id()).await.unwrap();
/// assert!(keys.check(new.reveal()).await.is_err());
/// # });
/// ```
#[derive(Clone)]
pub struct ApiKeys {
    shared: Arc<KeyCache>,
    /// Records the changes made through this handle; `None` if they are not recorded.
    auditor: Option<Arc<ChangeAuditor>>,
}

struct ChangeAuditor {
    by: Principal,
    audit: Arc<dyn AuditSink>,
}

struct KeyCache {
    store: Box<dyn KeyStore>,
    snapshot: RwLock<Arc<Snapshot>>,
    /// Locked while the store is read into the snapshot. It is not locked while the store is changed, because requests
    /// wait for this lock, and a change might wait for another process.
    reading: tokio::sync::Mutex<()>,
    /// The time at which the store's stamp is read and compared again, in milliseconds since `born`.
    next_check: AtomicU64,
    /// The handle of the task that reads the store after each change while keys are in use.
    follower: Mutex<Weak<()>>,
    /// The times at which this process last recorded the uses of keys, by id, in milliseconds since `born`.
    uses: Mutex<HashMap<String, u64>>,
    /// `true` while a task waits to end the expired keys, or ends them.
    is_ending: AtomicBool,
    born: Instant,
}

/// The result of a lookup in the snapshot.
pub(in crate::auth) enum Lookup {
    Decided(Result<Authenticated, AuthRefused>),
    /// The store has changed and must be read first.
    Outdated,
}

/// A newly issued key. Its secret is available only here and cannot be read again later.
pub struct NewKey {
    id: String,
    text: String,
}

impl ApiKeys {
    /// Creates an empty set of keys in memory.
    #[must_use]
    pub fn new() -> Self {
        Self::with_snapshot(MemoryKeys::new(), Snapshot::default())
    }

    /// Opens the keys in a store.
    ///
    /// # Errors
    /// [`KeyStoreError`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn open(store: impl KeyStore) -> Result<Self, KeyStoreError> {
        let stamp = store.stamp();
        let snapshot = Snapshot::of(store.load().await?, stamp)?;
        Ok(Self::with_snapshot(store, snapshot))
    }

    fn with_snapshot(store: impl KeyStore, snapshot: Snapshot) -> Self {
        let shared = Arc::new(KeyCache {
            store: Box::new(store),
            snapshot: RwLock::new(Arc::new(snapshot)),
            reading: tokio::sync::Mutex::new(()),
            next_check: AtomicU64::new(0),
            follower: Mutex::default(),
            uses: Mutex::default(),
            is_ending: AtomicBool::new(false),
            born: Instant::now(),
        });
        Self { shared, auditor: None }
    }

    /// Returns a handle whose changes are recorded with `by` as the actor; other handles are not affected.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use mgp_security::auth::{ApiKeys, KeyGrant};
    /// use mgp_types::service::{MemoryAudit, Principal};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let (keys, log) = (ApiKeys::new(), MemoryAudit::new());
    /// let ann = Principal::new("acme", "ann").operator();
    /// keys.with_audit(ann, Arc::new(log.clone())).issue(KeyGrant::new("acme", "build")).await.unwrap();
    /// assert_eq!(log.events()[0].event_type.as_str(), "dev.cloto.key_added");
    /// # });
    /// ```
    #[must_use]
    pub fn with_audit(&self, by: Principal, audit: Arc<dyn AuditSink>) -> Self {
        let auditor = Some(Arc::new(ChangeAuditor { by, audit }));
        Self { shared: Arc::clone(&self.shared), auditor }
    }

    /// Issues a new key, and stores its record.
    ///
    /// # Errors
    /// [`KeyError::Full`], [`KeyError::NoRandomness`], [`KeyError::Store`], [`KeyError::Unaudited`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the key may be in the store, but its secret is lost.
    pub async fn issue(&self, grant: KeyGrant) -> Result<NewKey, KeyError> {
        let (mut id, mut secret) = ([0; 8], [0; 32]);
        getrandom::fill(&mut id).map_err(KeyError::NoRandomness)?;
        getrandom::fill(&mut secret).map_err(KeyError::NoRandomness)?;
        let id = to_hex(&id);
        let text = format!("{PREFIX}{id}_{}", to_hex(&secret));
        self.import(&text, grant).await?;
        Ok(NewKey { id, text })
    }

    /// Imports a key that was generated elsewhere, and returns its id; the quality of its secret is not checked.
    ///
    /// # Errors
    /// [`KeyError::Malformed`], [`KeyError::Exists`], [`KeyError::Full`], [`KeyError::Store`], [`KeyError::Unaudited`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the key may be in the store.
    pub async fn import(&self, key: &str, grant: KeyGrant) -> Result<String, KeyError> {
        let key = KeyText::parse(key).ok_or(KeyError::Malformed)?;
        if key.secret.len() < MIN_SECRET {
            tracing::warn!(
                key = key.id,
                "the secret of this key is short; `issue` makes better ones"
            );
        }
        let record = KeyRecord::new(key.id, key.hash(), grant);
        self.shared.store.add(record.clone()).await?;
        if let Some(auditor) = &self.auditor {
            let grant = record.grant();
            let mut event = Event::key_added(&auditor.by, key.id, &grant.principal())
                .expires_at(grant.expiry());
            if !grant.permissions().is_empty() {
                event = event.detail("permissions", grant.permissions());
            }
            if let Err(reason) = auditor.audit.record(event.into()).await {
                // The creation is not in the audit log, so the key must not exist: remove it again.
                self.shared.store.remove(key.id).await?;
                return Err(reason.into());
            }
        }
        self.shared.reload().await?;
        Ok(key.id.to_owned())
    }

    /// Revokes a key. After this method returns, no request is admitted with the key.
    ///
    /// # Errors
    /// [`KeyError::Unknown`], [`KeyError::Store`], [`KeyError::Unaudited`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the key may have been revoked; it is then refused within 250 ms.
    pub async fn revoke(&self, id: &str) -> Result<(), KeyError> {
        let owner = self.owner(id).await;
        self.shared.store.revoke(id).await?;
        self.finish_removal(id, owner).await
    }

    /// Removes a key and its record.
    ///
    /// # Errors
    /// [`KeyError::Unknown`], [`KeyError::Store`], [`KeyError::Unaudited`].
    ///
    /// # Cancel safety
    /// If the future is dropped, the key may have been removed; it is then refused within 250 ms.
    pub async fn remove(&self, id: &str) -> Result<(), KeyError> {
        let owner = self.owner(id).await;
        self.shared.store.remove(id).await?;
        self.finish_removal(id, owner).await
    }

    /// Returns the holder of a key. If the snapshot does not contain the key, reads the store, because another process
    /// might have created the key.
    async fn owner(&self, id: &str) -> Option<Principal> {
        let known = || {
            let snapshot = self.shared.snapshot();
            snapshot.entries.get(id).map(|entry| entry.caller.principal().clone())
        };
        if let Some(owner) = known() {
            return Some(owner);
        }
        // Ignore an error: if the store cannot be read, the holder is unknown, and the audit event contains only the id
        // of the key.
        let _ = self.shared.reload().await;
        known()
    }

    /// Completes a revocation or removal that is in the store already. Reloads the keys, so that the key is refused,
    /// and then records the change. Records it even if the reload fails; if recording fails, the key stays revoked or
    /// removed.
    async fn finish_removal(&self, id: &str, owner: Option<Principal>) -> Result<(), KeyError> {
        let reloaded = self.shared.reload().await;
        if let Some(auditor) = &self.auditor {
            let event = Event::key_revoked(&auditor.by, id, owner.as_ref());
            auditor.audit.record(event.into()).await?;
        }
        Ok(reloaded?)
    }

    /// Starts a task that ends the keys that have expired, unless such a task runs or this handle does not
    /// [record](Self::with_audit) changes. An ended key stays refused if the clock is set back.
    ///
    /// The task waits for a minute, and then ends the keys that had expired before and are still expired, so a clock
    /// that is wrong for a shorter time ends no key. A handle that records changes also starts the task when it checks
    /// a key after the expiry of any key. Outside of a tokio runtime no task is started.
    pub fn end_expired(&self) {
        self.end_expired_at(SystemTime::now());
    }

    pub(super) fn end_expired_at(&self, now: SystemTime) {
        let shared = &self.shared;
        let (Some(auditor), Ok(runtime)) = (&self.auditor, Handle::try_current()) else { return };
        if !shared.snapshot().has_expired(now) || shared.is_ending.swap(true, Ordering::AcqRel) {
            return;
        }
        // Hold no handles during the delay, so that a server that ends meanwhile can close its store and its log.
        let (shared, auditor) = (Arc::downgrade(shared), Arc::downgrade(auditor));
        runtime.spawn(async move {
            sleep(END_DELAY).await;
            let Some(shared) = shared.upgrade() else { return };
            if let Some(auditor) = auditor.upgrade() {
                shared.end_expired(&auditor, now.min(SystemTime::now())).await;
            }
            shared.is_ending.store(false, Ordering::Release);
        });
    }

    /// Reads the records of all keys, including revoked ones.
    ///
    /// # Errors
    /// [`KeyStoreError`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn records(&self) -> Result<Vec<KeyRecord>, KeyStoreError> {
        self.shared.store.load().await
    }

    /// Returns the caller to whom a key was issued.
    ///
    /// # Errors
    /// [`AuthRefused::Invalid`] with the same message for every key that is not valid;
    /// [`AuthRefused::Expired`] for an expired key; [`AuthRefused::Unavailable`] while the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn check(&self, key: &str) -> Result<Authenticated, AuthRefused> {
        if let Lookup::Decided(decided) = self.lookup(key) {
            return decided;
        }
        self.shared.catch_up().await;
        let key = KeyText::parse(key).ok_or(AuthRefused::NOT_VALID)?;
        self.shared.decide(&self.shared.snapshot(), key)
    }

    /// Returns the approximate time at which a key was last used, also in earlier processes. Returns `None` if the key
    /// was not used or is revoked, or if the store does not record uses. Reads a file if the keys are in a file.
    #[must_use]
    pub fn last_use(&self, id: &str) -> Option<SystemTime> {
        // Ignore the record of a revoked key: a process that did not know the revocation yet may have recorded another
        // use.
        let snapshot = self.shared.snapshot();
        let entry = snapshot.entries.get(id);
        let is_kept = entry.is_some_and(|entry| !entry.is_revoked || entry.is_expired);
        if is_kept { self.shared.store.last_use(id) } else { None }
    }

    /// Returns whether the key with this id exists, and is neither revoked nor expired. Work that continues after its
    /// call, e.g. the rollback of a transaction, uses it to check the key of its caller.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn is_valid(&self, id: &str) -> bool {
        self.shared.catch_up().await;
        let snapshot = self.shared.snapshot();
        let entry = snapshot.entries.get(id).filter(|entry| !entry.is_revoked);
        !snapshot.broken && entry.is_some_and(|entry| !entry.caller.has_expired(SystemTime::now()))
    }

    /// Returns whether a key exists and is not revoked, according to the snapshot. Does not check the expiry.
    ///
    /// This method is called for every part of a stream, so it must not block; [`follow`](Self::follow) keeps the
    /// snapshot current.
    pub(in crate::auth) fn is_live(&self, id: &str) -> bool {
        let snapshot = self.shared.snapshot();
        !snapshot.broken && snapshot.entries.get(id).is_some_and(|entry| !entry.is_revoked)
    }

    /// Returns a handle for credentials that are in use. While such a handle exists, a task reads the store within
    /// [`CHECK_INTERVAL`] after each change. Without this task, a stream or a call that waits, e.g. for an approval,
    /// would go on with a key that was revoked meanwhile, until another request causes the store to be read.
    pub(in crate::auth) fn follow(&self) -> Arc<()> {
        let mut follower = self.shared.follower.lock();
        if let Some(handle) = follower.upgrade() {
            return handle;
        }
        let handle = Arc::new(());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            *follower = Arc::downgrade(&handle);
            runtime.spawn(Arc::clone(&self.shared).follow(Arc::clone(&handle)));
        }
        handle
    }

    /// Returns whether a credential begins with the prefix of API keys.
    pub(in crate::auth) fn is_key(credential: &str) -> bool {
        credential.starts_with(PREFIX)
    }

    /// Looks up a key in the snapshot. A text that does not have the form of a key is refused without a lookup.
    pub(in crate::auth) fn lookup(&self, key: &str) -> Lookup {
        let Some(key) = KeyText::parse(key) else {
            return Lookup::Decided(Err(AuthRefused::NOT_VALID));
        };
        let shared = &*self.shared;
        let snapshot = shared.snapshot();
        if snapshot.has_expired(SystemTime::now()) {
            self.end_expired();
        }
        if shared.is_due() {
            if shared.is_outdated(&snapshot) {
                return Lookup::Outdated;
            }
            shared.mark_checked();
        }
        Lookup::Decided(shared.decide(&snapshot, key))
    }
}

impl Default for ApiKeys {
    fn default() -> Self {
        Self::new()
    }
}

mgp_types::opaque_debug!(ApiKeys);

impl KeyCache {
    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read())
    }

    /// Decides whether a key admits a request; if so, records the use of the key.
    fn decide(&self, snapshot: &Snapshot, key: KeyText<'_>) -> Result<Authenticated, AuthRefused> {
        let caller = snapshot.decide(key, SystemTime::now())?;
        let now = self.since_born();
        let mut uses = self.uses.lock();
        let last = uses.get(key.id).copied();
        if last.is_none_or(|last| now.saturating_sub(last) >= millis(USE_INTERVAL)) {
            uses.insert(key.id.to_owned(), now);
            drop(uses);
            self.store.record_use(key.id);
        }
        Ok(caller)
    }

    /// Ends the keys that expired at a time or before, and records each end. Only logs errors: the keys are refused in
    /// any case until the clock is set back, and a later request tries again to end them.
    async fn end_expired(&self, auditor: &ChangeAuditor, at: SystemTime) {
        if !self.snapshot().has_expired(at) {
            return;
        }
        let ended = match self.store.end_expired(at).await {
            Ok(ended) => ended,
            Err(error) => return tracing::warn!(%error, "expired API keys were not ended"),
        };
        for record in ended {
            let owner = record.grant().principal();
            let event = Event::key_revoked(Actor::kernel(), record.id(), &owner).cause("expired");
            if let Err(error) = auditor.audit.record(event.into()).await {
                let key = record.id();
                tracing::warn!(key, %error, "the end of an expired API key was not recorded");
            }
        }
        self.next_check.store(0, Ordering::Relaxed);
        self.catch_up().await;
    }

    /// Reads the store after a change, even if it was read just before.
    async fn reload(&self) -> Result<(), KeyStoreError> {
        let _held = self.reading.lock().await;
        self.read().await
    }

    /// Reads the store again. The caller must hold the lock `reading`.
    async fn read(&self) -> Result<(), KeyStoreError> {
        // Read the stamp before the records, so that the next check detects a change made in between.
        let stamp = self.store.stamp();
        let read = self.store.load().await.and_then(|records| Snapshot::of(records, stamp));
        let (snapshot, outcome) = match read {
            Ok(snapshot) => (snapshot, Ok(())),
            Err(error) => (Snapshot::unreadable(stamp), Err(error)),
        };
        self.uses.lock().retain(|id, _| snapshot.entries.contains_key(id));
        *self.snapshot.write() = Arc::new(snapshot);
        self.mark_checked();
        outcome
    }

    /// Reads the store if it has changed. While the store cannot be read, no key is valid.
    async fn catch_up(&self) {
        let _held = self.reading.lock().await;
        // Another task may have read the store while this task waited for the lock, so check again.
        if self.is_outdated(&self.snapshot())
            && let Err(error) = self.read().await
        {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "failed to read the API keys; every key is denied"
            );
        }
    }

    /// Reads the store after each change, until `handle` has no other owner.
    async fn follow(self: Arc<Self>, handle: Arc<()>) {
        loop {
            sleep(CHECK_INTERVAL).await;
            self.next_check.store(0, Ordering::Relaxed);
            self.catch_up().await;
            self.mark_checked();
            let mut follower = self.follower.lock();
            if Arc::strong_count(&handle) == 1 {
                // This task ends here, so the next use of a key must start another task.
                *follower = Weak::new();
                return;
            }
        }
    }

    /// Returns whether it is time to check the store for changes.
    fn is_due(&self) -> bool {
        self.since_born() >= self.next_check.load(Ordering::Relaxed)
    }

    /// Returns whether the store must be read again: the next check is due, and the store has changed or the last read
    /// failed.
    fn is_outdated(&self, snapshot: &Snapshot) -> bool {
        self.is_due() && (snapshot.broken || snapshot.stamp != self.store.stamp())
    }

    fn mark_checked(&self) {
        let next = self.since_born().saturating_add(millis(CHECK_INTERVAL));
        self.next_check.store(next, Ordering::Relaxed);
    }

    fn since_born(&self) -> u64 {
        millis(self.born.elapsed())
    }
}

impl NewKey {
    /// Returns the id, by which the key is revoked.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the key itself; give it to its holder and do not store it.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

mgp_types::opaque_debug!(NewKey { id });
