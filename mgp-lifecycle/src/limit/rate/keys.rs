//! Hashes the properties of a call by which it is counted: its tenant, agent, subject, tool or server.

use std::hash::{BuildHasher, Hash, Hasher};

use mgp_types::service::Call;

use super::RateKey;
use super::layer::RateState;
use super::table::CallKeys;

/// A call, and the state of the layer, which contains what is needed to hash the call's keys.
pub(super) struct CountedCall<'a> {
    pub(super) state: &'a RateState,
    pub(super) call: &'a Call,
    pub(super) tool: &'a str,
}

impl CountedCall<'_> {
    /// Hashes the index of the limit, and the parts of the key that the caller cannot choose.
    fn hash_owner(&self, limit: usize, hasher: &mut impl Hasher) {
        let (principal, by) = (&self.call.cx().principal, self.state.limits[limit].by);
        limit.hash(hasher);
        if !by.are_across_tenants() {
            principal.tenant().hash(hasher);
        }
        if by.has(RateKey::Agent) || by.has(RateKey::Subject) {
            principal.subject().hash(hasher);
        }
    }
}

impl CallKeys for CountedCall<'_> {
    fn key(&self, limit: usize) -> u64 {
        let (cx, by) = (self.call.cx(), self.state.limits[limit].by);
        let mut hasher = self.state.hash.build_hasher();
        self.hash_owner(limit, &mut hasher);
        let agent = cx.principal.as_agent();
        if by.has(RateKey::Agent) || by.has(RateKey::AgentName) {
            agent.hash(&mut hasher);
        }
        if by.has(RateKey::AgentName) && agent.is_none() {
            cx.principal.subject().hash(&mut hasher);
        }
        if by.has(RateKey::Tool) {
            let is_tool = self.state.is_tool.as_ref().is_none_or(|is_tool| is_tool(self.tool));
            is_tool.then_some(self.tool).hash(&mut hasher);
        }
        if by.has(RateKey::Server) {
            cx.server.hash(&mut hasher);
        }
        hasher.finish()
    }

    fn owner(&self, limit: usize) -> u64 {
        let mut hasher = self.state.hash.build_hasher();
        self.hash_owner(limit, &mut hasher);
        // A subject may choose the names of its agents, so the owner of the bucket is the subject, not the agent.
        if self.state.limits[limit].by.has(RateKey::AgentName) {
            self.call.cx().principal.subject().hash(&mut hasher);
        }
        hasher.finish()
    }
}
