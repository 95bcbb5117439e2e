//! The table of tasks, which has a limited size and is shared by all connections of a server.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use mgp_types::RpcError;
use mgp_types::service::{Context, Principal, TenantId};
use mgp_types::sync::Mutex;

use super::config::TasksConfig;
use super::entry::Entry;
use super::negotiate::Plan;
use crate::drain::{Drain, DrainHold};
use crate::error::LifecycleError;
use crate::limit::Caller;

/// The table of all tasks, running or ended, in memory. Each remains until it expires; in a full table, a new task
/// replaces the oldest ended task whose outcome was delivered.
pub(super) struct Table {
    config: TasksConfig,
    tasks: Mutex<Tasks>,
    running: Arc<AtomicUsize>,
    /// The drain, if any, that must wait for the tasks.
    drain: OnceLock<Drain>,
}

#[derive(Default)]
struct Tasks {
    by_id: HashMap<String, Arc<Entry>>,
    number: u64,
}

impl Table {
    pub(super) fn new(config: TasksConfig) -> Self {
        Self { config, tasks: Mutex::default(), running: Arc::default(), drain: OnceLock::new() }
    }

    pub(super) fn config(&self) -> &TasksConfig {
        &self.config
    }

    /// Checks that there is room for another task of a principal.
    pub(super) fn has_room(&self, principal: &Principal) -> Result<(), LifecycleError> {
        self.tasks
            .lock()
            .make_room(&self.config, &Caller::of(principal), Eviction::DryRun)
            .map(drop)
    }

    pub(super) fn insert(&self, cx: &Context, plan: &Plan) -> Result<Arc<Entry>, RpcError> {
        let id = mgp_types::random_name()?;
        let owner = Caller::of(&cx.principal);
        let (entry, evicted) = {
            let mut tasks = self.tasks.lock();
            let evicted = tasks
                .make_room(&self.config, &owner, Eviction::Remove)
                .map_err(LifecycleError::after_start)?;
            tasks.number += 1;
            let entry = Entry::new(
                id.clone(),
                tasks.number,
                cx,
                plan.era,
                plan.ttl,
                self.config.poll_interval,
            );
            let entry = Arc::new(entry);
            tasks.by_id.insert(id, Arc::clone(&entry));
            (entry, evicted)
        };
        if let Some(evicted) = evicted {
            evicted.on_removed();
        }
        Ok(entry)
    }

    /// Returns a task of the caller's principal. A task is reported as unknown if it belongs to another principal, or
    /// if the caller's credentials do not permit it.
    pub(super) fn find(&self, id: &str, cx: &Context) -> Result<Arc<Entry>, LifecycleError> {
        let owner = Caller::of(&cx.principal);
        let is_own = |entry: &&Arc<Entry>| entry.owner == owner && entry.is_permitted(cx);
        let entry = self.tasks.lock().by_id.get(id).filter(is_own).cloned();
        entry.ok_or(LifecycleError::UnknownTask)
    }

    /// Returns the tasks of the caller's principal that its credentials permit, oldest first.
    pub(super) fn of(&self, cx: &Context) -> Vec<Arc<Entry>> {
        let owner = Caller::of(&cx.principal);
        let is_own = |entry: &&Arc<Entry>| entry.owner == owner && entry.is_permitted(cx);
        let mut own: Vec<_> = self.tasks.lock().by_id.values().filter(is_own).cloned().collect();
        own.sort_unstable_by_key(|entry| entry.number);
        own
    }

    /// Removes a task and stops its driver.
    pub(super) fn remove(&self, id: &str) {
        let entry = self.tasks.lock().by_id.remove(id);
        if let Some(entry) = entry {
            entry.on_removed();
        }
    }

    /// Removes the tasks of a tenant, and stops their drivers.
    pub(super) fn remove_tenant(&self, tenant: &TenantId) {
        let removed: Vec<_> =
            self.tasks.lock().by_id.extract_if(|_, entry| entry.owner.is_of(tenant)).collect();
        for (_, entry) in removed {
            entry.on_removed();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.lock().by_id.len()
    }

    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// Sets the drain that must wait for the tasks. Only the first call has an effect.
    pub(super) fn drain(&self, drain: Drain) {
        let _ = self.drain.set(drain);
    }

    /// Returns a guard that makes the drain wait for a task. Must be called while the drain still counts the task's
    /// request.
    pub(super) fn hold_drain(&self) -> Option<DrainHold> {
        self.drain.get().map(Drain::hold)
    }

    /// Counts a call that runs as a task until the returned guard is dropped.
    pub(super) fn enter(&self) -> RunningGuard {
        self.running.fetch_add(1, Ordering::AcqRel);
        RunningGuard(Arc::clone(&self.running))
    }
}

/// The treatment of the old task that a new task would replace in a full table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Eviction {
    DryRun,
    Remove,
}

impl Tasks {
    /// Makes room for one more task; returns the task to evict, if any. With `DryRun`, that task stays in the table.
    ///
    /// If the table is full, evicts the oldest ended task whose outcome was delivered. If the owner has the maximum
    /// number of tasks, evicts only a task of the owner. Returns an error if no task can be evicted, or if the owner
    /// has used up its share of the table.
    fn make_room(
        &mut self,
        config: &TasksConfig,
        owner: &Caller,
        eviction: Eviction,
    ) -> Result<Option<Arc<Entry>>, LifecycleError> {
        let (mut own, mut own_taken, mut taken) = (0, 0, 0);
        for entry in self.by_id.values() {
            let (is_own, is_taken) = (entry.owner == *owner, !entry.is_delivered());
            own += usize::from(is_own);
            own_taken += usize::from(is_own && is_taken);
            taken += usize::from(is_taken);
        }
        let share = config.share(taken - own_taken);
        if own_taken >= share {
            return Err(LifecycleError::TooManyOwnTasks(share));
        }
        let own_full = own >= config.max_per_principal;
        if !own_full && self.by_id.len() < config.max_tasks {
            return Ok(None);
        }
        let can_be_evicted =
            |entry: &&Arc<Entry>| (!own_full || entry.owner == *owner) && entry.is_delivered();
        let oldest =
            self.by_id.values().filter(can_be_evicted).min_by_key(|entry| entry.number).cloned();
        let oldest = oldest.ok_or(LifecycleError::TooManyTasks(config.max_tasks))?;
        if eviction == Eviction::Remove {
            self.by_id.remove(&oldest.id);
        }
        Ok(Some(oldest))
    }
}

/// A guard that counts a call as running until the guard is dropped.
#[derive(Debug)]
pub(super) struct RunningGuard(Arc<AtomicUsize>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for entry in tasks.by_id.into_values() {
            entry.on_removed();
        }
    }
}

mgp_types::opaque_debug!(Table { config });
