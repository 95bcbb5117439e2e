//! Pinned tools (MGP §16.7).

use std::collections::HashMap;

use mgp_types::service::{AgentId, Principal};

/// The tools that are always in the context of an agent of the tenant `local`.
///
/// A tool is identified by its own name if only one server has a tool with this name, otherwise by `server.name`.
///
/// ```
/// use mgp_toolindex::Pins;
/// use mgp_types::service::Principal;
///
/// let pins = Pins::new().agent("ada", ["think", "notes.recall"]);
/// let ada = Principal::local().agent("ada");
/// assert_eq!(pins.of(&ada).collect::<Vec<_>>(), ["think", "notes.recall"]);
/// assert_eq!(pins.of(&Principal::local()).count(), 0);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Pins {
    agents: HashMap<AgentId, Vec<String>>,
}

impl Pins {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Pins further tools for an agent of the tenant `local`.
    pub fn agent<N: Into<String>>(
        mut self,
        agent: impl Into<AgentId>,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        let own = self.agents.entry(agent.into()).or_default();
        own.extend(names.into_iter().map(Into::into));
        self
    }

    /// Returns the names of a principal's pinned tools, in the order in which they were pinned.
    pub fn of<'a>(&'a self, principal: &Principal) -> impl Iterator<Item = &'a str> {
        let own = local_agent(principal).and_then(|agent| self.agents.get(agent));
        own.into_iter().flatten().map(String::as_str)
    }
}

/// Returns the agent of a principal of the tenant `local`; agents of other tenants can have the same names.
pub(super) fn local_agent(principal: &Principal) -> Option<&AgentId> {
    principal.as_agent().filter(|_| principal.tenant() == Principal::local().tenant())
}
