//! The groups of agents, from the operator's configuration (MGP §5).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::sync::RwLock;
use rustc_hash::FxHashMap;

use crate::hooks::{HookState, Hooks};

/// The groups of each agent; a change applies from the next message on.
///
/// Groups come from the operator's configuration and never from a caller, so the number of groups needs no limit.
/// Changes made through this type are not recorded in the audit log: the program that loads the configuration must
/// record them. To change groups at run time, use [`Governance::set_groups`](crate::Governance::set_groups), which
/// records the change.
///
/// ```
/// use mgp_security::{Access, Policies};
///
/// let access = Access::in_memory(Policies::default());
/// access.groups().set("acme", "ada", ["interns"]);
/// ```
#[derive(Clone, Default)]
pub struct Groups(Arc<GroupsCore>);

#[derive(Default)]
struct GroupsCore {
    now: RwLock<Table>,
    /// `true` if any agent has a group. If `false`, a lookup returns without searching.
    any: AtomicBool,
    hooks: Hooks,
}

/// The groups of each agent, by tenant and then by agent.
type Table = FxHashMap<Box<str>, FxHashMap<Box<str>, Arc<[Box<str>]>>>;

impl Groups {
    /// Sets the groups of an agent in a tenant; they replace its previous groups.
    pub fn set(
        &self,
        tenant: &str,
        agent: &str,
        names: impl IntoIterator<Item = impl Into<String>>,
    ) {
        let names: Arc<[Box<str>]> =
            names.into_iter().map(|name| name.into().into_boxed_str()).collect();
        let mut table = self.0.now.write();
        let agents = table.entry(tenant.into()).or_default();
        if names.is_empty() {
            agents.remove(agent);
        } else {
            agents.insert(agent.into(), names);
        }
        let any = table.values().any(|agents| !agents.is_empty());
        self.0.any.store(any, Ordering::Release);
        drop(table);
        self.0.hooks.run();
    }

    /// Returns the names of the groups of an agent.
    #[must_use]
    pub fn names(&self, tenant: &str, agent: &str) -> Vec<String> {
        let names = self.of(tenant, agent).unwrap_or_default();
        names.iter().map(ToString::to_string).collect()
    }

    /// Registers a hook that runs after each change of an agent's groups.
    pub(super) fn on_change<L: Into<HookState>>(
        &self,
        hook: impl Fn() -> L + Send + Sync + 'static,
    ) {
        self.0.hooks.add(hook);
    }

    pub(super) fn of(&self, tenant: &str, agent: &str) -> Option<Arc<[Box<str>]>> {
        if !self.0.any.load(Ordering::Acquire) {
            return None;
        }
        let table = self.0.now.read();
        table.get(tenant)?.get(agent).map(Arc::clone)
    }
}

mgp_types::opaque_debug!(Groups);
