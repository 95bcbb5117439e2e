//! One approval as it is kept: what was decided about a permission of a server, by whom, within which limits (MGP §3.6).

use std::time::SystemTime;

use mgp_types::Timestamp;
use mgp_types::mgp::{Permission, PermissionScope};
use mgp_types::service::{ServerId, TenantId};
use serde::{Deserialize, Serialize};

use crate::policy::ConfirmRule;

/// What was decided about one permission of a server.
///
/// A member that this version does not know makes it unreadable: it might be a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Approval {
    /// For whose calls it holds.
    pub tenant: String,
    /// The server; none is the party itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The permission, by its standard name.
    pub permission: Permission,
    /// What was decided.
    pub decision: ApprovalDecision,
    /// Where the decision comes from.
    pub source: ApprovalSource,
    /// The limits, where there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<PermissionScope>,
    /// The only tools it is for; none named are all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Whether calls of these tools are confirmed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<ConfirmRule>,
    /// Who decided.
    pub approved_by: String,
    /// When.
    pub approved_at: Timestamp,
    /// Until when it holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Why, in the words of whoever decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub justification: Option<String>,
    /// Whether it was told that it has ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) end_told: bool,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalDecision {
    /// It is granted.
    Approved,
    /// It is not, and nobody is asked again.
    Denied,
    /// What stood before was taken back; only a new decision grants it.
    Revoked,
}

impl ApprovalDecision {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Revoked => "revoked",
        }
    }
}

/// Where a decision comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ApprovalSource {
    /// An operator, who administered it.
    Operator,
    /// Somebody who was asked.
    Answer,
    /// The policy `auto_approve`; it holds as long as that is the policy.
    Policy,
}

impl Approval {
    /// A decision of now, without limits.
    pub(super) fn new(
        place: &Place,
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

    /// Where it belongs.
    pub(super) fn place(&self) -> Place {
        Place {
            tenant: self.tenant.as_str().into(),
            server: self.server.as_deref().map(Into::into),
        }
    }

    /// Its name in the store.
    pub(super) fn key(&self) -> String {
        self.place().key(&self.permission)
    }

    /// When it ends; a time that cannot be read is past.
    pub(super) fn until(&self) -> Option<SystemTime> {
        let read = |time: &Timestamp| time.to_system_time().unwrap_or(SystemTime::UNIX_EPOCH);
        self.expires_at.as_ref().map(read)
    }
}

/// Whose approvals: those for one server, in one tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) tenant: TenantId,
    pub(super) server: Option<ServerId>,
}

impl Place {
    /// The name of an approval in the store: no two have the same, whatever their parts contain.
    pub(super) fn key(&self, permission: &Permission) -> String {
        let server = self.server.as_ref().map(ServerId::as_str);
        let parts = (self.tenant.as_str(), server, permission.as_str());
        // Three texts can always be written.
        serde_json::to_string(&parts).unwrap_or_default()
    }
}
