//! Events of validators, confirmations and tool definitions (MGP §4, §7).

use mgp_types::mgp::{Actor, AuditResult, CallbackType, EventType, RiskLevel};
use mgp_types::service::{Principal, Rule, ServerId};
use mgp_types::{ErrorCode, Sha256Hash};
use serde::Serialize;

use super::{Event, EventActor};

/// The consequence of a suspicious finding in the definition of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefinitionFlag {
    /// The tool is refused: it is not listed and cannot be called.
    Refused,
    /// The tool stays available, and an operator should review it.
    Noted,
}

/// The text of the rule that blocks a tool call sent as a notification; the error and the event contain it.
pub(crate) const REQUESTS_ONLY: &str = "tools are called with requests";

impl Event {
    /// Creates `TOOL_BLOCKED` for a tool call that was sent as a notification.
    pub(in crate::audit) fn notification_blocked(
        by: &Principal,
        server: Option<&ServerId>,
        tool: &str,
        trace: Option<&str>,
    ) -> Self {
        Self::new(EventType::ToolBlocked, by, AuditResult::Blocked)
            .server(server)
            .tool(tool)
            .trace(trace)
            .code(ErrorCode::INVALID_REQUEST)
            .rule(Some(&Rule::new(REQUESTS_ONLY)))
    }

    /// Creates `VALIDATION_FAILED`: a validator rejected a call; the call itself is recorded as `TOOL_BLOCKED` with the
    /// same trace id.
    pub fn validation_failed(
        by: impl Into<EventActor>,
        server: Option<&ServerId>,
        tool: &str,
    ) -> Self {
        Self::refused(EventType::ValidationFailed, ErrorCode::VALIDATION_BLOCKED, by, server, tool)
    }

    /// Creates `CODE_REJECTED`: the code safety framework rejected a call; the call itself is recorded as
    /// `TOOL_BLOCKED`.
    pub fn code_rejected(by: impl Into<EventActor>, server: Option<&ServerId>, tool: &str) -> Self {
        Self::refused(EventType::CodeRejected, ErrorCode::CODE_SAFETY_VIOLATION, by, server, tool)
    }

    /// Creates `PERMISSION_DENIED`: a call lacked a permission or a confirmation; the call itself is recorded as
    /// `TOOL_BLOCKED`.
    pub fn call_denied(by: impl Into<EventActor>, server: Option<&ServerId>, tool: &str) -> Self {
        Self::refused(EventType::PermissionDenied, ErrorCode::PERMISSION_DENIED, by, server, tool)
    }

    /// Creates `TOOL_BLOCKED` for a tool call that was refused before the audit layer, e.g. because it is above a limit;
    /// `unrecorded` is the count of earlier such refusals for which no event was created.
    pub fn call_refused(
        by: impl Into<EventActor>,
        server: Option<&ServerId>,
        tool: &str,
        code: ErrorCode,
        unrecorded: u64,
    ) -> Self {
        let event = Self::refused(EventType::ToolBlocked, code, by, server, tool);
        if unrecorded == 0 { event } else { event.detail("unrecorded", &unrecorded) }
    }

    fn refused(
        event_type: EventType,
        code: ErrorCode,
        by: impl Into<EventActor>,
        server: Option<&ServerId>,
        tool: &str,
    ) -> Self {
        Self::new(event_type, by, AuditResult::Blocked).server(server).tool(tool).code(code)
    }

    /// Creates `dev.cloto.confirmation_given`: a person confirmed one call; `binding` is the hash of everything for
    /// which the confirmation is valid.
    pub fn confirmation_given(
        by: impl Into<EventActor>,
        server: Option<&ServerId>,
        tool: &str,
        risk: &RiskLevel,
        binding: &Sha256Hash,
    ) -> Self {
        Self::own("confirmation_given", by, AuditResult::Success)
            .confirmation(server, tool, risk, binding)
    }

    /// Creates `dev.cloto.confirmation_denied`: a person declined one call, or did not answer in time (cause
    /// `expired`).
    pub fn confirmation_denied(
        by: impl Into<EventActor>,
        server: Option<&ServerId>,
        tool: &str,
        risk: &RiskLevel,
        binding: &Sha256Hash,
    ) -> Self {
        Self::own("confirmation_denied", by, AuditResult::Blocked)
            .confirmation(server, tool, risk, binding)
    }

    /// Creates `dev.cloto.callback_unanswered`: a server's question to a person was not answered in time.
    pub fn callback_unanswered(
        by: impl Into<EventActor>,
        server: Option<&ServerId>,
        kind: &CallbackType,
    ) -> Self {
        Self::own("callback_unanswered", by, AuditResult::Failure)
            .server(server)
            .words("type", Some(kind.as_str()))
    }

    fn confirmation(
        self,
        server: Option<&ServerId>,
        tool: &str,
        risk: &RiskLevel,
        binding: &Sha256Hash,
    ) -> Self {
        self.server(server)
            .tool(tool)
            .detail("risk_level", risk)
            .words("binding", Some(&binding.to_string()))
    }

    /// Creates `dev.cloto.definition_pinned`: the definition of a tool was pinned, because a server listed the tool for
    /// the first time, or with more checks in `_meta` than before.
    pub fn definition_pinned(server: &ServerId, tool: &str, hash: &Sha256Hash) -> Self {
        Self::own("definition_pinned", Actor::kernel(), AuditResult::Success)
            .definition(server, tool, hash)
    }

    /// Creates `dev.cloto.definition_changed`: a server changed a pinned tool. From now on, calls of the tool are
    /// refused with code 4002 (tool disabled).
    ///
    /// `diff` lists the changes by member.
    pub fn definition_changed<D: Serialize + ?Sized>(
        server: &ServerId,
        tool: &str,
        before: &Sha256Hash,
        hash: &Sha256Hash,
        diff: &D,
    ) -> Self {
        Self::own("definition_changed", Actor::server(server), AuditResult::Blocked)
            .definition(server, tool, hash)
            .before(&before.to_string())
            .detail("diff", diff)
    }

    /// Creates `dev.cloto.definition_approved`: an operator approved the current definition of a tool.
    pub fn definition_approved(
        by: impl Into<EventActor>,
        server: &ServerId,
        tool: &str,
        hash: &Sha256Hash,
    ) -> Self {
        Self::own("definition_approved", by, AuditResult::Success).definition(server, tool, hash)
    }

    /// Creates `dev.cloto.definition_rejected`: an operator rejected a changed definition; the tool stays refused.
    pub fn definition_rejected(
        by: impl Into<EventActor>,
        server: &ServerId,
        tool: &str,
        hash: &Sha256Hash,
    ) -> Self {
        Self::own("definition_rejected", by, AuditResult::Success).definition(server, tool, hash)
    }

    /// Creates `dev.cloto.definitions_forgotten`: all pinned definitions of a server were removed; the definitions that
    /// it lists next are pinned.
    pub fn definitions_forgotten(
        by: impl Into<EventActor>,
        server: &ServerId,
        count: usize,
    ) -> Self {
        Self::own("definitions_forgotten", by, AuditResult::Success)
            .server(Some(server))
            .detail("count", &count)
    }

    /// Creates `dev.cloto.definition_flagged`: a tool or server was refused, or noted for review, because of its texts
    /// or its name.
    pub fn definition_flagged(
        server: &ServerId,
        tool: Option<&str>,
        flagged: DefinitionFlag,
        reason: &str,
    ) -> Self {
        let result = match flagged {
            DefinitionFlag::Refused => AuditResult::Blocked,
            DefinitionFlag::Noted => AuditResult::Success,
        };
        Self::own("definition_flagged", Actor::server(server), result)
            .server(Some(server))
            .tool(tool)
            .words("reason", Some(reason))
    }

    fn definition(self, server: &ServerId, tool: &str, hash: &Sha256Hash) -> Self {
        self.server(Some(server)).tool(tool).words("hash", Some(&hash.to_string()))
    }
}
