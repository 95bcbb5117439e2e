//! Hashes the properties of a call by which it is counted: its tenant, agent, subject, tool or server.

use std::hash::{BuildHasher, Hash, Hasher};

use mgp_types::service::Call;

use super::table::CallKeys;
use super::{RateKey, RateLimit};

/// A call and the limits that count it, from which the hashes of the call's keys are computed.
pub(super) struct CountedCall<'a> {
    pub(super) limits: &'a [RateLimit],
    /// The hash function of the layer.
    pub(super) hash: &'a ahash::RandomState,
    pub(super) call: &'a Call,
    /// The called tool; `None` if the call names no known tool.
    pub(super) tool: Option<&'a str>,
}

impl CountedCall<'_> {
    /// Hashes the index of the limit, and the parts of the key that the caller cannot choose.
    fn hash_owner(&self, index: usize, hasher: &mut impl Hasher) {
        let (principal, keys) = (&self.call.cx().principal, self.limits[index].keys);
        index.hash(hasher);
        if !keys.are_across_tenants() {
            principal.tenant().hash(hasher);
        }
        if keys.has(RateKey::Agent) || keys.has(RateKey::Subject) {
            principal.subject().hash(hasher);
        }
    }
}

impl CallKeys for CountedCall<'_> {
    fn key(&self, index: usize) -> u64 {
        let (cx, keys) = (self.call.cx(), self.limits[index].keys);
        let mut hasher = self.hash.build_hasher();
        self.hash_owner(index, &mut hasher);
        let agent = cx.principal.as_agent();
        if keys.has(RateKey::Agent) || keys.has(RateKey::AgentName) {
            agent.hash(&mut hasher);
        }
        if keys.has(RateKey::AgentName) && agent.is_none() {
            cx.principal.subject().hash(&mut hasher);
        }
        if keys.has(RateKey::Tool) {
            self.tool.hash(&mut hasher);
        }
        if keys.has(RateKey::Server) {
            cx.server.hash(&mut hasher);
        }
        hasher.finish()
    }

    fn owner(&self, index: usize) -> u64 {
        let mut hasher = self.hash.build_hasher();
        self.hash_owner(index, &mut hasher);
        // A subject may choose the names of its agents, so the owner of the bucket is the subject, not the agent.
        if self.limits[index].keys.has(RateKey::AgentName) {
            self.call.cx().principal.subject().hash(&mut hasher);
        }
        hasher.finish()
    }
}
