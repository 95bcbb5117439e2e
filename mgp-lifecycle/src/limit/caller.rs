//! The caller: tenant, subject and agent (MGP §5). Limits are counted for it, and tasks belong to it.

use std::hash::{Hash, Hasher};

use mgp_types::service::{AgentId, Principal, Subject, TenantId};

/// A principal without its authority: a user who acts as an operator gets no second share of a limit, and can still use
/// its earlier tasks.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Principal);

impl Caller {
    pub(crate) fn of(principal: &Principal) -> Self {
        Self(principal.clone())
    }

    /// Returns one caller for all users of the principal's agent, so that their calls are counted together. For a
    /// principal without an agent, this is the principal itself.
    pub(super) fn by_agent(principal: &Principal) -> Self {
        let of_agent =
            |agent: &AgentId| Principal::new(principal.tenant().clone(), "").agent(agent.clone());
        Self(principal.as_agent().map_or_else(|| principal.clone(), of_agent))
    }

    /// Returns whether the caller belongs to a tenant.
    pub(crate) fn is_of(&self, tenant: &TenantId) -> bool {
        self.0.tenant() == tenant
    }

    fn parts(&self) -> (&TenantId, &Subject, Option<&AgentId>) {
        (self.0.tenant(), self.0.subject(), self.0.as_agent())
    }
}

impl PartialEq for Caller {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Caller {}

impl Hash for Caller {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}
