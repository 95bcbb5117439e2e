//! The rule that decides which calls must be confirmed (MGP §4.4).

use mgp_types::mgp::RiskLevel;

use super::NamedTool;
use crate::policy::{ConfirmFrom, ServerPolicy};
use crate::tool::assessment::Assessment;

impl Assessment {
    /// Returns whether a call must be confirmed before it runs (§4.4).
    #[must_use]
    pub fn needs_confirmation(&self, policy: &ServerPolicy, named: Option<&NamedTool>) -> bool {
        let risky = match self.effective_risk {
            RiskLevel::Safe => false,
            RiskLevel::Moderate => policy.confirm == ConfirmFrom::Moderate,
            _ => true,
        };
        match named {
            Some(entry) => self.confirmation_required && !entry.waives_confirmation,
            None => self.confirmation_required || risky,
        }
    }

    /// Returns whether calls need no confirmation under any policy.
    pub(crate) fn is_harmless(&self) -> bool {
        self.effective_risk == RiskLevel::Safe && !self.confirmation_required
    }
}
