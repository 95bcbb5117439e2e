//! Events of validators, confirmations and tool definitions (MGP §4, §7).
//!
//! Applies to: both.

use mgp_types::mgp::{Actor, AuditResult, EventType, RiskLevel};
use mgp_types::service::{Principal, Rule, ServerId};
use mgp_types::{ErrorCode, Hash};
use serde::Serialize;

use super::{By, Event};

/// What is wrong with a definition that a server offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flagged {
    /// The tool is refused: it is not listed and cannot be called.
    Refused,
    /// The tool stays, and an operator should look at it.
    Noted,
}

/// The rule by which a tool call is no notification.
pub(in crate::audit) const NO_REQUEST: &str = "tools are called with requests";

impl Event {
    /// `TOOL_BLOCKED`: a tool was called with a notification, which nobody could answer.
    pub(in crate::audit) fn notification_blocked(
        by: &Principal,
        server: Option<&ServerId>,
        tool: &str,
        trace: Option<&str>,
    ) -> Self {
        Self::new(EventType::ToolBlocked, by, AuditResult::Blocked)
            .server(server)
            .tool(tool)
            .during(trace)
            .code(ErrorCode::INVALID_REQUEST)
            .rule(Some(&Rule::new(NO_REQUEST)))
    }

    /// `VALIDATION_FAILED`: a validator rejected a call; `TOOL_BLOCKED` with the same trace tells of the call.
    pub fn validation_failed(by: impl Into<By>, server: Option<&ServerId>, tool: &str) -> Self {
        Self::refused(EventType::ValidationFailed, ErrorCode::VALIDATION_BLOCKED, by, server, tool)
    }

    /// `CODE_REJECTED`: the code safety framework rejected a call; `TOOL_BLOCKED` tells of the call.
    pub fn code_rejected(by: impl Into<By>, server: Option<&ServerId>, tool: &str) -> Self {
        Self::refused(EventType::CodeRejected, ErrorCode::CODE_SAFETY_VIOLATION, by, server, tool)
    }

    /// `PERMISSION_DENIED`: a call lacked a permission or a confirmation; `TOOL_BLOCKED` tells of the call.
    pub fn call_denied(by: impl Into<By>, server: Option<&ServerId>, tool: &str) -> Self {
        Self::refused(EventType::PermissionDenied, ErrorCode::PERMISSION_DENIED, by, server, tool)
    }

    fn refused(
        event_type: EventType,
        code: ErrorCode,
        by: impl Into<By>,
        server: Option<&ServerId>,
        tool: &str,
    ) -> Self {
        Self::new(event_type, by, AuditResult::Blocked).server(server).tool(tool).code(code)
    }

    /// `dev.cloto.confirmation_given`: somebody confirmed one call, which `binding` names.
    pub fn confirmation_given(
        by: impl Into<By>,
        server: Option<&ServerId>,
        tool: &str,
        risk: &RiskLevel,
        binding: &Hash,
    ) -> Self {
        Self::own("confirmation_given", by, AuditResult::Success)
            .confirmation(server, tool, risk, binding)
    }

    /// `dev.cloto.confirmation_denied`: somebody declined one call, or nobody answered (cause `expired`).
    pub fn confirmation_denied(
        by: impl Into<By>,
        server: Option<&ServerId>,
        tool: &str,
        risk: &RiskLevel,
        binding: &Hash,
    ) -> Self {
        Self::own("confirmation_denied", by, AuditResult::Blocked)
            .confirmation(server, tool, risk, binding)
    }

    fn confirmation(
        self,
        server: Option<&ServerId>,
        tool: &str,
        risk: &RiskLevel,
        binding: &Hash,
    ) -> Self {
        self.server(server)
            .tool(tool)
            .detail("risk_level", risk)
            .words("binding", Some(&binding.to_string()))
    }

    /// `dev.cloto.definition_pinned`: a tool was seen for the first time.
    pub fn definition_pinned(server: &ServerId, tool: &str, hash: &Hash) -> Self {
        Self::own("definition_pinned", Actor::kernel(), AuditResult::Success)
            .definition(server, tool, hash)
    }

    /// `dev.cloto.definition_changed`: a server changed a pinned tool, which answers 4002 from now on.
    ///
    /// `diff` names what changed, member by member.
    pub fn definition_changed<D: Serialize + ?Sized>(
        server: &ServerId,
        tool: &str,
        before: &Hash,
        hash: &Hash,
        diff: &D,
    ) -> Self {
        Self::own("definition_changed", Actor::server(server), AuditResult::Blocked)
            .definition(server, tool, hash)
            .before(&before.to_string())
            .detail("diff", diff)
    }

    /// `dev.cloto.definition_approved`: an operator approved what a tool is now.
    pub fn definition_approved(
        by: impl Into<By>,
        server: &ServerId,
        tool: &str,
        hash: &Hash,
    ) -> Self {
        Self::own("definition_approved", by, AuditResult::Success).definition(server, tool, hash)
    }

    /// `dev.cloto.definition_rejected`: an operator rejected what waited; the tool stays refused.
    pub fn definition_rejected(
        by: impl Into<By>,
        server: &ServerId,
        tool: &str,
        hash: &Hash,
    ) -> Self {
        Self::own("definition_rejected", by, AuditResult::Success).definition(server, tool, hash)
    }

    /// `dev.cloto.definition_flagged`: a tool or server was refused or noted for what it says or is called.
    pub fn definition_flagged(
        server: &ServerId,
        tool: Option<&str>,
        flagged: Flagged,
        reason: &str,
    ) -> Self {
        let result = match flagged {
            Flagged::Refused => AuditResult::Blocked,
            Flagged::Noted => AuditResult::Success,
        };
        Self::own("definition_flagged", Actor::server(server), result)
            .server(Some(server))
            .tool(tool)
            .words("reason", Some(reason))
    }

    fn definition(self, server: &ServerId, tool: &str, hash: &Hash) -> Self {
        self.server(Some(server)).tool(tool).words("hash", Some(&hash.to_string()))
    }
}
