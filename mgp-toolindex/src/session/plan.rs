//! Budgets and pinned tools by principal (MGP §16.7, §16.8).

use std::collections::HashMap;

use mgp_types::mgp::ContextBudget;
use mgp_types::service::{AgentId, Principal};

use super::budget::{SessionRoom, default_budget};
use super::pins::{Pins, local_agent};

/// The budget and the pinned tools of each principal.
///
/// ```
/// use mgp_toolindex::{ContextPlan, Pins, default_budget};
/// use mgp_types::service::Principal;
///
/// let plan = ContextPlan::new(default_budget(), Pins::new()).agent("ada", 4000);
/// let ada = Principal::local().agent("ada");
/// assert_eq!(plan.budget_of(&ada).max_tokens, 4000);
/// assert_eq!(plan.budget_of(&ada).cache_limit, 1500, "its parts shrink with it");
/// assert_eq!(plan.budget_of(&Principal::local()).max_tokens, 8000);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ContextPlan {
    budget: ContextBudget,
    agents: HashMap<AgentId, ContextBudget>,
    pins: Pins,
}

impl ContextPlan {
    /// Creates a plan with one budget for all callers.
    pub fn new(budget: ContextBudget, pins: Pins) -> Self {
        Self { budget, agents: HashMap::new(), pins }
    }

    /// Sets the maximum of the budget of an agent of the tenant `local`. The parts of its budget are scaled in
    /// proportion to the common budget.
    pub fn agent(mut self, agent: impl Into<AgentId>, max_tokens: u64) -> Self {
        let all = u128::from(self.budget.max_tokens.max(1));
        let share = |part: u64| {
            let share = u128::from(part) * u128::from(max_tokens) / all;
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        let ContextBudget { pinned_reserve, discovery_reserve, cache_limit, .. } = self.budget;
        let own = ContextBudget::new(
            max_tokens,
            share(pinned_reserve),
            share(discovery_reserve),
            share(cache_limit),
        );
        self.agents.insert(agent.into(), own);
        self
    }

    /// Returns the budget of a principal.
    #[must_use]
    pub fn budget_of(&self, principal: &Principal) -> &ContextBudget {
        let own = local_agent(principal).and_then(|agent| self.agents.get(agent));
        own.unwrap_or(&self.budget)
    }

    /// Returns the pinned tools.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    pub(super) fn room_of(&self, principal: &Principal) -> SessionRoom {
        SessionRoom::of(self.budget_of(principal))
    }
}

impl Default for ContextPlan {
    fn default() -> Self {
        Self::new(default_budget(), Pins::new())
    }
}
