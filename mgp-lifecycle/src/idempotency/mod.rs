//! Calls that run only once, however often they are sent (extension `idempotency`).
//!
//! An entry is stored before a call with a key runs. It is completed with the result before the caller gets the result.
//! A call whose run was interrupted, e.g. because the process was killed, is run again only if a second run does no
//! harm.

mod compensation_key;
mod keys;
mod layer;
mod stored;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use mgp_types::service::{Principal, TenantId};
use mgp_types::store::{Change, MemoryStore, Store, StoreError, with_timeout};
use mgp_types::sync::Mutex;

pub(crate) use compensation_key::CompensationKey;
pub use layer::{IdempotencyLayer, IdempotencyService};
pub(crate) use layer::{check_key, ignore_gone_caller, key_of, run_on};

use self::keys::KeyTable;
use self::stored::{SPACE, StoredKey};

/// The idempotency keys of calls, and the results of the calls that have ended; a handle that is cheap to clone.
///
/// ```
/// use mgp_lifecycle::{Idempotency, IdempotencyLayer, ProposalLayer};
/// use mgp_types::mgp::ExtensionSet;
/// use mgp_types::service::{PeerInfo, Reply, Stack, mock};
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use tower_layer::Layer;
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// static RUNS: AtomicU32 = AtomicU32::new(0);
/// let pay = Stack::from_fn(|_| async { Reply::of(&RUNS.fetch_add(1, Ordering::Relaxed)) });
/// let once = IdempotencyLayer::new(Idempotency::in_memory()).layer(pay);
/// let mut client = mock::client(Stack::new(ProposalLayer::new().layer(once)));
/// let mut caller = PeerInfo::default();
/// caller.mgp = Some(ExtensionSet::PROPOSALS);
/// client.cx.caller = caller.into();
///
/// let call = r#"{"name":"pay","arguments":{"to":"ann"},"_meta":{"idempotency_key":"order-7"}}"#;
/// client.call("tools/call", call).await.unwrap();
/// client.call("tools/call", call).await.unwrap();
/// assert_eq!(RUNS.load(Ordering::Relaxed), 1);
/// # });
/// ```
#[derive(Clone)]
pub struct Idempotency(Arc<Shared>);

struct Shared {
    store: Arc<dyn Store>,
    is_in_memory: bool,
    table: Mutex<KeyTable>,
}

mgp_types::opaque_debug!(Idempotency);

/// The limits of an [`Idempotency`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct IdempotencyLimits {
    /// The lifetime of a key if its call does not choose another. Default: a day.
    pub ttl: Duration,
    /// The maximum lifetime of a key, even if its call asks for a longer lifetime. Default: a week.
    pub max_ttl: Duration,
    /// The maximum number of keys per caller; further keys are refused until a stored key expires, except those of
    /// calls that undo a step of a transaction. Default: 10,000.
    pub caller_keys: usize,
    /// The maximum number of keys of all callers together. Default: 50,000.
    pub keys: usize,
    /// The maximum size of a stored result, in bytes; if a result is larger, a repetition of its call is refused.
    /// Default: 1 MiB.
    pub result: usize,
    /// The maximum size, in bytes, of all results of a caller. Above it, the caller's oldest results are removed, but
    /// not their keys. Default: 8 MiB.
    pub caller_results: usize,
    /// The maximum size, in bytes, of all results together. Above it, the caller with the most bytes loses its oldest
    /// results. Default: 32 MiB.
    pub results: usize,
}

impl Default for IdempotencyLimits {
    fn default() -> Self {
        Self {
            ttl: Duration::from_hours(24),
            max_ttl: Duration::from_hours(24 * 7),
            caller_keys: 10_000,
            keys: 50_000,
            result: 1 << 20,
            caller_results: 8 << 20,
            results: 32 << 20,
        }
    }
}

impl Idempotency {
    /// Reads the keys that are in a store, with the default limits.
    ///
    /// Only one process at a time may use the keys of a store.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn open(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        Self::with_limits(store, IdempotencyLimits::default()).await
    }

    /// Reads the keys that are in a store.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn with_limits(
        store: Arc<dyn Store>,
        limits: IdempotencyLimits,
    ) -> Result<Self, StoreError> {
        let mut keys = Vec::new();
        for record in store.load(SPACE).await?.records {
            match record.value.map(|value| value.get::<StoredKey>()) {
                Some(Ok(stored)) => keys.push((record.key, stored)),
                // The call with this key might have run, and nothing else is known about it, so the key must not be
                // used again.
                Some(Err(error)) => {
                    tracing::warn!(key = record.key, %error, "idempotency key not readable");
                    keys.push((record.key, StoredKey::unreadable(limits.max_ttl)));
                }
                None => {}
            }
        }
        // Restore the oldest keys first: if the results exceed the limits, the results that were restored first are
        // removed first.
        keys.sort_by_key(|(_, stored)| stored.began_ms);
        let mut table = KeyTable::new(limits);
        for (id, stored) in keys {
            table.restore(&id, stored);
        }
        Ok(Self(Arc::new(Shared { store, is_in_memory: false, table: Mutex::new(table) })))
    }

    /// Creates an empty table of keys, which are lost when the process ends. A server with transactions refuses them.
    #[must_use]
    pub fn in_memory() -> Self {
        let table = Mutex::new(KeyTable::new(IdempotencyLimits::default()));
        Self(Arc::new(Shared { store: Arc::new(MemoryStore::new()), is_in_memory: true, table }))
    }

    /// Returns whether the keys were created by [`in_memory`](Self::in_memory).
    #[must_use]
    pub fn is_in_memory(&self) -> bool {
        self.0.is_in_memory
    }

    /// Returns the caller of each key that [`remove_tenant`](Self::remove_tenant) would remove for the caller's tenant.
    #[must_use]
    pub fn callers(&self) -> Vec<Principal> {
        self.0.table.lock().callers()
    }

    /// Removes the keys of a tenant whose calls have ended, with the results, so that a later tenant with this name does
    /// not get them. A key stays if its call is running or if it is unknown how its call ended; its result is not
    /// stored.
    ///
    /// # Errors
    /// Returns [`StoreError`] if the store cannot be written; nothing is removed then.
    ///
    /// # Cancel safety
    /// If the future is dropped, the keys can still be in use; call the function again.
    pub async fn remove_tenant(&self, tenant: &TenantId) -> Result<(), StoreError> {
        let ended = {
            let mut table = self.0.table.lock();
            table.drop_later_results(tenant);
            table.ended_of(tenant)
        };
        if ended.is_empty() {
            return Ok(());
        }
        let remove = |change: Change, id: &String| change.remove(SPACE, id.as_str());
        self.commit(ended.iter().fold(Change::new(), remove)).await?;
        let mut table = self.0.table.lock();
        for id in &ended {
            table.remove(id);
        }
        Ok(())
    }

    async fn commit(&self, change: Change) -> Result<(), StoreError> {
        let store = &self.0.store;
        with_timeout(store.answer_timeout(), store.commit(change)).await.map(drop)
    }
}
