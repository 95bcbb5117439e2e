//! The bounded table of tasks, shared by all connections of a server.
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mgp_types::RpcError;
use mgp_types::service::{AgentId, Context, Principal, Subject, TenantId};

use super::entry::{Entry, Outcome};
use super::layer::TasksConfig;
use super::negotiate::Plan;
use crate::drain::{Drain, Held};
use crate::error::Refusal;

/// Holds every task, running or ended, until its time to live is over.
pub(super) struct Table {
    config: TasksConfig,
    tasks: Mutex<Tasks>,
    running: Arc<AtomicUsize>,
    /// The drain that waits for them.
    drain: OnceLock<Drain>,
}

#[derive(Default)]
struct Tasks {
    by_id: HashMap<String, Arc<Entry>>,
    number: u64,
}

/// To whom a task belongs; what a principal may administer is no part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    tenant: TenantId,
    subject: Subject,
    agent: Option<AgentId>,
}

impl Owner {
    pub(super) fn of(principal: &Principal) -> Self {
        Self {
            tenant: principal.tenant().clone(),
            subject: principal.subject().clone(),
            agent: principal.as_agent().cloned(),
        }
    }
}

impl Table {
    pub(super) fn new(config: TasksConfig) -> Self {
        Self { config, tasks: Mutex::default(), running: Arc::default(), drain: OnceLock::new() }
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn config(&self) -> &TasksConfig {
        &self.config
    }

    /// Refuses when there is no room for another task.
    pub(super) fn has_room(&self, principal: &Principal) -> Result<(), Refusal> {
        self.tasks().make_room(&self.config, &Owner::of(principal), Yielding::Keep).map(drop)
    }

    /// Makes a task of a call.
    pub(super) fn insert(&self, cx: &Context, plan: &Plan) -> Result<Arc<Entry>, RpcError> {
        let id = new_id()?;
        let owner = Owner::of(&cx.principal);
        let (entry, yielded) = {
            let mut tasks = self.tasks();
            let yielded = tasks.make_room(&self.config, &owner, Yielding::Take)?;
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
            (entry, yielded)
        };
        if let Some(yielded) = yielded {
            yielded.let_go();
        }
        Ok(entry)
    }

    /// Finds a principal's task; another's does not exist for it.
    pub(super) fn find(&self, id: &str, principal: &Principal) -> Result<Arc<Entry>, Refusal> {
        let owner = Owner::of(principal);
        let found = self.tasks().by_id.get(id).filter(|entry| entry.owner == owner).cloned();
        found.ok_or(Refusal::UnknownTask)
    }

    /// A principal's tasks, oldest first.
    pub(super) fn of(&self, principal: &Principal) -> Vec<Arc<Entry>> {
        let owner = Owner::of(principal);
        let mut own: Vec<_> =
            self.tasks().by_id.values().filter(|entry| entry.owner == owner).cloned().collect();
        own.sort_unstable_by_key(|entry| entry.number);
        own
    }

    /// Lets go of a task.
    pub(super) fn forget(&self, id: &str) {
        let entry = self.tasks().by_id.remove(id);
        if let Some(entry) = entry {
            entry.let_go();
        }
    }

    /// Cancels every task that runs.
    pub(super) fn cancel_all(&self) {
        let all: Vec<_> = self.tasks().by_id.values().cloned().collect();
        for entry in all {
            entry.end(Outcome::Cancelled);
        }
    }

    pub(super) fn kept(&self) -> usize {
        self.tasks().by_id.len()
    }

    pub(super) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire)
    }

    /// Has a drain wait for the tasks; the first one stays.
    pub(super) fn drain(&self, drain: Drain) {
        let _ = self.drain.set(drain);
    }

    /// Holds up the drain for a task, whose request still does.
    pub(super) fn hold(&self) -> Option<Held> {
        self.drain.get().map(Drain::hold)
    }

    /// Counts a call that is about to be driven here.
    pub(super) fn enter(&self) -> Running {
        self.running.fetch_add(1, Ordering::AcqRel);
        Running(Arc::clone(&self.running))
    }
}

/// Whether a task that must give way is taken out at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Yielding {
    Keep,
    Take,
}

impl Tasks {
    /// Finds room for one more task.
    ///
    /// The overflow rule: where there is none, the oldest ended task whose caller knows the outcome gives way;
    /// where there is none of those either, the new one is refused.
    fn make_room(
        &mut self,
        config: &TasksConfig,
        owner: &Owner,
        yielding: Yielding,
    ) -> Result<Option<Arc<Entry>>, Refusal> {
        let own = self.by_id.values().filter(|entry| entry.owner == *owner).count();
        let own_full = own >= config.max_per_principal;
        if !own_full && self.by_id.len() < config.max {
            return Ok(None);
        }
        let yields =
            |entry: &&Arc<Entry>| (!own_full || entry.owner == *owner) && entry.is_delivered();
        let oldest = self.by_id.values().filter(yields).min_by_key(|entry| entry.number).cloned();
        let oldest = oldest.ok_or(Refusal::TooManyTasks)?;
        if yielding == Yielding::Take {
            self.by_id.remove(&oldest.id);
        }
        Ok(Some(oldest))
    }
}

/// Counts a call as long as its future lives.
#[derive(Debug)]
pub(super) struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let tasks = std::mem::take(&mut *self.tasks());
        for entry in tasks.by_id.into_values() {
            entry.let_go();
        }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("config", &self.config)
            .field("kept", &self.kept())
            .finish_non_exhaustive()
    }
}

/// 128 bits that nobody can guess.
fn new_id() -> Result<String, RpcError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| RpcError::internal("the system gave no random bytes").because(error))?;
    Ok(bytes.iter().fold(String::with_capacity(32), |mut id, byte| {
        // Writing into a string cannot fail.
        let _ = write!(id, "{byte:02x}");
        id
    }))
}
