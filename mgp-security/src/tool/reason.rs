//! The reason for the risk of a tool, in words for a person (MGP §4).

use mgp_types::mgp::{Permission, RiskLevel, TrustLevel};
use mgp_types::{Lenient, mcp};

use super::assessment::Assessment;
use super::risk_signals::RiskSignals;
use crate::policy::ServerPolicy;

impl Assessment {
    /// Returns the reason for the risk of a tool. `tool` is its definition, if one is known.
    #[must_use]
    pub fn risk_reason(
        &self,
        name: &str,
        tool: Option<&mcp::Tool>,
        policy: &ServerPolicy,
    ) -> String {
        if policy.risk.contains_key(name) {
            return "the configuration sets it".to_owned();
        }
        let Some(tool) = tool else { return "its definition is not known yet".to_owned() };
        let is_dangerous = self.effective_risk >= RiskLevel::Dangerous;
        if let Some(declared) = declared(tool).filter(|_| is_dangerous) {
            return declared;
        }
        let is_as_high = |one: &&Permission| one.risk() == self.effective_risk;
        match self.permissions.iter().find(is_as_high) {
            Some(permission) if self.effective_risk > RiskLevel::Safe => {
                format!("it needs the permission {permission}")
            }
            _ if is_dangerous => undeclared(tool, policy),
            _ => harmless(tool, &self.effective_risk, policy),
        }
    }
}

/// Returns the reason why a tool does not count as dangerous.
fn harmless(tool: &mcp::Tool, risk: &RiskLevel, policy: &ServerPolicy) -> String {
    let (hints, security) = (tool.annotations.as_ref(), tool.find_security());
    let security = security.as_ref().and_then(Lenient::valid);
    let declared = match security {
        Some(security) => (security.risk_level == *risk).then(|| format!("is {risk}")),
        None if *risk == RiskLevel::Safe => Some("only reads".to_owned()),
        None => {
            let spares = hints.is_some_and(|hints| hints.destructive_hint == Some(false));
            spares.then(|| "is not destructive".to_owned())
        }
    };
    let is_trusted = security.is_some() && policy.trust.rank() >= TrustLevel::Trusted.rank();
    let why = if is_trusted { "its server is trusted" } else { "nothing contradicts that" };
    match declared {
        Some(what) => format!("the tool declares that it {what}, and {why}"),
        None => "its name, arguments or declarations suggest that it changes something".to_owned(),
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
    let is_believed = policy.trust.rank() >= TrustLevel::Standard.rank();
    let security = tool.find_security();
    let has_security = security.as_ref().and_then(Lenient::valid).is_some();
    if policy.trust.rank() == 0 {
        "its server is not trusted, so all of its tools count as dangerous".to_owned()
    } else if !is_believed && !has_security {
        "what its server declares is not believed at its trust level, so all of its tools count as dangerous".to_owned()
    } else if security.is_some() && !has_security {
        "its `security` cannot be read, so it counts as dangerous".to_owned()
    } else if reads || spares || has_security {
        let says = if reads { "only reads" } else { "is not destructive" };
        let does = if signals.destroys { "destroys" } else { "changes" };
        format!(
            "the tool declares that it {says}, but its name or arguments suggest that it {does} something"
        )
    } else if hints.is_some_and(|hints| hints.read_only_hint == Some(false)) {
        "the tool declares that it changes something, so it counts as destructive".to_owned()
    } else {
        "the tool declares nothing, so it counts as possibly destructive".to_owned()
    }
}
