//! Calls that an agent makes on behalf of other agents (MGP §5.6).

use mgp_types::service::Principal;

/// The agents on whose behalf a call is made, as an extension of its context.
///
/// Such a call needs the access of its caller and of each of these agents, so a delegation can only narrow rights.
#[derive(Clone, Debug)]
pub struct Delegation(Vec<Principal>);

impl Delegation {
    /// The most agents of one call.
    pub const MAX_DEPTH: usize = 3;

    /// Creates the delegation of a call of `caller`; the agents act for the same subject, and are no operators.
    #[must_use]
    pub fn new<'a>(caller: &Principal, agents: impl IntoIterator<Item = &'a str>) -> Self {
        let (tenant, subject) = (caller.tenant().clone(), caller.subject().clone());
        let of = Principal::new(tenant, subject);
        Self(agents.into_iter().map(|agent| of.agent(agent)).collect())
    }

    /// Returns the agents as principals.
    #[must_use]
    pub fn principals(&self) -> &[Principal] {
        &self.0
    }
}
