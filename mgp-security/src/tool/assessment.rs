//! The requirements for calls of a tool, computed from the server's declarations and the operator's policy (MGP §4).
//!
//! A server's declarations add checks and never remove any, with two exceptions, both limited by the operator's policy.
//! First, a valid `security` determines the risk and permissions of a tool. Second, annotations that nothing
//! contradicts lower the risk of a tool without `security`. Both apply only if the operator trusts the server enough.
//! Signals in the name and the arguments of a tool count in addition to its `security`, unless the operator's trust
//! level for the server is `trusted`.

use mgp_types::mgp::{Permission, RiskLevel, SideEffect, ToolSecurity, TrustLevel, Validator};
use mgp_types::proposal::{CostCategory, CostHints, ToolConfirmation, required_scopes};
use mgp_types::{Lenient, RawObject, mcp};

use super::risk_signals::{RiskSignals, runs};
use crate::ServerPolicy;

/// The requirements for calls of a tool.
///
/// ```
/// use mgp_security::{Assessment, ServerPolicy};
/// use mgp_types::mcp::Tool;
/// use mgp_types::mgp::{Permission, RiskLevel};
///
/// let tool: Tool = serde_json::from_str(
///     r#"{"name":"read_file","inputSchema":{"properties":{"path":{"type":"string"}}},"annotations":{"readOnlyHint":true}}"#,
/// )
/// .unwrap();
/// let assessment = Assessment::of(&tool, &ServerPolicy::default());
/// assert_eq!(assessment.permissions, [Permission::FilesystemRead]);
/// assert_eq!(assessment.effective_risk, RiskLevel::Moderate);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Assessment {
    /// The risk after all rules, including the operator's override.
    pub effective_risk: RiskLevel,
    /// The risk before the operator's override; `None` if there is no override.
    pub overrides: Option<RiskLevel>,
    /// The permissions that a call needs, with their standard names.
    pub permissions: Vec<Permission>,
    /// The validators that the arguments must pass; never contains `none`.
    pub validators: Vec<Validator>,
    /// `true` if the server requires a confirmation of every call.
    pub confirmation_required: bool,
    /// The server's text for asking the user for confirmation, with `{parameter}` placeholders.
    pub confirmation_message: Option<String>,
    /// The scopes that a call needs if its caller is limited to scopes.
    pub required_scopes: Vec<String>,
}

impl Assessment {
    /// Assesses a definition under the operator's policy for its server.
    #[must_use]
    pub fn of(tool: &mcp::Tool, policy: &ServerPolicy) -> Self {
        let is_proven = policy.trust.rank() >= TrustLevel::Trusted.rank();
        let word = if is_proven { SecurityWeight::Alone } else { SecurityWeight::WithSignals };
        Self::weigh(tool, policy, word)
    }

    /// Assesses a tool of this process, whose metadata is trusted because it comes from this program.
    pub(crate) fn own(tool: &mcp::Tool, policy: &ServerPolicy) -> Self {
        let is_believed = is_believed(&policy.trust);
        let word = if is_believed { SecurityWeight::Alone } else { SecurityWeight::WithSignals };
        Self::weigh(tool, policy, word)
    }

    fn weigh(tool: &mcp::Tool, policy: &ServerPolicy, word: SecurityWeight) -> Self {
        let security = tool.find_security();
        let security = security.as_ref().and_then(Lenient::valid);
        let signals = RiskSignals::of(tool);
        let permissions = permissions(tool, security, &signals, word, policy);
        let confirmation = ToolConfirmation::of(tool);
        let found = risk(tool, security, &signals, &permissions, word, policy);
        // The risk level in the server's confirmation settings can only raise the risk, so the level `safe` has no
        // effect there.
        let least = confirmation.risk.as_ref().map_or(RiskLevel::Safe, |risk| risk.to_risk().0);
        let found = found.max(least);
        let entry = policy.risk.get(&tool.name);
        Self {
            effective_risk: known(entry.unwrap_or(&found).clone()),
            overrides: entry.is_some().then_some(found),
            permissions,
            validators: validators(tool, security, &signals, policy),
            confirmation_required: confirmation.is_required
                || CostHints::of(tool).category() == Some(&CostCategory::RequiresApproval)
                || security.is_some_and(|security| security.confirmation_required == Some(true)),
            confirmation_message: confirmation.message,
            required_scopes: required_scopes(tool),
        }
    }

    /// Assesses a tool that its server does not list, by its name and the operator's policy; everything else is assumed
    /// to be the worst case.
    ///
    /// A server gains nothing by hiding a tool: calls of a hidden tool need a confirmation even if calls of the listed
    /// tool would need none, unless the operator overrides the risk.
    ///
    /// ```
    /// use mgp_security::{Assessment, ServerPolicy};
    /// use mgp_types::mgp::{Permission, RiskLevel};
    ///
    /// let hidden = Assessment::unlisted("run", &ServerPolicy::default());
    /// assert_eq!(hidden.effective_risk, RiskLevel::Dangerous);
    /// assert_eq!(hidden.permissions, [Permission::ShellExecute]);
    /// assert!(hidden.confirmation_required);
    /// ```
    #[must_use]
    pub fn unlisted(name: &str, policy: &ServerPolicy) -> Self {
        let stub = mcp::Tool::new(name, RawObject::empty());
        let mut assessment = Self::of(&stub, policy);
        // The arguments are unknown, so a tool whose name suggests that it runs something might run a shell command.
        if runs(name) {
            let needed = assessment.permissions.iter().chain([&Permission::ShellExecute]);
            assessment.permissions = Permission::canonical(needed);
        }
        assessment.confirmation_required = assessment.overrides.is_none();
        assessment
    }

    /// Returns the assessment of a tool whose definition is unknown: dangerous, with no known permissions.
    #[must_use]
    pub fn unknown() -> Self {
        Self {
            effective_risk: RiskLevel::Dangerous,
            overrides: None,
            permissions: Vec::new(),
            validators: Vec::new(),
            confirmation_required: false,
            confirmation_message: None,
            required_scopes: Vec::new(),
        }
    }
}

/// The weight of a valid `security` in the assessment of its tool.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecurityWeight {
    /// Only the declared `security` counts.
    Alone,
    /// The declared `security` counts, and so do signals in the name and the arguments of the tool.
    WithSignals,
}

/// Returns whether declarations that reduce checks are accepted from a server with this trust level.
fn is_believed(trust: &TrustLevel) -> bool {
    trust.rank() >= TrustLevel::Standard.rank()
}

/// Returns the declared permissions and, unless only the declaration counts, the permissions that the signals suggest.
fn permissions(
    tool: &mcp::Tool,
    security: Option<&ToolSecurity>,
    signals: &RiskSignals,
    word: SecurityWeight,
    policy: &ServerPolicy,
) -> Vec<Permission> {
    let declared = security.into_iter().flat_map(|security| security.permissions_required.iter());
    if security.is_some() && word == SecurityWeight::Alone {
        return Permission::canonical(declared);
    }
    let hints = tool.annotations.as_ref();
    let is_vague = security.is_none() || !is_believed(&policy.trust);
    let open = is_vague && hints.is_some_and(|hints| hints.open_world_hint == Some(true));
    let open = open.then_some(&Permission::NetworkOutbound);
    Permission::canonical(signals.permissions.iter().chain(open).chain(declared))
}

/// Returns the highest risk that the declarations, the signals, the permissions or the trust level imply.
fn risk(
    tool: &mcp::Tool,
    security: Option<&ToolSecurity>,
    signals: &RiskSignals,
    permissions: &[Permission],
    word: SecurityWeight,
    policy: &ServerPolicy,
) -> RiskLevel {
    let declared = match security {
        Some(security) if word == SecurityWeight::Alone => declared_risk(security),
        Some(security) => declared_risk(security).max(signals.risk()),
        None if is_believed(&policy.trust) && tool.find_security().is_none() => {
            hinted_risk(tool, signals)
        }
        // A malformed `security` contradicts the annotations.
        None => RiskLevel::Dangerous,
    };
    let destructive =
        tool.annotations.as_ref().is_some_and(|hints| hints.destructive_hint == Some(true));
    // An unknown trust level counts as untrusted.
    let untrusted = policy.trust.rank() == 0;
    let least = if destructive || untrusted { RiskLevel::Dangerous } else { RiskLevel::Safe };
    let highest = permissions.iter().map(Permission::risk).fold(declared.max(least), Ord::max);
    known(highest)
}

/// Returns the risk as one of the three known levels; an unknown level counts as dangerous.
fn known(risk: RiskLevel) -> RiskLevel {
    risk.min(RiskLevel::Dangerous)
}

/// Returns the risk that a valid `security` declares.
fn declared_risk(security: &ToolSecurity) -> RiskLevel {
    let effects = security.side_effects.iter().map(|effect| match effect {
        // Safe by itself, because the validator `network_restricted` checks the addresses.
        SideEffect::Network => RiskLevel::Safe,
        _ => RiskLevel::Moderate,
    });
    // MCP uses the word destructive for effects that are irreversible, so an irreversible tool counts as dangerous.
    let irreversible = (security.reversible == Some(false)).then_some(RiskLevel::Dangerous);
    effects.chain(irreversible).fold(security.risk_level.clone(), Ord::max)
}

/// Returns the risk of a tool without `security`, based on its annotations if no signal contradicts them.
fn hinted_risk(tool: &mcp::Tool, signals: &RiskSignals) -> RiskLevel {
    let Some(hints) = &tool.annotations else { return RiskLevel::Dangerous };
    match (hints.read_only_hint, hints.destructive_hint) {
        // One wrong hint makes the other hints of the tool untrustworthy, too.
        (Some(true), _) if signals.changes => RiskLevel::Dangerous,
        (Some(true), _) => RiskLevel::Safe,
        (_, Some(false)) if !signals.destroys => RiskLevel::Moderate,
        _ => RiskLevel::Dangerous,
    }
}

/// Returns the validator that the operator set. Without one, returns the declared validator, the validators that the
/// declared side effects require and, if the policy requires it, the validators that fit the arguments.
fn validators(
    tool: &mcp::Tool,
    security: Option<&ToolSecurity>,
    signals: &RiskSignals,
    policy: &ServerPolicy,
) -> Vec<Validator> {
    let mut validators = Vec::new();
    if let Some(entry) = policy.validators.get(&tool.name) {
        validators.push(entry.clone());
    } else {
        let declared = security.and_then(|security| security.validator.clone());
        let uses_network =
            security.is_some_and(|security| security.side_effects.contains(&SideEffect::Network));
        let network = uses_network.then_some(Validator::NetworkRestricted);
        let fitting = signals.validators.iter().filter(|_| policy.default_validators).cloned();
        for validator in declared.into_iter().chain(network).chain(fitting) {
            if !validators.contains(&validator) {
                validators.push(validator);
            }
        }
    }
    validators.retain(|validator| *validator != Validator::None);
    validators
}
