//! The caller for whom limits are counted: tenant, subject and agent (MGP §5).

use std::hash::{Hash, Hasher};

use mgp_types::service::{AgentId, Principal};

/// A principal without its authority, so that a user does not get a second share by acting as an operator.
#[derive(Clone, Debug)]
pub(super) struct Caller(Principal);

impl Caller {
    pub(super) fn of(principal: &Principal) -> Self {
        Self(principal.clone())
    }

    /// Returns one caller for all users of the principal's agent; without an agent, the principal's own.
    pub(super) fn by_agent(principal: &Principal) -> Self {
        let of_agent =
            |agent: &AgentId| Principal::new(principal.tenant().clone(), "").agent(agent.clone());
        Self(principal.as_agent().map_or_else(|| principal.clone(), of_agent))
    }
}

impl PartialEq for Caller {
    fn eq(&self, other: &Self) -> bool {
        let (one, other) = (&self.0, &other.0);
        one.subject() == other.subject()
            && one.as_agent() == other.as_agent()
            && one.tenant() == other.tenant()
    }
}

impl Eq for Caller {}

impl Hash for Caller {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.tenant().hash(state);
        self.0.subject().hash(state);
        self.0.as_agent().hash(state);
    }
}
