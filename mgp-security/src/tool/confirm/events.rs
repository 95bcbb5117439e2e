//! The events that tell of a confirmation (MGP §6.3; types of our own).
//!
//! Applies to: both.

use std::time::SystemTime;

use mgp_types::Object;
use mgp_types::mgp::{Actor, AuditEvent, AuditResult, EventType, RiskLevel, Target};
use mgp_types::service::Context;

use crate::approval::Question;
use crate::{About, Decision};

/// A call was confirmed.
const GIVEN: &str = "dev.cloto.confirmation_given";

/// A call was not confirmed by somebody who was asked.
const DENIED: &str = "dev.cloto.confirmation_denied";

/// The event of a confirmation.
pub(super) fn given(cx: &Context, question: &Question, decision: &Decision) -> AuditEvent {
    event(GIVEN, AuditResult::Success, cx, question, decision)
}

/// The event of a refusal to confirm.
pub(super) fn denied(cx: &Context, question: &Question, decision: &Decision) -> AuditEvent {
    event(DENIED, AuditResult::Blocked, cx, question, decision)
}

fn event(
    kind: &str,
    result: AuditResult,
    cx: &Context,
    question: &Question,
    decision: &Decision,
) -> AuditEvent {
    let actor = Actor::new("user", decision.by.as_str());
    let mut event = AuditEvent::new(SystemTime::now(), EventType::from(kind), actor, result);
    event.trace_id = cx.trace.as_deref().map(str::to_owned);
    let mut target = Target::new();
    target.server_id = question.server.as_ref().map(ToString::to_string);
    let mut details = Object::new();
    // Words can always be written.
    let mut put = |name: &str, value: &str| drop(details.encode(name, value));
    put("agent_id", Actor::of(&question.principal).id.as_str());
    put("binding", &question.binding.to_string());
    if let About::Call { tool, risk, .. } = &question.about {
        target.tool_name = Some(tool.clone());
        put("risk_level", RiskLevel::as_str(risk));
    }
    if let Some(end) = &decision.expires_at {
        put("expires_at", end.as_str());
    }
    if let Some(justification) = decision.details.get("justification") {
        details.insert("justification", justification.clone());
    }
    event.target = Some(target);
    event.details = Some(details);
    event
}
