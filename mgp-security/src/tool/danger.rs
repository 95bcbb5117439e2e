//! The reason for which a tool is assessed as dangerous, in words for a person (MGP §4).

use mgp_types::mgp::{Permission, RiskLevel};
use mgp_types::{Lenient, mcp};

use super::assessment::Assessment;
use super::risk_signals::RiskSignals;
use crate::policy::ServerPolicy;

impl Assessment {
    /// Returns the rule by which a tool is dangerous; `None` if it is not. `tool` is its definition, if one is known.
    #[must_use]
    pub fn danger_reason(
        &self,
        name: &str,
        tool: Option<&mcp::Tool>,
        policy: &ServerPolicy,
    ) -> Option<String> {
        if self.effective_risk < RiskLevel::Dangerous {
            return None;
        }
        if policy.risk.contains_key(name) {
            return Some("the configuration sets it".to_owned());
        }
        let Some(tool) = tool else {
            return Some("its definition is not known yet".to_owned());
        };
        let declared = declared(tool).or_else(|| {
            let is_dangerous = |one: &&Permission| one.risk() == RiskLevel::Dangerous;
            let permission = self.permissions.iter().find(is_dangerous)?;
            Some(format!("it needs the permission {permission}"))
        });
        Some(declared.unwrap_or_else(|| undeclared(tool, policy)))
    }
}

/// Returns a description of the declaration that makes a tool dangerous; `None` if the tool has no such declaration.
fn declared(tool: &mcp::Tool) -> Option<String> {
    let hints = tool.annotations.as_ref();
    if hints.is_some_and(|hints| hints.destructive_hint == Some(true)) {
        return Some("the tool declares that it is destructive".to_owned());
    }
    let security = tool.find_security();
    let security = security.as_ref().and_then(Lenient::valid)?;
    if security.risk_level >= RiskLevel::Dangerous {
        return Some("the tool declares that it is dangerous".to_owned());
    }
    let is_final = security.reversible == Some(false);
    is_final.then(|| "the tool declares that its effects cannot be undone".to_owned())
}

/// Returns the reason why a tool counts as dangerous although it does not declare that it is.
fn undeclared(tool: &mcp::Tool, policy: &ServerPolicy) -> String {
    let (hints, signals) = (tool.annotations.as_ref(), RiskSignals::of(tool));
    let reads = hints.is_some_and(|hints| hints.read_only_hint == Some(true));
    let spares = hints.is_some_and(|hints| hints.destructive_hint == Some(false));
    if policy.trust.rank() == 0 {
        "its server is not trusted, so all of its tools count as dangerous".to_owned()
    } else if reads || spares || tool.find_security().is_some() {
        let says = if reads { "only reads" } else { "is not destructive" };
        let does = if signals.destroys { "destroys" } else { "changes" };
        format!(
            "the tool declares that it {says}, but its name or arguments suggest that it {does} something"
        )
    } else {
        "the tool declares nothing, so it counts as possibly destructive".to_owned()
    }
}
