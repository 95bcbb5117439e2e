//! The outcome of a call, and its conversion to an audit event (MGP §6.3).

use std::sync::Arc;
use std::time::Duration;

use super::CallRecord;
use crate::mgp::{Actor, AuditEvent, AuditResult, EventType, Target};
use crate::record::Object;
use crate::service::{Principal, Rule, ServerId};
use crate::wire::{ErrorCode, Payload};

/// The outcome of an audited call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditOutcome {
    /// The tool succeeded.
    Success,
    /// The callee continues the call as a task; the outcome of the task is not known here.
    Task,
    /// The tool reported a failure (`isError`).
    ToolError,
    /// The call ended with this error.
    Failed(ErrorCode),
    /// The caller cancelled the call, or the caller's connection ended.
    Cancelled,
    /// The caller cancelled the call while a gate held it, e.g. until a person decided, so the call did not run.
    Withdrawn,
    /// The call was refused before it ran.
    Blocked {
        /// The code of the refusal.
        code: ErrorCode,
        /// The rule that caused the refusal, if known.
        rule: Option<Rule>,
    },
}

impl AuditOutcome {
    /// Returns the outcome of a call that the caller cancels now: withdrawn if a gate holds the call, e.g. until a
    /// person decides, else cancelled.
    #[must_use]
    pub fn of_cancelled(start: &CallRecord) -> Self {
        if start.is_held() { Self::Withdrawn } else { Self::Cancelled }
    }

    /// Returns the type of the audit event for this outcome (§6.4).
    #[must_use]
    pub fn event_type(&self) -> EventType {
        match self {
            Self::Blocked { .. } | Self::Withdrawn => EventType::ToolBlocked,
            _ => EventType::ToolExecuted,
        }
    }

    /// Returns the result for the audit event: one of the three values that §6 defines.
    ///
    /// A cancelled call counts as a failure, because its effects are unknown; the details contain `cancelled`.
    #[must_use]
    pub fn result(&self) -> AuditResult {
        match self {
            Self::Success | Self::Task => AuditResult::Success,
            Self::ToolError | Self::Failed(_) | Self::Cancelled => AuditResult::Failure,
            Self::Blocked { .. } | Self::Withdrawn => AuditResult::Blocked,
        }
    }
}

/// An audited call that has ended. It is cheap to store, and converted to an event only when the event is needed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EndedCall {
    /// The properties of the call that were recorded before and while it ran.
    pub start: Arc<CallRecord>,
    /// The outcome of the call.
    pub outcome: AuditOutcome,
    /// The total duration of the call, over all its rounds.
    pub duration: Duration,
}

impl EndedCall {
    /// Creates the record of a call that ends now.
    #[must_use]
    pub fn now(start: Arc<CallRecord>, outcome: AuditOutcome) -> Self {
        let took = start.elapsed();
        Self { start, outcome, duration: took }
    }

    /// Converts the call to an audit event (§6.3).
    #[must_use]
    pub fn to_event(&self) -> AuditEvent {
        let start = &*self.start;
        let ended_at = start.started_at.checked_add(self.duration).unwrap_or(start.started_at);
        let mut event = AuditEvent::new(
            ended_at,
            self.outcome.event_type(),
            Actor::of(&start.principal),
            self.outcome.result(),
        );
        event.trace_id = start.trace.as_deref().map(str::to_owned);
        let mut target = Target::new();
        target.server_id = start.server.as_ref().map(ToString::to_string);
        target.tool_name = Some(start.tool.to_string());
        event.target = Some(target);
        event.details = Some(self.details());
        event
    }

    fn details(&self) -> Object {
        let mut details = Object::new();
        if let Some(arguments) = &self.start.arguments {
            details.insert("arguments", arguments.to_payload());
        }
        for (name, value) in self.start.notes().iter() {
            details.insert(name, value.clone());
        }
        // A note named `risk_level` takes precedence over the recorded risk: it comes from an inner layer, which
        // determined the risk later.
        let risk = self.start.risk.as_ref().filter(|_| details.get("risk_level").is_none());
        let mut put = |name: &str, value: Result<Payload, _>| {
            if let Ok(value) = value {
                details.insert(name, value);
            }
        };
        if let Some(risk) = risk {
            put("risk_level", Payload::of(risk));
        }
        put("duration_ms", Payload::of(&crate::millis(self.duration)));
        if self.start.rounds() > 1 {
            put("rounds", Payload::of(&self.start.rounds()));
        }
        if let (chunks @ 1.., bytes) = self.start.streamed() {
            put("chunks", Payload::of(&chunks));
            put("chunk_bytes", Payload::of(&bytes));
        }
        match &self.outcome {
            AuditOutcome::Success => {}
            AuditOutcome::Task => put("task", Payload::of(&true)),
            AuditOutcome::ToolError => put("is_error", Payload::of(&true)),
            AuditOutcome::Cancelled | AuditOutcome::Withdrawn => {
                put("cancelled", Payload::of(&true));
            }
            AuditOutcome::Failed(code) => put("code", Payload::of(code)),
            AuditOutcome::Blocked { code, rule } => {
                put("code", Payload::of(code));
                if let Some(rule) = rule {
                    put("rule", Payload::of(rule.as_str()));
                }
            }
        }
        details
    }
}

impl Actor {
    /// Returns the actor of a call: the agent if the principal acts through one, else the subject as a user.
    #[must_use]
    pub fn of(principal: &Principal) -> Self {
        match principal.as_agent() {
            Some(agent) => Self::new("agent", agent.as_str()),
            None => Self::user(principal.subject().as_str()),
        }
    }

    /// Returns the actor for a person or an API key with this name.
    #[must_use]
    pub fn user(name: &str) -> Self {
        Self::new("user", name)
    }

    /// Returns the actor for a server, by its configured id.
    #[must_use]
    pub fn server(id: &ServerId) -> Self {
        Self::new("server", id.as_str())
    }

    /// Returns the actor for events without an initiator, e.g. an expiry or a broken connection.
    #[must_use]
    pub fn kernel() -> Self {
        Self::new("kernel", "kernel")
    }
}

impl From<&Principal> for Actor {
    fn from(principal: &Principal) -> Self {
        Self::of(principal)
    }
}
