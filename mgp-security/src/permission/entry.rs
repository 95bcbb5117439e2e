//! One stored decision about a permission of a server, with its author and limits (MGP §3.6).

use std::time::SystemTime;

use mgp_types::Timestamp;
use mgp_types::mgp::{Permission, PermissionScope};
use mgp_types::service::{ServerId, TenantId};
use serde::{Deserialize, Serialize};

use crate::policy::ConfirmRule;

/// The decision about one permission of a server.
///
/// An approval with an unknown member cannot be read, because the member might be a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Approval {
    /// The tenant to whose calls the decision applies.
    pub tenant: String,
    /// The server to which the decision applies; `None` for the tools of this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The permission, by its standard name.
    pub permission: Permission,
    /// The kind of decision: approved, denied or revoked.
    pub decision: ApprovalDecision,
    /// The way in which the decision was made.
    pub source: ApprovalSource,
    /// The limits of an approval, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<PermissionScope>,
    /// The tools to which the decision is restricted; empty for all tools.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The confirmation rule for calls of the tools in [`tools`](Self::tools), if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<ConfirmRule>,
    /// The person, policy or configuration that decided.
    pub approved_by: String,
    /// The time at which the decision was made.
    pub approved_at: Timestamp,
    /// The time at which the decision expires; `None` if it does not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// The justification that the author of the decision gave, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
    /// `true` if an event has already recorded that the decision expired.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) end_told: bool,
}

/// The kind of a decision about a permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalDecision {
    /// The permission is granted to the server.
    Approved,
    /// The permission is denied, and approvers are not asked again.
    Denied,
    /// An earlier decision was revoked, and only a new decision can grant the permission.
    Revoked,
}

impl ApprovalDecision {
    /// Returns the name of the decision.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Revoked => "revoked",
        }
    }
}

/// The way in which a decision was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalSource {
    /// An operator made the decision, with an administrative method.
    Operator,
    /// An approver made the decision by answering a question.
    Answer,
    /// The policy `auto_approve` made the decision. The approval counts only while that policy applies.
    Policy,
}

impl Approval {
    /// Creates a decision made now, without limits and expiry.
    pub(super) fn new(
        place: &ApprovalOwner,
        permission: Permission,
        decision: ApprovalDecision,
        source: ApprovalSource,
        by: impl Into<String>,
    ) -> Self {
        Self {
            tenant: place.tenant.to_string(),
            server: place.server.as_ref().map(ToString::to_string),
            permission,
            decision,
            source,
            scope: None,
            tools: Vec::new(),
            confirm: None,
            approved_by: by.into(),
            approved_at: Timestamp::now(),
            expires_at: None,
            justification: None,
            end_told: false,
        }
    }

    pub(super) fn place(&self) -> ApprovalOwner {
        ApprovalOwner {
            tenant: self.tenant.as_str().into(),
            server: self.server.as_deref().map(Into::into),
        }
    }

    pub(super) fn key(&self) -> String {
        self.place().key(&self.permission)
    }

    /// Returns the expiry, or `None` if the decision does not expire. An unreadable time counts as long past.
    pub(super) fn until(&self) -> Option<SystemTime> {
        let read = |time: &Timestamp| time.to_system_time().unwrap_or(SystemTime::UNIX_EPOCH);
        self.expires_at.as_ref().map(read)
    }

    /// Returns whether the decision has expired. Once its end is recorded, it stays over if the clock is set back.
    pub(crate) fn is_over(&self, at: SystemTime) -> bool {
        self.end_told || self.until().is_some_and(|until| until <= at)
    }
}

/// The server and the tenant to which an approval belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApprovalOwner {
    pub(super) tenant: TenantId,
    pub(super) server: Option<ServerId>,
}

impl ApprovalOwner {
    /// Returns the key of a decision in the store. Different owners or permissions always result in different keys.
    pub(super) fn key(&self, permission: &Permission) -> String {
        let server = self.server.as_ref().map(ServerId::as_str);
        let parts = (self.tenant.as_str(), server, permission.as_str());
        // Encoding strings cannot fail.
        serde_json::to_string(&parts).unwrap_or_default()
    }
}
