//! Events of permissions, access, policies and keys (MGP §3, §5).

use mgp_types::mgp::{AuditResult, EventType, Permission, PermissionScope, RiskLevel};
use mgp_types::service::{AgentId, Authority, Principal, Rule, ServerId};
use mgp_types::{ErrorCode, RpcError, Timestamp};

use super::{Event, EventActor};
use crate::access::Entry;

impl Event {
    /// Creates `PERMISSION_GRANTED`: an operator approved a permission of a server.
    pub fn permission_granted(
        by: impl Into<EventActor>,
        server: Option<&ServerId>,
        permission: &Permission,
    ) -> Self {
        Self::new(EventType::PermissionGranted, by, AuditResult::Success)
            .server(server)
            .words("permission", Some(permission.as_str()))
    }

    /// Creates `PERMISSION_DENIED`: an operator declined a permission of a server.
    pub fn permission_denied(
        by: impl Into<EventActor>,
        server: Option<&ServerId>,
        permission: &Permission,
    ) -> Self {
        Self::new(EventType::PermissionDenied, by, AuditResult::Blocked)
            .server(server)
            .words("permission", Some(permission.as_str()))
    }

    /// Creates `PERMISSION_REVOKED`: a permission was revoked, or has expired
    /// ([`Actor::kernel`](mgp_types::mgp::Actor::kernel), cause `expired`).
    pub fn permission_revoked(
        by: impl Into<EventActor>,
        server: Option<&ServerId>,
        permission: &Permission,
    ) -> Self {
        Self::new(EventType::PermissionRevoked, by, AuditResult::Success)
            .server(server)
            .words("permission", Some(permission.as_str()))
    }

    /// Creates `PERMISSION_DENIED`: a call of an administrative method was refused, because the caller lacks the
    /// authority.
    ///
    /// `server` is the server named in the call, if any.
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

    /// Adds the limits of the permission.
    pub fn scope<'a>(self, scope: impl Into<Option<&'a PermissionScope>>) -> Self {
        match scope.into() {
            Some(scope) => self.detail("scope", scope),
            None => self,
        }
    }

    /// Creates `ACCESS_GRANTED`: an access entry was added. The entry can allow or deny access.
    pub fn access_granted(by: impl Into<EventActor>, entry: &Entry) -> Self {
        Self::new(EventType::AccessGranted, by, AuditResult::Success).entry(entry)
    }

    /// Creates `ACCESS_REVOKED`: an access entry was revoked, or has expired
    /// ([`Actor::kernel`](mgp_types::mgp::Actor::kernel), cause `expired`).
    pub fn access_revoked(by: impl Into<EventActor>, entry: &Entry) -> Self {
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

    /// Creates `dev.cloto.policy_changed`: the operator's configuration of a server changed. Add the old and the new
    /// configuration with `before` and `after`.
    pub fn policy_changed(by: impl Into<EventActor>, server: Option<&ServerId>) -> Self {
        Self::own("policy_changed", by, AuditResult::Success).server(server)
    }

    /// Creates `RISK_LEVEL_OVERRIDE`: the operator's configuration replaced the risk of a tool.
    pub fn risk_overridden(
        by: impl Into<EventActor>,
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

    /// Creates `dev.cloto.key_added`: an API key was created; `id` is the id of the key, not the key.
    pub fn key_added(by: impl Into<EventActor>, id: &str, for_whom: &Principal) -> Self {
        Self::own("key_added", by, AuditResult::Success).key(id, Some(for_whom))
    }

    /// Creates `dev.cloto.key_revoked`: an API key was revoked or removed. `for_whom` is its holder, or `None` if the
    /// holder is unknown.
    pub fn key_revoked<'a>(
        by: impl Into<EventActor>,
        id: &str,
        for_whom: impl Into<Option<&'a Principal>>,
    ) -> Self {
        Self::own("key_revoked", by, AuditResult::Success).key(id, for_whom.into())
    }

    fn key(self, id: &str, for_whom: Option<&Principal>) -> Self {
        let event = self.words("key_id", Some(id));
        let Some(for_whom) = for_whom else { return event };
        let event = event
            .words("tenant", Some(for_whom.tenant().as_str()))
            .words("subject", Some(for_whom.subject().as_str()))
            .words("agent_id", for_whom.as_agent().map(AgentId::as_str));
        if for_whom.authority() == Authority::User {
            event
        } else {
            event.detail("operator", &true)
        }
    }

    /// Creates `dev.cloto.approval_requested`: a request with this id waits for the decision of an operator.
    pub fn approval_requested(
        by: impl Into<EventActor>,
        id: &str,
        until: Option<&Timestamp>,
    ) -> Self {
        Self::own("approval_requested", by, AuditResult::Blocked)
            .words("approval_id", Some(id))
            .code(ErrorCode::PERMISSION_DENIED)
            .expires_at(until)
    }

    /// Creates `dev.cloto.approval_decided`: an operator decided the request with the id `id`.
    pub fn approval_decided(by: impl Into<EventActor>, id: &str, answer: &str) -> Self {
        Self::own("approval_decided", by, AuditResult::Success)
            .words("approval_id", Some(id))
            .words("decision", Some(answer))
    }

    /// Adds the caller whose request, or whose later calls, the operator's decision concerns: an agent and its user, or
    /// only the user if no agent was involved.
    pub fn asked_by(self, user: &str, agent: Option<&str>) -> Self {
        self.words("asked_by", Some(agent.unwrap_or(user)))
            .words("asked_for", agent.is_some().then_some(user))
    }

    /// Adds the place where a person answered: `page`, `terminal` or `host`.
    pub fn via(self, place: Option<&str>) -> Self {
        self.words("via", place)
    }
}
