//! The share of one caller in a limit that all callers have in common.

use std::hash::{Hash, Hasher};

use mgp_types::service::{AgentId, Principal, Subject, TenantId};

/// The factor that limits one caller: the caller may use at most the free part of the limit multiplied by this factor.
/// So a few callers cannot use up a large limit.
///
/// A single caller thus gets up to 8/9 of the limit, two callers up to 8/17 each, and so on.
const FREE_SHARE_FACTOR: usize = 8;

/// Returns how much of a limit `bound` one caller may use; `used` is the use of all callers together.
pub(super) fn max_share(bound: usize, used: usize) -> usize {
    bound.saturating_sub(used).saturating_mul(FREE_SHARE_FACTOR)
}

/// A caller: tenant, subject and agent. Different API keys of one user and agent count as one caller.
#[derive(Clone, Debug)]
pub(super) struct Caller(Principal);

impl Caller {
    /// Returns the caller whose share counts the requests of a principal.
    pub(super) fn of(principal: &Principal) -> Self {
        Self(principal.clone())
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
