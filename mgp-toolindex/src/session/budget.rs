//! The token budgets of tools in a model's context, and their validation (MGP §16.8).

use mgp_types::mgp::ContextBudget;

use crate::catalog::IndexedTool;
use crate::error::BudgetError;

/// The maximum number of tokens of the meta tools. They are always listed, so they count as pinned tools.
pub const META_TOKENS: u64 = 450;

/// Returns the budget of the specification: 8000 tokens, of which 2000 are for pinned tools, 3000 for search results
/// and 3000 for cached tools.
#[must_use]
pub fn default_budget() -> ContextBudget {
    ContextBudget::new(8000_u64, 2000_u64, 3000_u64, 3000_u64)
}

/// Checks a configured budget and the tools pinned under it.
///
/// An invalid budget can still be used: pinned tools that do not fit are omitted, and other tools get less room.
///
/// ```
/// use mgp_toolindex::{check_budget, default_budget};
///
/// let mut budget = default_budget();
/// assert!(check_budget(&budget, &[]).is_ok());
/// budget.cache_limit = 4000;
/// let error = check_budget(&budget, &[]).unwrap_err();
/// assert!(error.to_string().contains("add up to 9000 tokens"), "{error}");
/// ```
///
/// # Errors
/// Returns [`BudgetError`] with the part that does not fit.
pub fn check_budget(budget: &ContextBudget, pins: &[IndexedTool]) -> Result<(), BudgetError> {
    let parts = budget
        .pinned_reserve
        .saturating_add(budget.discovery_reserve)
        .saturating_add(budget.cache_limit);
    if parts > budget.max_tokens {
        return Err(BudgetError::Parts { parts, most: budget.max_tokens });
    }
    let tokens =
        pins.iter().fold(META_TOKENS, |sum, tool| sum.saturating_add(tool.tokens().into()));
    if tokens <= budget.pinned_reserve {
        return Ok(());
    }
    Err(BudgetError::Pins {
        tokens,
        reserve: budget.pinned_reserve,
        largest: pins
            .iter()
            .max_by_key(|tool| tool.tokens())
            .map(|tool| (tool.tool_id(), tool.tokens())),
    })
}

/// The numbers of tokens that are available for the tools of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionRoom {
    /// The maximum number of tokens for pinned tools: the whole budget except the reserve of search results and the
    /// tokens of the meta tools.
    pub(super) pinned: u64,
    /// The maximum number of tokens for cached tools.
    pub(super) cached: u64,
}

impl SessionRoom {
    /// Computes the room from a budget, which may be inconsistent. Search results always keep their reserve, and the
    /// sum never exceeds the maximum of the budget.
    pub(super) fn of(budget: &ContextBudget) -> Self {
        let all =
            budget.max_tokens.saturating_sub(budget.discovery_reserve).saturating_sub(META_TOKENS);
        Self { pinned: all, cached: all.min(budget.cache_limit) }
    }

    /// Returns the number of tokens that remain for cached tools if the pinned tools need `pinned` tokens.
    pub(super) fn cached_beside(self, pinned: u64) -> u64 {
        self.cached.min(self.pinned.saturating_sub(pinned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_budget_exceeds_its_maximum() {
        for (max, pinned, discovery, cache, used) in [
            (8000_u64, 2000_u64, 3000_u64, 3000_u64, 1000),
            (100, 9000, 3000, 3000, 0),
            (u64::MAX, 1, u64::MAX, u64::MAX, 7),
        ] {
            let budget = ContextBudget::new(max, pinned, discovery, cache);
            let room = SessionRoom::of(&budget);
            let all = room.cached_beside(used).saturating_add(used).saturating_add(META_TOKENS);
            assert!(all.saturating_add(discovery).min(max) <= max, "{budget:?}");
            assert!(room.cached_beside(used) <= cache);
        }
        assert_eq!(SessionRoom::of(&default_budget()).cached_beside(3000), 1550);
    }
}
