//! What tools may cost in context, and whether a configuration can be kept (MGP §16.8).
//!
//! Applies to: inbound.

use mgp_types::mgp::ContextBudget;

use crate::catalog::Listed;
use crate::error::BudgetError;

/// The most the tools to find tools cost; they are always there, so they count as pinned.
pub(crate) const META_TOKENS: u64 = 450;

/// The budget of the specification: 8000 tokens, of which 2000 are for pinned tools, 3000 for what a search finds and
/// 3000 for tools that were used.
#[must_use]
pub fn default_budget() -> ContextBudget {
    ContextBudget::new(8000_u64, 2000_u64, 3000_u64, 3000_u64)
}

/// Checks a budget and the tools pinned under it, for whoever reads a configuration.
///
/// A budget that fails is kept all the same: pinned tools that do not fit are left out, and others get less room.
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
/// [`BudgetError`] naming what does not fit.
pub fn check_budget(budget: &ContextBudget, pins: &[Listed]) -> Result<(), BudgetError> {
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

/// How much the tools of a session may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// What is pinned, without the tools to find tools.
    pub(super) pinned: u64,
    /// What was used or asked for.
    pub(super) cached: u64,
}

impl Room {
    /// The room in a budget, whatever is configured: found tools keep their reserve, and all together the maximum.
    pub(super) fn of(budget: &ContextBudget) -> Self {
        let all =
            budget.max_tokens.saturating_sub(budget.discovery_reserve).saturating_sub(META_TOKENS);
        Self { pinned: all, cached: all.min(budget.cache_limit) }
    }

    /// What is left for used tools beside these pinned ones.
    pub(super) fn beside(self, pinned: u64) -> u64 {
        self.cached.min(self.pinned.saturating_sub(pinned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_configuration_takes_more_than_the_maximum() {
        for (max, pinned, discovery, cache, used) in [
            (8000_u64, 2000_u64, 3000_u64, 3000_u64, 1000),
            (100, 9000, 3000, 3000, 0),
            (u64::MAX, 1, u64::MAX, u64::MAX, 7),
        ] {
            let budget = ContextBudget::new(max, pinned, discovery, cache);
            let room = Room::of(&budget);
            let all = room.beside(used).saturating_add(used).saturating_add(META_TOKENS);
            assert!(all.saturating_add(discovery).min(max) <= max, "{budget:?}");
            assert!(room.beside(used) <= cache);
        }
        assert_eq!(Room::of(&default_budget()).beside(3000), 1550);
    }
}
