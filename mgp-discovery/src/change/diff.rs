//! The difference between two configurations (MGP §15.2).

use std::collections::{BTreeMap, HashMap, HashSet};

use mgp_types::service::ServerId;

use crate::config::{
    AgentConfig, CallLimits, Config, GovernanceConfig, KernelConfig, ServerConfig,
    ToolCreationConfig,
};

/// The changes that turn one configuration into another. Everything that is not listed is unchanged and can keep
/// running.
///
/// ```
/// use mgp_discovery::{ConfigChange, Config, ChangeEffect};
///
/// let config = |text| Config::parse("mgp.toml", text).unwrap().config;
/// let old = config("servers = [{ id = 'a', command = 'a' }, { id = 'b', command = 'b' }]");
/// let new = config("servers = [{ id = 'a', command = 'a', mgp = { confirm = 'moderate' } }]");
/// let change = ConfigChange::between(&old, &new);
/// assert_eq!(change.removed[0].as_str(), "b");
/// assert_eq!(change.changed[0].effect, ChangeEffect::Govern);
/// assert!(ConfigChange::between(&new, &new).is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ConfigChange {
    /// Servers that are new.
    pub added: Vec<ServerConfig>,
    /// Servers that were removed.
    pub removed: Vec<ServerId>,
    /// Servers whose entries changed.
    pub changed: Vec<ChangedServer>,
    /// The new table `[kernel]`, if it changed.
    pub kernel: Option<KernelConfig>,
    /// The new limits of each agent's calls, if they changed.
    pub limits: Option<CallLimits>,
    /// The changes of agents, by name: the new settings of each added or changed agent, and `None` for each removed
    /// agent.
    pub agents: BTreeMap<String, Option<AgentConfig>>,
    /// The new settings for tools that are created at run time, if they changed.
    pub tool_creation: Option<ToolCreationConfig>,
}

/// A server whose entry changed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ChangedServer {
    /// The server's new entry.
    pub server: ServerConfig,
    /// The effect of the change on the running server.
    pub effect: ChangeEffect,
}

/// The effect of a changed entry on the running server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ChangeEffect {
    /// The new rules apply to all later calls; the server keeps running.
    Govern,
    /// The server is drained and restarted, because its program, URL or handshake changed.
    Restart,
}

impl ConfigChange {
    /// Returns the changes that turn `old` into `new`.
    #[must_use]
    pub fn between(old: &Config, new: &Config) -> Self {
        let before: HashMap<&str, &ServerConfig> =
            old.servers.iter().map(|server| (server.id.as_str(), server)).collect();
        let mut change = Self::default();
        for server in &new.servers {
            match before.get(server.id.as_str()) {
                None => change.added.push(server.clone()),
                Some(old) if **old == *server => {}
                Some(old) => change
                    .changed
                    .push(ChangedServer { server: server.clone(), effect: effect(old, server) }),
            }
        }
        let after: HashSet<&str> = new.servers.iter().map(|server| server.id.as_str()).collect();
        let gone = old.servers.iter().filter(|server| !after.contains(server.id.as_str()));
        change.removed = gone.map(|server| server.id.clone()).collect();
        change.kernel = (old.kernel != new.kernel).then(|| new.kernel.clone());
        change.limits = (old.limits != new.limits).then(|| new.limits.clone());
        change.tool_creation =
            (old.tool_creation != new.tool_creation).then_some(new.tool_creation);
        for (name, agent) in &new.agents {
            if old.agents.get(name) != Some(agent) {
                change.agents.insert(name.clone(), Some(agent.clone()));
            }
        }
        for name in old.agents.keys().filter(|name| !new.agents.contains_key(*name)) {
            change.agents.insert(name.clone(), None);
        }
        change
    }

    /// Returns whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

fn effect(old: &ServerConfig, new: &ServerConfig) -> ChangeEffect {
    // If an entry moved to another file or owner, its relative paths have another folder and its `${…}` other rules, so
    // the server is restarted.
    let same_file = old.file == new.file && old.origin == new.origin;
    let same_place = same_file
        && old.target == new.target
        && old.pass_env == new.pass_env
        && old.confine == new.confine;
    // A new approval also restarts the server, because the server might still run files as they were at an earlier
    // approval.
    let same_place = same_place && old.approved_files == new.approved_files;
    let same_offer = match (&old.mgp, &new.mgp) {
        (None, None) => true,
        (Some(old), Some(new)) => negotiated(old) == negotiated(new),
        _ => false,
    };
    let same_watch =
        old.health_interval == new.health_interval && old.timeouts.start == new.timeouts.start;
    // The maximum message size of a connection is fixed when it is opened, so a new maximum needs a restart.
    let same_message = old.limits.max_message == new.limits.max_message;
    let same_handshake = same_offer && same_watch && same_message && old.era == new.era;
    if same_place && same_handshake { ChangeEffect::Govern } else { ChangeEffect::Restart }
}

/// Returns the settings that are fixed for the lifetime of a connection, e.g. by the handshake.
fn negotiated(mgp: &GovernanceConfig) -> impl PartialEq + '_ {
    let flow = (mgp.permission_timeout, mgp.on_ungranted, mgp.traceparent, mgp.roots);
    (&mgp.extensions, &mgp.permissions_required, mgp.isolation, &mgp.retry, flow)
}
