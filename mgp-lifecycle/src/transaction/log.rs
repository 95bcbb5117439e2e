//! The transactions, in memory and in a store. A change counts as made only once it is stored; if it cannot be stored,
//! it is undone.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::proposal::{StepStatus, TransactionStatus};
use mgp_types::store::{Change, Store, StoreError, with_timeout};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError, Sha256Hash};
use tokio::sync::watch;

use super::saga::{Owner, SPACE, Saga, now_ms};
use crate::error::LifecycleError;

/// The maximum number of transactions per caller that are open or wait for a person.
pub(super) const MAX_OF_CALLER: usize = 100;
/// The maximum number of transactions of all callers that are open or wait for a person.
pub(super) const MAX_OPEN: usize = 1_000;
/// The maximum number of settled transactions that are kept, so that their ids cannot be used again.
const MAX_SETTLED: usize = 2_000;
/// The time that a transaction is kept after it was settled.
const SETTLED_TTL: Duration = Duration::from_hours(24);

/// The id of a transaction together with its caller.
pub(super) type SagaKey = (Owner, String);

pub(super) struct SagaLog {
    store: Arc<dyn Store>,
    sagas: Mutex<BTreeMap<SagaKey, Saga>>,
    /// The number of steps of each transaction that are running in this process.
    running: Mutex<HashMap<SagaKey, usize>>,
    /// A counter that changes whenever a transaction changes or a step ends.
    changed: watch::Sender<u64>,
}

impl SagaLog {
    pub(super) async fn open(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let mut sagas = BTreeMap::new();
        for record in store.load(SPACE).await?.records {
            match record.value.map(|value| value.get::<Saga>()) {
                Some(Ok(saga)) => {
                    sagas.insert((saga.owner.clone(), saga.id.clone()), saga);
                }
                Some(Err(error)) => {
                    let key = &record.key;
                    let why =
                        format!("`{key}` in `{SPACE}` is damaged ({error}); restore a backup");
                    return Err(StoreError::Unreadable(why));
                }
                None => {}
            }
        }
        let (sagas, running, changed) =
            (Mutex::new(sagas), Mutex::default(), watch::Sender::new(0));
        Ok(Self { store, sagas, running, changed })
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn get(&self, key: &SagaKey) -> Option<Saga> {
        self.sagas.lock().get(key).cloned()
    }

    pub(super) fn all(&self) -> Vec<Saga> {
        self.sagas.lock().values().cloned().collect()
    }

    /// Adds a transaction, unless its id was used before or too many transactions are open. Removes old settled
    /// transactions.
    pub(super) async fn insert(&self, saga: Saga) -> Result<(), RpcError> {
        let key = (saga.owner.clone(), saga.id.clone());
        let stored = {
            let mut sagas = self.sagas.lock();
            if sagas.contains_key(&key) {
                return Err(LifecycleError::TransactionExists.into());
            }
            let open = || sagas.values().filter(|other| !other.is_settled());
            let of_caller = open().filter(|other| other.owner == saga.owner).count();
            if of_caller >= MAX_OF_CALLER || open().count() >= MAX_OPEN {
                return Err(LifecycleError::TooManyTransactions.into());
            }
            let mut change = Change::new().put(SPACE, store_key(&key), Payload::of(&saga)?);
            for old in forget_settled(&mut sagas) {
                change = change.remove(SPACE, store_key(&old));
            }
            sagas.insert(key.clone(), saga);
            // Start to store the change while holding the lock, as `change` does.
            self.store.commit(change)
        };
        if let Err(error) = with_timeout(self.store.answer_timeout(), stored).await {
            self.sagas.lock().remove(&key);
            return Err(error.into());
        }
        self.notify();
        Ok(())
    }

    /// Changes a transaction, and returns it once the change is stored.
    ///
    /// If the change cannot be stored, it is undone, unless the transaction was changed again meanwhile.
    pub(super) async fn change<T>(
        &self,
        key: &SagaKey,
        change: impl FnOnce(&mut Saga) -> Result<T, LifecycleError>,
    ) -> Result<(T, Saga), RpcError> {
        let (value, before, after, stored) = {
            let mut sagas = self.sagas.lock();
            let saga = sagas.get_mut(key).ok_or(LifecycleError::UnknownTransaction)?;
            let before = saga.clone();
            let value = change(saga).inspect_err(|_| saga.clone_from(&before))?;
            let after = Payload::of(saga)?;
            // Start to store the change while holding the lock, so that changes are stored in the order they were made.
            let put = Change::new().put(SPACE, store_key(key), after.clone());
            (value, before, saga.clone(), self.store.commit(put))
        };
        if let Err(error) = with_timeout(self.store.answer_timeout(), stored).await {
            let mut sagas = self.sagas.lock();
            let unchanged = Payload::of(&after)?;
            if let Some(saga) = sagas.get_mut(key)
                && Payload::of(saga)?.as_str() == unchanged.as_str()
            {
                *saga = before;
            }
            return Err(error.into());
        }
        self.notify();
        Ok((value, after))
    }

    /// Changes a transaction like [`change`](Self::change), with a function that cannot fail.
    pub(super) async fn update(
        &self,
        key: &SagaKey,
        update: impl FnOnce(&mut Saga),
    ) -> Result<Saga, RpcError> {
        let update = |saga: &mut Saga| {
            update(saga);
            Ok(())
        };
        self.change(key, update).await.map(|((), saga)| saga)
    }

    /// Removes the transactions of a tenant, in every state.
    pub(super) async fn remove_tenant(&self, tenant: &str) -> Result<(), StoreError> {
        let (removed, stored) = {
            let mut sagas = self.sagas.lock();
            let all = mem::take(&mut *sagas).into_iter();
            let (removed, kept): (BTreeMap<_, _>, BTreeMap<_, _>) =
                all.partition(|((owner, _), _)| owner.tenant() == tenant);
            *sagas = kept;
            if removed.is_empty() {
                return Ok(());
            }
            let remove = |change: Change, key: &SagaKey| change.remove(SPACE, store_key(key));
            // Start to store the change while holding the lock, as `change` does.
            let stored = self.store.commit(removed.keys().fold(Change::new(), remove));
            (removed, stored)
        };
        if let Err(error) = with_timeout(self.store.answer_timeout(), stored).await {
            self.sagas.lock().extend(removed);
            return Err(error);
        }
        self.notify();
        Ok(())
    }

    pub(super) fn notify(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Counts a step as running until the returned guard is dropped.
    pub(super) fn step_begins(self: &Arc<Self>, key: &SagaKey) -> RunningStep {
        *self.running.lock().entry(key.clone()).or_default() += 1;
        RunningStep { log: Arc::clone(self), key: key.clone() }
    }

    pub(super) fn is_running(&self, key: &SagaKey) -> bool {
        self.running.lock().contains_key(key)
    }

    /// Returns the transactions that have been inactive for too long, and the time until another transaction can have
    /// been inactive for too long.
    pub(super) fn inactive(&self) -> (Vec<SagaKey>, Duration) {
        let now = now_ms();
        let mut next = Duration::from_hours(1);
        let mut due = Vec::new();
        for (key, saga) in self.sagas.lock().iter().filter(|(_, saga)| saga.is_open()) {
            if self.is_running(key) {
                continue;
            }
            match saga.active_ms.saturating_add(saga.timeout_ms).checked_sub(now) {
                Some(left) if left > 0 => next = next.min(Duration::from_millis(left)),
                _ => due.push(key.clone()),
            }
        }
        (due, next)
    }

    pub(super) fn is_rolling_back(&self, key: &SagaKey) -> bool {
        let sagas = self.sagas.lock();
        sagas.get(key).is_some_and(|saga| saga.status == TransactionStatus::RollingBack)
    }

    pub(super) fn rolling_back(&self) -> Vec<SagaKey> {
        let sagas = self.sagas.lock();
        let begun = sagas.iter().filter(|(_, saga)| saga.status == TransactionStatus::RollingBack);
        begun.map(|(key, _)| key.clone()).collect()
    }
}

/// A guard that counts a step as running until the guard is dropped.
pub(super) struct RunningStep {
    log: Arc<SagaLog>,
    key: SagaKey,
}

impl Drop for RunningStep {
    fn drop(&mut self) {
        let mut running = self.log.running.lock();
        if let Some(count) = running.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.key);
            }
        }
        drop(running);
        self.log.notify();
    }
}

/// Removes settled transactions that are too old or too many, and returns their keys.
fn forget_settled(sagas: &mut BTreeMap<SagaKey, Saga>) -> Vec<SagaKey> {
    let expired = now_ms().saturating_sub(mgp_types::millis(SETTLED_TTL));
    let mut settled: Vec<_> = sagas
        .iter()
        .filter(|(_, saga)| saga.is_settled())
        .map(|(key, saga)| (saga.active_ms, key.clone()))
        .collect();
    settled.sort();
    let surplus = (settled.len() + 1).saturating_sub(MAX_SETTLED);
    let old = settled.into_iter().enumerate();
    let old = old.filter(|(index, (ended, _))| *index < surplus || *ended < expired);
    let keys: Vec<_> = old.map(|(_, (_, key))| key).collect();
    for key in &keys {
        sagas.remove(key);
    }
    keys
}

fn store_key((owner, id): &SagaKey) -> String {
    let name = Payload::of(&(owner, id)).map(|name| name.as_str().to_owned());
    Sha256Hash::digest(name.unwrap_or_default().as_bytes()).to_string()
}

/// Refuses to commit a transaction if it is unknown how some of its steps ended.
pub(super) fn check_ended(saga: &Saga) -> Result<(), LifecycleError> {
    match saga.steps.iter().find(|step| step.status == StepStatus::Started) {
        Some(step) => Err(LifecycleError::StepNotEnded(step.id.clone())),
        None => Ok(()),
    }
}
