//! Calls that an agent makes on behalf of other agents (MGP §5.6).

use mgp_types::service::Principal;

/// The agents on whose behalf a call is made; stored as an extension in the context of the call.
///
/// The caller and each of these agents must have access, so a delegation can only narrow the caller's rights.
#[derive(Clone, Debug)]
pub struct Delegation(Vec<Principal>);

impl Delegation {
    /// The maximum number of agents in one delegation.
    pub const MAX_DEPTH: usize = 3;

    /// Creates the delegation for a call of `caller`. The agents act for the caller's subject and are never operators.
    #[must_use]
    pub fn new<'a>(caller: &Principal, agents: impl IntoIterator<Item = &'a str>) -> Self {
        let (tenant, subject) = (caller.tenant().clone(), caller.subject().clone());
        let of = Principal::new(tenant, subject);
        Self(agents.into_iter().map(|agent| of.agent(agent)).collect())
    }

    /// Returns the principals on whose behalf the call is made.
    #[must_use]
    pub fn principals(&self) -> &[Principal] {
        &self.0
    }
}
