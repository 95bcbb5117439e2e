//! Decides about one permission of a server, at one moment (MGP §3.3).
//!
//! Except under the policy `config_only`, a decision of an approver or operator takes precedence over the
//! configuration. After a revocation, or after the end of an approval, the configuration does not grant the permission
//! either. Only a denial that has expired counts as no decision.

use std::time::SystemTime;

use mgp_types::mgp::{ApprovalPolicy, Permission, PermissionScope};
use mgp_types::service::{Principal, ServerId};
use mgp_types::{Payload, mcp};
use serde::Serialize;

use super::book::{Book, StoredApproval};
use super::entry::{ApprovalDecision, ApprovalSource};
use super::scope;
use crate::definition::Tools;
use crate::policy::{ServerPolicy, withholds};

/// The maximum length of the name of a permission that can be granted, in bytes.
pub(super) const NAME_MAX: usize = 128;

/// The reasons why a permission is missing and cannot be granted by an approval.
pub(super) const DENIED_BY_POLICY: &str = "the policy of the server denies it";
pub(super) const NOT_LISTED: &str = "config_only: the configuration does not list it";

/// One call, with the permissions that it needs.
pub(crate) struct PermissionNeed<'a> {
    pub(crate) principal: &'a Principal,
    pub(crate) server: Option<&'a ServerId>,
    pub(crate) tool: &'a str,
    pub(crate) needed: &'a [Permission],
    pub(crate) arguments: Option<&'a str>,
    /// `true` for a preview, which covers all possible arguments. Limits of permissions are then checked only for a
    /// tool that takes no arguments.
    pub(crate) any_arguments: bool,
    /// The definition of the tool, if it is known. It shows which arguments the tool ignores.
    pub(crate) definition: Option<&'a mcp::Tool>,
    pub(crate) at: SystemTime,
    /// The tools of the server, if they are known. If one of them declares a permission, the server's own declaration of
    /// the permission does not apply to its other tools.
    pub(crate) tools: Option<&'a Tools>,
}

/// A permission that a call needs but lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MissingPermission {
    /// The permission, by its standard name.
    pub permission: Permission,
    /// The reason why it is missing, as a code.
    pub status: MissingStatus,
    /// A description of the rule that led to the status.
    pub why: String,
    /// `true` if an approver can still grant the permission; otherwise every call that lacks it is refused immediately.
    #[serde(skip)]
    pub may_ask: bool,
}

impl MissingPermission {
    /// Creates the entry for a permission about which nothing is decided yet.
    pub(crate) fn undecided(permission: &Permission) -> Self {
        let (permission, why) = (permission.clone(), "not decided yet".to_owned());
        Self { permission, status: MissingStatus::Undecided, why, may_ask: true }
    }
}

/// The status of a missing permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MissingStatus {
    /// An approver or operator denied the permission, or the policy neither grants it nor allows a question about it.
    Denied,
    /// An approver was asked for the permission and has not decided.
    Deferred,
    /// The approval of the permission has expired.
    Expired,
    /// No decision about the permission has been made yet.
    Undecided,
    /// The permission is granted, but this call is outside the limits of the approval.
    OutOfScope,
}

impl MissingStatus {
    /// Returns the name of the status.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Denied => "denied",
            Self::Deferred => "deferred",
            Self::Expired => "expired",
            Self::Undecided => "undecided",
            Self::OutOfScope => "out_of_scope",
        }
    }
}

#[derive(Debug)]
pub(super) enum PermissionState<'a> {
    /// An approval grants the permission, within its limits if it has any; `None` if the configuration grants it
    /// without limits.
    Granted(Option<&'a StoredApproval>),
    /// The configuration grants the permission within limits.
    Listed(Box<PermissionScope>),
    /// The policy grants the permission, but the grant is not recorded yet.
    ByPolicy,
    /// The permission is not granted, but an approver can be asked.
    Open(MissingStatus, String),
    /// The permission is not granted, and approvers must not be asked.
    Closed(MissingStatus, String),
}

impl<'a> PermissionState<'a> {
    /// Returns the state of a permission under a policy and the approvals for the server.
    ///
    /// `is_configured` is called only for an undecided permission about which the policy would ask the approver.
    pub(super) fn of(
        policy: &ServerPolicy,
        held: &'a [StoredApproval],
        permission: &Permission,
        at: SystemTime,
        is_configured: impl FnOnce() -> bool,
    ) -> Self {
        use MissingStatus::{Denied, Undecided};

        if let Err(why) = nameable(permission) {
            return Self::Closed(Denied, why.to_owned());
        }
        if withholds(&policy.denied, permission) {
            return Self::Closed(Denied, DENIED_BY_POLICY.to_owned());
        }
        let decides = policy.decides(permission);
        let asks = match decides {
            ApprovalPolicy::ConfigOnly => {
                if is_listed(policy, permission) {
                    return Self::listed(policy, permission);
                }
                return Self::Closed(Denied, NOT_LISTED.to_owned());
            }
            ApprovalPolicy::Interactive => true,
            ApprovalPolicy::AutoApprove | ApprovalPolicy::DenyAll => false,
            other => {
                return Self::Closed(Denied, format!("the policy `{other}` is not known"));
            }
        };
        let undecided =
            |status, why| if asks { Self::Open(status, why) } else { Self::Closed(status, why) };
        let held = Book::find(held, permission).filter(|held| counts(held, decides));
        let held = held.filter(|held| !is_replaced(held, policy, permission, at));
        if let Some(state) = held.and_then(|held| Self::of_approval(held, at, undecided)) {
            return state;
        }
        if is_listed(policy, permission) {
            return Self::listed(policy, permission);
        }
        match decides {
            ApprovalPolicy::Interactive if is_configured() => Self::Granted(None),
            ApprovalPolicy::Interactive => Self::Open(Undecided, "not decided yet".to_owned()),
            ApprovalPolicy::AutoApprove if permission.is_valid() => Self::ByPolicy,
            ApprovalPolicy::AutoApprove => Self::Closed(
                Undecided,
                "auto_approve: it is not the name of a permission".to_owned(),
            ),
            _ => Self::Closed(
                Denied,
                "deny_all: neither the configuration nor an operator granted it".to_owned(),
            ),
        }
    }

    /// Returns the state of a permission that the configuration grants. The state has only the limits that concern the
    /// permission; an unknown limit concerns every permission.
    fn listed(policy: &ServerPolicy, permission: &Permission) -> Self {
        let all = &policy.permission_limits;
        let mut limits = PermissionScope::default();
        match permission.as_str().split('.').next().unwrap_or_default() {
            "filesystem" => {
                limits.paths.clone_from(&all.paths);
                limits.deny_paths.clone_from(&all.deny_paths);
            }
            "network" => {
                limits.hosts.clone_from(&all.hosts);
                limits.deny_hosts.clone_from(&all.deny_hosts);
                limits.ports.clone_from(&all.ports);
            }
            domain @ ("shell" | "code_execution") => {
                limits.commands.clone_from(&all.commands);
                limits.deny_commands.clone_from(&all.deny_commands);
                limits.max_execution_time_ms = all.max_execution_time_ms;
                if domain == "shell" {
                    limits.allow_sudo = all.allow_sudo;
                } else {
                    limits.languages.clone_from(&all.languages);
                }
            }
            _ => {}
        }
        limits.extra.clone_from(&all.extra);
        // Compare the text: it distinguishes a list that was written as empty, which allows nothing, from an absent
        // list.
        if Payload::of(&limits).is_ok_and(|text| text.as_str() == "{}") {
            return Self::Granted(None);
        }
        Self::Listed(Box::new(limits))
    }

    /// Returns the state that follows from a stored decision, or `None` if the decision no longer applies.
    fn of_approval(
        held: &'a StoredApproval,
        at: SystemTime,
        undecided: impl FnOnce(MissingStatus, String) -> Self,
    ) -> Option<Self> {
        let approval = &held.approval;
        let by = &approval.approved_by;
        match (approval.decision, held.is_over(at)) {
            (ApprovalDecision::Approved, false) => Some(Self::Granted(Some(held))),
            (ApprovalDecision::Approved, true) => {
                let end = approval.expires_at.as_ref().map(ToString::to_string).unwrap_or_default();
                let why = format!("the approval of {by} ended {end}");
                Some(undecided(MissingStatus::Expired, why))
            }
            (ApprovalDecision::Revoked, _) => {
                Some(undecided(MissingStatus::Undecided, format!("{by} revoked it")))
            }
            (ApprovalDecision::Denied, false) => {
                let reason = approval.justification.as_deref();
                let reason = reason.map(|reason| format!(" (“{reason}”)")).unwrap_or_default();
                Some(Self::Closed(MissingStatus::Denied, format!("{by} denied it{reason}")))
            }
            // An expired denial no longer applies, so the permission counts as undecided.
            (ApprovalDecision::Denied, true) => None,
        }
    }

    pub(super) fn limits_paths(&self) -> bool {
        match self {
            Self::Granted(Some(held)) => {
                held.approval.scope.as_ref().is_some_and(|limits| !limits.paths.is_empty())
            }
            Self::Listed(limits) => !limits.paths.is_empty(),
            _ => false,
        }
    }

    /// Returns the permission, with a reason, if the call has passed the check of the limits, but one of its arguments
    /// might exceed them nevertheless.
    pub(super) fn doubt(
        &self,
        permission: &Permission,
        need: &PermissionNeed<'_>,
    ) -> Option<MissingPermission> {
        let limits: &PermissionScope = match self {
            Self::Granted(Some(held)) => held.approval.scope.as_ref()?,
            Self::Listed(limits) => limits,
            _ => return None,
        };
        if need.any_arguments {
            return None;
        }
        let why = scope::doubt(limits, need.arguments, need.definition)?;
        let (permission, status) = (permission.clone(), MissingStatus::OutOfScope);
        Some(MissingPermission { permission, status, why, may_ask: false })
    }

    /// Returns the reason why a call lacks the permission, or `None` if the call has it.
    pub(super) fn missing(
        self,
        permission: &Permission,
        need: &PermissionNeed<'_>,
    ) -> Option<MissingPermission> {
        let may_ask = matches!(self, Self::Open(..));
        let (status, why) = match self {
            Self::ByPolicy | Self::Granted(None) => return None,
            Self::Granted(Some(held)) => (MissingStatus::OutOfScope, outside(held, need)?),
            Self::Listed(limits) => (MissingStatus::OutOfScope, check(&limits, need)?),
            Self::Open(status, why) | Self::Closed(status, why) => (status, why),
        };
        let mut permission = permission.clone();
        if nameable(&permission).is_err() {
            // Shorten the name: a server chose it, and it might be long.
            let letters = permission.as_str().chars().filter(|letter| !letter.is_control());
            permission = letters.take(40).chain(['…']).collect::<String>().as_str().into();
        }
        Some(MissingPermission { permission, status, why, may_ask })
    }
}

/// Returns the reason why a call is outside the limits of an approval, or `None` if it is within them.
fn outside(held: &StoredApproval, need: &PermissionNeed<'_>) -> Option<String> {
    let approval = &held.approval;
    if !approval.tools.is_empty() && !approval.tools.iter().any(|named| named == need.tool) {
        return Some(format!("it was approved for `{}` only", approval.tools.join("`, `")));
    }
    check(approval.scope.as_ref()?, need)
}

/// Returns the reason why the arguments of a call are outside some limits, or `None` if they are within them or are not
/// known.
fn check(limits: &PermissionScope, need: &PermissionNeed<'_>) -> Option<String> {
    if need.any_arguments && scope::takes_arguments(need.definition) {
        return None;
    }
    scope::check(limits, need.arguments, need.definition).err()
}

/// Returns whether the configuration decides in place of a stored approval. This is so for an approval without limits
/// that a policy gave, because the configuration can grant the same permission with limits.
fn is_replaced(
    held: &StoredApproval,
    policy: &ServerPolicy,
    permission: &Permission,
    at: SystemTime,
) -> bool {
    let approval = &held.approval;
    approval.source == ApprovalSource::Policy
        && approval.decision == ApprovalDecision::Approved
        && approval.scope.is_none()
        && approval.tools.is_empty()
        && !held.is_over(at)
        && is_listed(policy, permission)
}

/// Returns whether a stored decision counts under a policy. An operator's decision always counts. An approval by the
/// policy `auto_approve` counts only while that policy applies. Under `deny_all`, an approver's denial counts, but an
/// approver's approval does not.
fn counts(held: &StoredApproval, policy: &ApprovalPolicy) -> bool {
    let approval = &held.approval;
    match approval.source {
        ApprovalSource::Operator => true,
        ApprovalSource::Policy => *policy == ApprovalPolicy::AutoApprove,
        // An approver's answer does not count under `deny_all`, because the approver might be a user who is not an
        // operator. A denial counts nevertheless.
        ApprovalSource::Answer => {
            *policy != ApprovalPolicy::DenyAll || approval.decision != ApprovalDecision::Approved
        }
    }
}

/// Returns whether the policy's configuration grants a permission: by its name, a short name or a wildcard.
///
/// Wildcards such as `*` and `filesystem.*` cover only permissions that the specification defines. Any other permission
/// must be listed by its name.
pub(super) fn is_listed(policy: &ServerPolicy, permission: &Permission) -> bool {
    let is_known = !matches!(permission, Permission::Other(_));
    policy.permissions.iter().any(|listed| match listed.as_str().strip_suffix('*') {
        Some(family) => {
            is_known
                && (family.is_empty()
                    || family.ends_with('.') && permission.as_str().starts_with(family))
        }
        None => {
            listed == permission
                || matches!(listed, Permission::Other(_)) && listed.expand().contains(permission)
        }
    })
}

/// Checks that a string is acceptable as the name of a single permission.
pub(super) fn nameable(permission: &Permission) -> Result<(), &'static str> {
    let name = permission.as_str();
    if name.is_empty() || name.len() > NAME_MAX {
        return Err("its name must have 1 to 128 bytes");
    }
    let is_letter = |letter: u8| {
        letter.is_ascii_alphanumeric() || matches!(letter, b'.' | b'_' | b'-' | b'/' | b':')
    };
    if !name.bytes().all(is_letter) {
        return Err("its name may have only the characters A-Z a-z 0-9 . _ - / :");
    }
    Ok(())
}
