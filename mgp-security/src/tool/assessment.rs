//! What follows for a call from what a server declares of a tool and what the operator says (MGP §4).
//!
//! What a server declares adds checks and removes none; there are two exceptions, both below the operator's word.
//! A valid `security` says how dangerous a tool is and what it needs, and annotations that nothing contradicts lower
//! the risk of a tool without one, each only as far as the server is trusted.

use mgp_types::mgp::{Permission, RiskLevel, SideEffect, ToolSecurity, TrustLevel, Validator};
use mgp_types::{Lenient, RawObject, mcp};

use super::clues::{Clues, runs};
use crate::ServerPolicy;

/// What a call of a tool needs before it runs.
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
    /// What a definition and the operator's policy for its server lead to.
    #[must_use]
    pub fn of(tool: &mcp::Tool, policy: &ServerPolicy) -> Self {
        let security = tool.find_security();
        let security = security.as_ref().and_then(Lenient::valid);
        let clues = Clues::of(tool);
        let permissions = permissions(tool, security, &clues, policy);
        let found = risk(tool, security, &clues, &permissions, policy);
        let entry = policy.risk.get(&tool.name);
        Self {
            effective_risk: known(entry.unwrap_or(&found).clone()),
            overrides: entry.is_some().then_some(found),
            permissions,
            validators: validators(tool, security, policy),
            confirmation_required: security
                .is_some_and(|security| security.confirmation_required == Some(true)),
        }
    }

    /// A tool that its server does not list: what its name and the operator say of it, and the worst of all else.
    ///
    /// A server gains nothing by hiding a tool: only the operator's entry for its risk spares a confirmation that the
    /// call of a listed one might do without.
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
        // What it takes is not known; what runs something may run a command.
        if runs(name) {
            let needed = assessment.permissions.iter().chain([&Permission::ShellExecute]);
            assessment.permissions = Permission::canonical(needed);
        }
        assessment.confirmation_required = assessment.overrides.is_none();
        assessment
    }

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

/// Whether what a server says of a tool counts in its favour.
fn is_believed(trust: &TrustLevel) -> bool {
    trust.rank() >= TrustLevel::Standard.rank()
}

/// The permissions that are declared, and those that are seen where a declaration is missing or not believed.
fn permissions(
    tool: &mcp::Tool,
    security: Option<&ToolSecurity>,
    clues: &Clues,
    policy: &ServerPolicy,
) -> Vec<Permission> {
    let declared = security.into_iter().flat_map(|security| security.permissions_required.iter());
    if security.is_some() && is_believed(&policy.trust) {
        return Permission::canonical(declared);
    }
    let hints = tool.annotations.as_ref();
    let open = hints.is_some_and(|hints| hints.open_world_hint == Some(true));
    let open = open.then_some(&Permission::NetworkOutbound);
    Permission::canonical(clues.permissions.iter().chain(open).chain(declared))
}

/// The highest of all risks there are.
fn risk(
    tool: &mcp::Tool,
    security: Option<&ToolSecurity>,
    clues: &Clues,
    permissions: &[Permission],
    policy: &ServerPolicy,
) -> RiskLevel {
    let declared = match security {
        Some(security) => declared_risk(security),
        None if is_believed(&policy.trust) => hinted_risk(tool, clues),
        None => RiskLevel::Dangerous,
    };
    let destructive =
        tool.annotations.as_ref().is_some_and(|hints| hints.destructive_hint == Some(true));
    // An unknown level of trust is none.
    let untrusted = policy.trust.rank() == 0;
    let least = if destructive || untrusted { RiskLevel::Dangerous } else { RiskLevel::Safe };
    let highest = permissions.iter().map(Permission::risk).fold(declared.max(least), Ord::max);
    known(highest)
}

/// A word that is not known is no fourth level: it counts as the worst of the three.
fn known(risk: RiskLevel) -> RiskLevel {
    risk.min(RiskLevel::Dangerous)
}

/// The risk that valid metadata speak of.
fn declared_risk(security: &ToolSecurity) -> RiskLevel {
    let effects = security.side_effects.iter().map(|effect| match effect {
        // What is sent out is the validator's business.
        SideEffect::Network => RiskLevel::Safe,
        _ => RiskLevel::Moderate,
    });
    // It cannot be undone, so MCP would call it destructive.
    let irreversible = (security.reversible == Some(false)).then_some(RiskLevel::Dangerous);
    effects.chain(irreversible).fold(security.risk_level.clone(), Ord::max)
}

/// The risk of a tool without metadata, from annotations that nothing contradicts.
fn hinted_risk(tool: &mcp::Tool, clues: &Clues) -> RiskLevel {
    let Some(hints) = &tool.annotations else { return RiskLevel::Dangerous };
    match (hints.read_only_hint, hints.destructive_hint) {
        // One wrong hint makes the others doubtful.
        (Some(true), _) if clues.changes => RiskLevel::Dangerous,
        (Some(true), _) => RiskLevel::Safe,
        (_, Some(false)) if !clues.destroys => RiskLevel::Moderate,
        _ => RiskLevel::Dangerous,
    }
}

/// The operator's validator, else the declared one and those that side effects add.
fn validators(
    tool: &mcp::Tool,
    security: Option<&ToolSecurity>,
    policy: &ServerPolicy,
) -> Vec<Validator> {
    let mut validators = Vec::new();
    if let Some(entry) = policy.validators.get(&tool.name) {
        validators.push(entry.clone());
    } else if let Some(security) = security {
        validators.extend(security.validator.clone());
        if security.side_effects.contains(&SideEffect::Network)
            && !validators.contains(&Validator::NetworkRestricted)
        {
            validators.push(Validator::NetworkRestricted);
        }
    }
    validators.retain(|validator| *validator != Validator::None);
    validators
}
