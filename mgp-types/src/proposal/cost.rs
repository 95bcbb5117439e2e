//! Proposal 3 (`cost_hints`): the cost, latency and quota that a server declares for its tools.

use super::{Member, ToolMembers};
use crate::Timestamp;
use crate::mcp;
use crate::mgp::Extension;
use crate::record::{Number, open_enum, record};

open_enum! {
    /// The kind of cost of a call.
    pub enum CostCategory {
        /// The call costs nothing.
        Free = "free",
        /// The call consumes units.
        Metered = "metered",
        /// A person must approve each call.
        RequiresApproval = "requires_approval",
    }

    /// The expected duration of a call, shortest first.
    pub enum LatencyClass {
        /// Less than a second.
        Instant = "instant",
        /// Some seconds.
        Seconds = "seconds",
        /// Some minutes.
        Minutes = "minutes",
    }
}

impl LatencyClass {
    /// Returns the position of the class in the order from fast to slow, from 0; an unknown class counts as the
    /// slowest.
    #[must_use]
    pub fn rank(&self) -> u8 {
        match self {
            Self::Instant => 0,
            Self::Seconds => 1,
            Self::Minutes => 2,
            Self::Other(_) => 3,
        }
    }
}

record! {
    /// The estimated cost of a call: the member `cost` of a tool.
    pub struct ToolCost {
        /// The kind of cost.
        opt category: Option<CostCategory>,
        /// The units that a call is expected to consume.
        opt estimated_units: Option<Number>,
        /// The name of the unit.
        opt unit_label: Option<String>,
    }

    /// The part of a quota that is still left: the member `quota` of a tool.
    pub struct ToolQuota {
        /// The units or calls that are left.
        opt remaining: Option<Number>,
        /// The time at which the quota is reset.
        opt resets_at: Option<Timestamp>,
    }

    /// The cost of a call that ran: the member `_meta.cost` of its result.
    pub struct ActualCost {
        /// The units that the call consumed.
        req units: Number,
        /// The name of the unit.
        opt unit_label: Option<String>,
    }
}

impl Member for ActualCost {
    const EXTENSION: Extension = Extension::CostHints;
    const NAME: &'static str = "cost";
}

/// The cost, latency and quota that a server declares for a tool.
///
/// ```
/// use mgp_types::mcp::Tool;
/// use mgp_types::proposal::{CostCategory, CostHints};
///
/// let tool: Tool = serde_json::from_str(
///     r#"{"name":"export","inputSchema":{},"cost":{"category":"metered","estimated_units":4.2},"latency":"minutes"}"#,
/// )
/// .unwrap();
/// let hints = CostHints::of(&tool);
/// assert_eq!(hints.units(), Some(5));
/// assert_eq!(hints.category(), Some(&CostCategory::Metered));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CostHints {
    /// The declared cost of a call: the member `cost` of the tool.
    pub cost: Option<ToolCost>,
    /// The declared duration of a call: the member `latency` of the tool.
    pub latency: Option<LatencyClass>,
    /// The declared limit on calls: the member `quota` of the tool.
    pub quota: Option<ToolQuota>,
}

impl CostHints {
    /// Reads the cost, latency and quota in the definition of a tool; a member that cannot be decoded counts as absent.
    #[must_use]
    pub fn of(tool: &mcp::Tool) -> Self {
        let members = ToolMembers::of(tool);
        Self {
            cost: members.read("cost"),
            latency: members.read("latency"),
            quota: members.read("quota"),
        }
    }

    /// Returns the category of the cost; `None` if the server declares no cost or no category.
    #[must_use]
    pub fn category(&self) -> Option<&CostCategory> {
        self.cost.as_ref()?.category.as_ref()
    }

    /// Returns the number of units that a call is expected to consume, rounded up; 0 for a free tool, `None` if the
    /// server declares no number.
    #[must_use]
    pub fn units(&self) -> Option<u64> {
        let cost = self.cost.as_ref()?;
        if cost.category == Some(CostCategory::Free) {
            return Some(0);
        }
        cost.estimated_units.as_ref().map(round_up)
    }
}

impl ActualCost {
    /// Returns the number of consumed units, rounded up to a whole number.
    #[must_use]
    pub fn rounded(&self) -> u64 {
        round_up(&self.units)
    }
}

/// Rounds a number up to a whole number; a negative number counts as 0.
fn round_up(units: &Number) -> u64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is not negative, and a cast of what is too large gives the largest"
    )]
    let units = units.to_f64().max(0.0).ceil() as u64;
    units
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_rounded_up_and_never_negative() {
        for (units, expected) in [("0.1", 1), ("7", 7), ("-3", 0), ("1e300", u64::MAX)] {
            let cost: ActualCost =
                serde_json::from_str(&format!(r#"{{"units":{units}}}"#)).unwrap();
            assert_eq!(cost.rounded(), expected, "{units}");
        }
    }
}
