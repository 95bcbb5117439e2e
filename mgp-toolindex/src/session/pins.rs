//! Pinned tools (MGP §16.7).

use std::collections::HashMap;

use mgp_types::service::{AgentId, Principal};

/// The tools that are always in the context: for all callers, and for individual agents of the tenant `local`.
///
/// A tool is identified by its own name if only one server has a tool with this name, otherwise by `server.name`.
///
/// ```
/// use mgp_toolindex::Pins;
/// use mgp_types::service::Principal;
///
/// let pins = Pins::new().everyone(["think"]).agent("ada", ["notes.recall"]);
/// let ada = Principal::local().agent("ada");
/// assert_eq!(pins.of(&ada).collect::<Vec<_>>(), ["think", "notes.recall"]);
/// assert_eq!(pins.of(&Principal::local()).collect::<Vec<_>>(), ["think"]);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Pins {
    everyone: Vec<String>,
    agents: HashMap<AgentId, Vec<String>>,
}

impl Pins {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Pins tools for all callers.
    pub fn everyone<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.everyone.extend(names.into_iter().map(Into::into));
        self
    }

    /// Pins tools for an agent of the tenant `local`, in addition to those of all callers.
    pub fn agent<N: Into<String>>(
        mut self,
        agent: impl Into<AgentId>,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        let own = self.agents.entry(agent.into()).or_default();
        own.extend(names.into_iter().map(Into::into));
        self
    }

    /// Returns the names of a principal's pinned tools: first those for all callers, then its agent's own.
    pub fn of<'a>(&'a self, principal: &Principal) -> impl Iterator<Item = &'a str> {
        let own = local_agent(principal).and_then(|agent| self.agents.get(agent));
        self.everyone.iter().chain(own.into_iter().flatten()).map(String::as_str)
    }

    /// Returns the pinned tools of each agent that has its own, and of callers without an agent (`None`). It is used to
    /// check a configuration.
    pub fn profiles(&self) -> impl Iterator<Item = (Option<&AgentId>, Vec<&str>)> {
        let everyone = || self.everyone.iter().map(String::as_str);
        let own = self.agents.iter().map(move |(agent, names)| {
            (Some(agent), everyone().chain(names.iter().map(String::as_str)).collect())
        });
        std::iter::once((None, everyone().collect())).chain(own)
    }
}

/// Returns the agent of a principal of the tenant `local`; agents of other tenants can have the same names.
pub(super) fn local_agent(principal: &Principal) -> Option<&AgentId> {
    principal.as_agent().filter(|_| principal.tenant() == Principal::local().tenant())
}
