//! Events of permissions, access, policies and keys (MGP §3, §5).
//!
//! Applies to: both.

use mgp_types::mgp::{AuditResult, EventType, Permission, PermissionScope, RiskLevel};
use mgp_types::service::{AgentId, Principal, Rule, ServerId};
use mgp_types::{ErrorCode, RpcError, Timestamp};

use super::{By, Event};
use crate::access::Entry;

impl Event {
    /// `PERMISSION_GRANTED`: somebody approved a permission of a server.
    pub fn permission_granted(
        by: impl Into<By>,
        server: Option<&ServerId>,
        permission: &Permission,
    ) -> Self {
        Self::new(EventType::PermissionGranted, by, AuditResult::Success)
            .server(server)
            .words("permission", Some(permission.as_str()))
    }

    /// `PERMISSION_DENIED`: somebody declined a permission of a server.
    pub fn permission_denied(
        by: impl Into<By>,
        server: Option<&ServerId>,
        permission: &Permission,
    ) -> Self {
        Self::new(EventType::PermissionDenied, by, AuditResult::Blocked)
            .server(server)
            .words("permission", Some(permission.as_str()))
    }

    /// `PERMISSION_REVOKED`: a permission was taken back, or has expired ([`Actor::kernel`](mgp_types::mgp::Actor::kernel), cause `expired`).
    pub fn permission_revoked(
        by: impl Into<By>,
        server: Option<&ServerId>,
        permission: &Permission,
    ) -> Self {
        Self::new(EventType::PermissionRevoked, by, AuditResult::Success)
            .server(server)
            .words("permission", Some(permission.as_str()))
    }

    /// `PERMISSION_DENIED`: somebody called an administrative method and may not.
    ///
    /// `server` is the server the call was about, where it named one.
    pub fn administration_refused(
        by: &Principal,
        server: Option<&ServerId>,
        method: &str,
        error: &RpcError,
    ) -> Self {
        Self::new(EventType::PermissionDenied, by, AuditResult::Blocked)
            .server(server)
            .words("method", Some(method))
            .code(error.code())
            .rule(Rule::of(error))
    }

    /// The limits of a permission.
    pub fn scope<'a>(self, scope: impl Into<Option<&'a PermissionScope>>) -> Self {
        match scope.into() {
            Some(scope) => self.detail("scope", scope),
            None => self,
        }
    }

    /// `ACCESS_GRANTED`: an entry was made; it may be one that denies.
    pub fn access_granted(by: impl Into<By>, entry: &Entry) -> Self {
        Self::new(EventType::AccessGranted, by, AuditResult::Success).entry(entry)
    }

    /// `ACCESS_REVOKED`: an entry was taken back, or has expired ([`Actor::kernel`](mgp_types::mgp::Actor::kernel), cause `expired`).
    pub fn access_revoked(by: impl Into<By>, entry: &Entry) -> Self {
        Self::new(EventType::AccessRevoked, by, AuditResult::Success).entry(entry)
    }

    fn entry(self, entry: &Entry) -> Self {
        let event = match entry.confirm {
            Some(confirm) => self.detail("confirm", &confirm),
            None => self,
        };
        let (event, entry) = (event.tenant(&entry.tenant), &entry.access);
        event
            .server(Some(&entry.server_id.as_str().into()))
            .tool(entry.tool_name.as_deref())
            .words("agent_id", Some(&entry.agent_id))
            .detail("entry_type", &entry.entry_type)
            .detail("permission", &entry.permission)
            .justification(entry.justification.as_deref())
            .expires_at(entry.expires_at.as_ref())
    }

    /// `dev.cloto.policy_changed`: the operator's configuration of a server changed; add `before` and `after`.
    pub fn policy_changed(by: impl Into<By>, server: Option<&ServerId>) -> Self {
        Self::own("policy_changed", by, AuditResult::Success).server(server)
    }

    /// `RISK_LEVEL_OVERRIDE`: the operator's configuration replaced the risk of a tool.
    pub fn risk_overridden(
        by: impl Into<By>,
        server: Option<&ServerId>,
        tool: &str,
        before: &RiskLevel,
        after: &RiskLevel,
    ) -> Self {
        Self::new(EventType::Other("RISK_LEVEL_OVERRIDE".into()), by, AuditResult::Success)
            .server(server)
            .tool(tool)
            .before(before)
            .after(after)
    }

    /// `dev.cloto.key_added`: an API key was made; `id` names it and is not the key.
    pub fn key_added(by: impl Into<By>, id: &str, for_whom: &Principal) -> Self {
        Self::own("key_added", by, AuditResult::Success).key(id, Some(for_whom))
    }

    /// `dev.cloto.key_revoked`: an API key was taken back, or has expired; whose it was may not be known.
    pub fn key_revoked<'a>(
        by: impl Into<By>,
        id: &str,
        for_whom: impl Into<Option<&'a Principal>>,
    ) -> Self {
        Self::own("key_revoked", by, AuditResult::Success).key(id, for_whom.into())
    }

    fn key(self, id: &str, for_whom: Option<&Principal>) -> Self {
        let event = self.words("key_id", Some(id));
        let Some(for_whom) = for_whom else { return event };
        event
            .words("tenant", Some(for_whom.tenant().as_str()))
            .words("subject", Some(for_whom.subject().as_str()))
            .words("agent_id", for_whom.as_agent().map(AgentId::as_str))
    }

    /// `dev.cloto.project_approved`: the configuration of a project was approved, exactly as it is.
    pub fn project_approved(
        by: impl Into<By>,
        file: &str,
        sha256: &str,
        replaces: &[&str],
    ) -> Self {
        Self::own("project_approved", by, AuditResult::Success).project(file, sha256, replaces)
    }

    /// `dev.cloto.project_revoked`: such an approval was taken back.
    pub fn project_revoked(by: impl Into<By>, file: &str, sha256: &str, replaces: &[&str]) -> Self {
        Self::own("project_revoked", by, AuditResult::Success).project(file, sha256, replaces)
    }

    fn project(self, file: &str, sha256: &str, replaces: &[&str]) -> Self {
        let event = self.words("file", Some(file)).words("sha256", Some(sha256));
        if replaces.is_empty() { event } else { event.detail("replaces", replaces) }
    }

    /// `dev.cloto.approval_requested`: a decision waits for an operator under an id.
    pub fn approval_requested(by: impl Into<By>, id: &str, until: Option<&Timestamp>) -> Self {
        Self::own("approval_requested", by, AuditResult::Blocked)
            .words("approval_id", Some(id))
            .code(ErrorCode::PERMISSION_DENIED)
            .expires_at(until)
    }

    /// `dev.cloto.approval_decided`: an operator decided what waited under an id.
    pub fn approval_decided(by: impl Into<By>, id: &str, answer: &str) -> Self {
        Self::own("approval_decided", by, AuditResult::Success)
            .words("approval_id", Some(id))
            .words("decision", Some(answer))
    }
}
