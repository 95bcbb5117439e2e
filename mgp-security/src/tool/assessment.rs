//! What follows for a call from what a server declares of a tool and what the operator says (MGP §4).
//!
//! Applies to: both.

use mgp_types::mgp::{Permission, RiskLevel, Validator};

/// What a call of a tool needs before it runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Assessment {
    /// How dangerous it is, all things considered.
    pub effective_risk: RiskLevel,
    /// What would be its risk without the operator's entry, where there is one.
    pub overrides: Option<RiskLevel>,
    /// The permissions a call needs, by their standard names.
    pub permissions: Vec<Permission>,
    /// The checks its arguments must pass; `none` is not among them.
    pub validators: Vec<Validator>,
    /// Whether its server wants every call confirmed.
    pub confirmation_required: bool,
}

impl Assessment {
    /// A tool nobody has seen a definition of: dangerous, and nothing is known of what it needs.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            effective_risk: RiskLevel::Dangerous,
            overrides: None,
            permissions: Vec::new(),
            validators: Vec::new(),
            confirmation_required: false,
        }
    }
}
