//! The keys of a server: made, revoked, and looked up on every request.
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use mgp_types::service::{AuditSink, Principal};
use mgp_types::to_hex;
use subtle::ConstantTimeEq;
use tokio::time::Instant;

use super::error::{KeyError, StoreError};
use super::record::{KeyGrant, KeyRecord};
use super::store::{KeyStore, MemoryKeys};
use super::text::{Hash, KeyText, PREFIX};
use crate::audit::Event;
use crate::auth::authenticated::{Authenticated, Credential};
use crate::auth::refused::AuthRefused;

/// How long a snapshot is used before the store is asked whether it has changed: what another process revokes is
/// refused within this time, as any other change of it is in force.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// A secret somebody else made is hardly guessed from this length on: 128 bits in base64.
const STRONG_SECRET: usize = 22;

/// The API keys of a server; a handle.
///
/// A key may narrow what its holder has access to, by these permissions; [`AccessLayer`](crate::AccessLayer) holds it to them:
///
/// | permission | what it permits |
/// |---|---|
/// | `tools.call` | to call every tool, and to see it |
/// | `tools.call:NAME` | to call one tool, and to see it |
/// | `tools.list` | to see every tool in lists |
/// | `tools.read:NAME` | to see one tool in lists |
/// | `admin.write` | an operator: to grant and revoke |
/// | `admin.read` | an operator: to ask about others |
///
/// A key without any `tools.` permission is not narrowed; with one, it calls and sees what these permit and no more.
/// A key with any `tools.` or `admin.` permission administers only what an `admin.` one permits.
/// None of them gives access that no entry or policy gives, or makes an operator.
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
    shared: Arc<Shared>,
    /// Who holds this handle, and where what they change is recorded.
    holder: Option<Arc<Holder>>,
}

struct Holder {
    by: Principal,
    audit: Arc<dyn AuditSink>,
}

struct Shared {
    store: Box<dyn KeyStore>,
    snapshot: RwLock<Arc<Snapshot>>,
    /// Held while the store is read into the snapshot, never while it is changed: a change may wait for another process,
    /// and requests wait for who reads.
    reading: tokio::sync::Mutex<()>,
    /// When the stamp of the store is looked at next, in milliseconds since `born`.
    look_at: AtomicU64,
    /// Whether somebody reads the store for those who cannot wait.
    catching_up: AtomicBool,
    born: Instant,
}

/// The store as it was when it had this stamp.
#[derive(Default)]
struct Snapshot {
    stamp: u64,
    /// A store that cannot be read might hold a revocation, so no key is good until it can.
    broken: bool,
    entries: HashMap<String, Entry>,
}

struct Entry {
    hash: Hash,
    caller: Authenticated,
    is_revoked: bool,
}

/// What a look at the snapshot gives.
pub(in crate::auth) enum Looked {
    Up(Result<Authenticated, AuthRefused>),
    /// The store has changed and must be read first.
    Outdated,
}

/// A key that was just made: the only time its secret is seen.
pub struct NewKey {
    id: String,
    text: String,
}

// === impl ApiKeys ===

impl ApiKeys {
    /// Keys in memory, none yet.
    #[must_use]
    pub fn new() -> Self {
        Self::around(MemoryKeys::new(), Snapshot::default())
    }

    /// The keys of a store.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future reads nothing.
    pub async fn open(store: impl KeyStore) -> Result<Self, StoreError> {
        let stamp = store.stamp();
        let snapshot = Snapshot::of(store.load().await?, stamp)?;
        Ok(Self::around(store, snapshot))
    }

    fn around(store: impl KeyStore, snapshot: Snapshot) -> Self {
        let shared = Arc::new(Shared {
            store: Box::new(store),
            snapshot: RwLock::new(Arc::new(snapshot)),
            reading: tokio::sync::Mutex::new(()),
            look_at: AtomicU64::new(0),
            catching_up: AtomicBool::new(false),
            born: Instant::now(),
        });
        Self { shared, holder: None }
    }

    /// The same keys in the hands of somebody whose changes are recorded; other handles stay as they are.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use mgp_security::auth::{ApiKeys, KeyGrant};
    /// use mgp_types::service::{MemoryAudit, Principal};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let (keys, log) = (ApiKeys::new(), MemoryAudit::new());
    /// let ann = Principal::new("acme", "ann").operator();
    /// keys.recorded(ann, Arc::new(log.clone())).issue(KeyGrant::new("acme", "build")).await.unwrap();
    /// assert_eq!(log.events()[0].event_type.as_str(), "dev.cloto.key_added");
    /// # });
    /// ```
    #[must_use]
    pub fn recorded(&self, by: Principal, audit: Arc<dyn AuditSink>) -> Self {
        let holder = Some(Arc::new(Holder { by, audit }));
        Self { shared: Arc::clone(&self.shared), holder }
    }

    /// Makes a key and keeps what is needed to know it again.
    ///
    /// # Errors
    /// [`KeyError::Full`], [`KeyError::NoRandomness`], [`KeyError::Store`], [`KeyError::Unaudited`].
    ///
    /// # Cancel safety
    /// A key whose future was dropped may be in the store; nobody knows its secret.
    pub async fn issue(&self, grant: KeyGrant) -> Result<NewKey, KeyError> {
        let (mut id, mut secret) = ([0; 8], [0; 32]);
        getrandom::fill(&mut id).map_err(KeyError::NoRandomness)?;
        getrandom::fill(&mut secret).map_err(KeyError::NoRandomness)?;
        let id = to_hex(&id);
        let text = format!("{PREFIX}{id}_{}", to_hex(&secret));
        self.import(&text, grant).await?;
        Ok(NewKey { id, text })
    }

    /// Keeps a key that was made elsewhere, and gives its id; how hard its secret is to guess is up to its maker.
    ///
    /// # Errors
    /// [`KeyError::Malformed`], [`KeyError::Exists`], [`KeyError::Full`], [`KeyError::Store`], [`KeyError::Unaudited`].
    ///
    /// # Cancel safety
    /// A key whose future was dropped may have been kept.
    pub async fn import(&self, key: &str, grant: KeyGrant) -> Result<String, KeyError> {
        let key = KeyText::parse(key).ok_or(KeyError::Malformed)?;
        if key.secret.len() < STRONG_SECRET {
            tracing::warn!(
                key = key.id,
                "the secret of this key is short; `issue` makes better ones"
            );
        }
        let (whose, expires) = (grant.principal(), grant.as_expires().cloned());
        self.shared.store.add(KeyRecord::new(key.id, key.hash(), grant)).await?;
        if let Some(holder) = &self.holder {
            let event = Event::key_added(&holder.by, key.id, &whose).expires_at(expires.as_ref());
            if let Err(reason) = holder.audit.record(event.into()).await {
                // What nobody can find in the log does not exist.
                self.shared.store.remove(key.id).await?;
                return Err(reason.into());
            }
        }
        self.shared.read_again().await?;
        Ok(key.id.to_owned())
    }

    /// Revokes a key: once this returns, no request gets in with it.
    ///
    /// # Errors
    /// [`KeyError::Unknown`], [`KeyError::Store`], [`KeyError::Unaudited`].
    ///
    /// # Cancel safety
    /// A key whose future was dropped may have been revoked, and is then refused within 250 ms.
    pub async fn revoke(&self, id: &str) -> Result<(), KeyError> {
        let whose = self.whose(id).await;
        self.shared.store.revoke(id).await?;
        self.gone(id, whose).await
    }

    /// Removes a key and its record.
    ///
    /// # Errors
    /// [`KeyError::Unknown`], [`KeyError::Store`], [`KeyError::Unaudited`].
    ///
    /// # Cancel safety
    /// A key whose future was dropped may have been removed, and is then refused within 250 ms.
    pub async fn remove(&self, id: &str) -> Result<(), KeyError> {
        let whose = self.whose(id).await;
        self.shared.store.remove(id).await?;
        self.gone(id, whose).await
    }

    /// Whose key an id is; another process may have made it a moment ago.
    async fn whose(&self, id: &str) -> Option<Principal> {
        let known = || {
            let snapshot = self.shared.snapshot();
            snapshot.entries.get(id).map(|entry| entry.caller.principal().clone())
        };
        if let Some(whose) = known() {
            return Some(whose);
        }
        // What cannot be read now is revoked all the same, and recorded by its id.
        let _ = self.shared.read_again().await;
        known()
    }

    /// Sees to it that a key gets nobody in any more, then records it: a key that is gone stays so in any case.
    async fn gone(&self, id: &str, whose: Option<Principal>) -> Result<(), KeyError> {
        self.shared.read_again().await?;
        if let Some(holder) = &self.holder {
            let event = Event::key_revoked(&holder.by, id, whose.as_ref());
            holder.audit.record(event.into()).await?;
        }
        Ok(())
    }

    /// Reads the records of all keys, revoked ones too.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn records(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.shared.store.load().await
    }

    /// Says whose key this is.
    ///
    /// # Errors
    /// [`AuthRefused::Invalid`] for anything that is not a key in force, in the same words;
    /// [`AuthRefused::Expired`] for a key that was; [`AuthRefused::Unavailable`] while the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn check(&self, key: &str) -> Result<Authenticated, AuthRefused> {
        if let Looked::Up(decided) = self.look(key) {
            return decided;
        }
        self.shared.catch_up().await;
        let key = KeyText::parse(key).ok_or(AuthRefused::NOT_VALID)?;
        self.shared.snapshot().decide(key, SystemTime::now())
    }

    /// Whether a key that was good still is, as far as is known in memory.
    ///
    /// It is asked for every part of a stream and cannot wait: where the store has changed it is read meanwhile, so that
    /// a stream ends also if no request comes.
    pub(in crate::auth) fn is_live(&self, id: &str) -> bool {
        let snapshot = self.shared.snapshot();
        if self.shared.is_due() {
            if self.shared.is_outdated(&snapshot) {
                self.catch_up_meanwhile();
            } else {
                self.shared.looked();
            }
        }
        !snapshot.broken && snapshot.entries.get(id).is_some_and(|entry| !entry.is_revoked)
    }

    /// Reads the store in a task of its own, one at a time.
    fn catch_up_meanwhile(&self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.shared.catching_up.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = Arc::clone(&self.shared);
        runtime.spawn(async move {
            shared.catch_up().await;
            shared.catching_up.store(false, Ordering::Release);
        });
    }

    /// Whether a credential is meant to be a key.
    pub(in crate::auth) fn is_key(credential: &str) -> bool {
        credential.starts_with(PREFIX)
    }

    /// Decides from memory; text that is no key comes no further.
    pub(in crate::auth) fn look(&self, key: &str) -> Looked {
        let Some(key) = KeyText::parse(key) else {
            return Looked::Up(Err(AuthRefused::NOT_VALID));
        };
        let shared = &*self.shared;
        let snapshot = shared.snapshot();
        if shared.is_due() {
            if shared.is_outdated(&snapshot) {
                return Looked::Outdated;
            }
            shared.looked();
        }
        Looked::Up(snapshot.decide(key, SystemTime::now()))
    }
}

impl Default for ApiKeys {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for ApiKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} API keys", self.shared.snapshot().entries.len())
    }
}

// === impl Shared ===

impl Shared {
    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the store after a change, however recently it was read.
    async fn read_again(&self) -> Result<(), StoreError> {
        let _held = self.reading.lock().await;
        self.read().await
    }

    /// Reads the store anew; whoever calls holds `reading`.
    async fn read(&self) -> Result<(), StoreError> {
        // Taken before, so that a change in between is seen at the next look.
        let stamp = self.store.stamp();
        let read = self.store.load().await.and_then(|records| Snapshot::of(records, stamp));
        let (snapshot, outcome) = match read {
            Ok(snapshot) => (snapshot, Ok(())),
            Err(error) => (Snapshot { stamp, broken: true, ..Snapshot::default() }, Err(error)),
        };
        *self.snapshot.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(snapshot);
        self.looked();
        outcome
    }

    /// Reads the store if it has changed; while it cannot be read no key is good.
    async fn catch_up(&self) {
        let _held = self.reading.lock().await;
        // Somebody else may have read it while this one waited.
        if self.is_outdated(&self.snapshot())
            && let Err(error) = self.read().await
        {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "the keys cannot be read; every key is refused"
            );
        }
    }

    /// Whether it is time to look at the store again.
    fn is_due(&self) -> bool {
        self.since_born() >= self.look_at.load(Ordering::Relaxed)
    }

    /// A broken store is tried again at every look.
    fn is_outdated(&self, snapshot: &Snapshot) -> bool {
        self.is_due() && (snapshot.broken || snapshot.stamp != self.store.stamp())
    }

    fn looked(&self) {
        let next = self.since_born().saturating_add(millis(LOOK_AGAIN));
        self.look_at.store(next, Ordering::Relaxed);
    }

    fn since_born(&self) -> u64 {
        millis(self.born.elapsed())
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

// === impl Snapshot ===

impl Snapshot {
    fn of(records: Vec<KeyRecord>, stamp: u64) -> Result<Self, StoreError> {
        let entries = records.into_iter().map(|record| {
            let id = record.id().to_owned();
            let grant = record.grant();
            let expires = match grant.as_expires() {
                None => None,
                Some(time) => Some(time.to_system_time().ok_or_else(|| {
                    StoreError::Other(format!("the expiry of the key `{id}` is no time").into())
                })?),
            };
            let caller = Authenticated::new(
                grant.principal(),
                Credential::Key { id: id.clone() },
                grant.permissions().to_vec(),
                expires,
            );
            let is_revoked = record.revoked().is_some();
            Ok((id, Entry { hash: *record.hash(), caller, is_revoked }))
        });
        Ok(Self { stamp, broken: false, entries: entries.collect::<Result<_, StoreError>>()? })
    }

    /// Every key costs one hash, one look-up and one comparison, whether it exists or not.
    fn decide(&self, key: KeyText<'_>, now: SystemTime) -> Result<Authenticated, AuthRefused> {
        if self.broken {
            return Err(AuthRefused::Unavailable);
        }
        let shown = key.hash();
        let entry = self.entries.get(key.id);
        let kept = entry.map_or(&[0; 32], |entry| &entry.hash);
        let is_same = bool::from(kept.ct_eq(&shown));
        let entry = entry.filter(|_| is_same).ok_or(AuthRefused::NOT_VALID)?;
        if entry.is_revoked {
            tracing::warn!(key = key.id, "a revoked key was used");
            return Err(AuthRefused::NOT_VALID);
        }
        if entry.caller.has_expired(now) {
            return Err(AuthRefused::Expired);
        }
        Ok(entry.caller.clone())
    }
}

// === impl NewKey ===

impl NewKey {
    /// The id, by which the key is revoked.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The key itself, to be handed to its holder and kept nowhere.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for NewKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NewKey({}, secret hidden)", self.id)
    }
}
