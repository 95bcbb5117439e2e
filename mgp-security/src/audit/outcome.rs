//! The outcome of a call, derived from its answer.

use mgp_types::mcp::CallToolResult;
use mgp_types::mgp::AuditEvent;
use mgp_types::proposal::{Provenance, Sources};
use mgp_types::service::{AuditOutcome, CallRecord, Reply, Rule, Ticket, is_tool_error};
use mgp_types::{Category, ErrorCode, Payload, RpcError, clip};

use super::event::Event;

/// The end of one round of a call: either the outcome of the whole call, or questions that the caller must answer
/// before the call can continue.
#[derive(Debug, PartialEq)]
pub(super) enum RoundEnd {
    Final(AuditOutcome),
    Suspended,
}

impl RoundEnd {
    pub(super) fn of(answer: &Result<Reply, RpcError>, ticket: Option<&Ticket>) -> Self {
        Self::Final(match answer {
            Ok(Reply::InputRequired(_)) => return Self::Suspended,
            Ok(Reply::Complete(body)) if is_tool_error(body) => AuditOutcome::ToolError,
            Ok(Reply::Task(_)) => AuditOutcome::Task,
            Ok(Reply::None) => AuditOutcome::Cancelled,
            Ok(_) => AuditOutcome::Success,
            Err(error) => {
                let ran = ticket.is_some_and(|ticket| ticket.start().was_executed());
                if !ran && refuses(error.code()) {
                    AuditOutcome::Blocked { code: error.code(), rule: Rule::of(error).cloned() }
                } else {
                    AuditOutcome::Failed(error.code())
                }
            }
        })
    }

    /// Records the outcome through the ticket of the call; if the round ended with questions, suspends the ticket
    /// instead. Returns the second event if the call ended with a refusal that has its own event type.
    pub(super) fn write(self, ticket: Option<Ticket>) -> Option<AuditEvent> {
        let ticket = ticket?;
        let Self::Final(outcome) = self else {
            ticket.suspend();
            return None;
        };
        let mut second = None;
        if let AuditOutcome::Blocked { code, rule } = &outcome {
            second = second_event(*code, rule.as_ref(), ticket.start());
            if let Some(reason) = code.name().and_then(|name| Payload::of(name).ok()) {
                ticket.start().add_note("reason", reason);
            }
        }
        ticket.finish(outcome);
        second
    }
}

/// The maximum number of sources that are recorded.
const MAX_SOURCES: usize = 8;
/// The maximum length of each recorded source, in bytes.
const MAX_SOURCE: usize = 256;

/// Records the sources that the server gives for a result with the extension `provenance`; they are unverified claims.
pub(super) fn note_sources(answer: &Result<Reply, RpcError>, start: &CallRecord) {
    let Ok(Reply::Complete(body)) = answer else { return };
    // Search the text before parsing it, because few results have this member.
    if !body.as_raw().as_str().contains("\"provenance\"") {
        return;
    }
    let Ok(result) = body.as_raw().get::<CallToolResult>() else { return };
    let claims = Sources::of_result(&result).into_iter().take(MAX_SOURCES);
    let recorded: Vec<_> = claims
        .map(|claim| {
            let mut recorded = Provenance::new(clip(&claim.source, MAX_SOURCE));
            recorded.retrieved_at = claim.retrieved_at;
            recorded.confidence = claim.confidence;
            recorded
        })
        .collect();
    if let (false, Ok(recorded)) = (recorded.is_empty(), Payload::of(&recorded)) {
        start.add_note("provenance", recorded);
    }
}

/// Returns the additional event of a refusal whose code has its own event type (MGP §6.4).
fn second_event(code: ErrorCode, rule: Option<&Rule>, start: &CallRecord) -> Option<AuditEvent> {
    let (by, server, tool) = (&start.principal, start.server.as_ref(), &*start.tool);
    let event = match code {
        ErrorCode::PERMISSION_DENIED => Event::call_denied(by, server, tool),
        ErrorCode::VALIDATION_BLOCKED => Event::validation_failed(by, server, tool),
        ErrorCode::CODE_SAFETY_VIOLATION => Event::code_rejected(by, server, tool),
        _ => return None,
    };
    Some(event.rule(rule).trace(start.trace.as_deref()).build())
}

/// Returns whether an error with this code is recorded as a refusal, if this side of the connection returned the error.
/// Errors that the peer returned are never recorded as refusals.
///
/// The following count as refusals: the codes that are defined as refusals, and all security errors (§14.2), because
/// gates of this process may refuse with codes of their own. Any other undefined code shows only that the call failed.
fn refuses(code: ErrorCode) -> bool {
    code.is_refusal() || code.category() == Some(Category::Security)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_of_a_refusal_blocks() {
        let blocked = ErrorCode::KNOWN.iter().filter(|code| refuses(**code)).map(|code| code.0);
        let expected = [
            1000, 1001, 1002, 1003, 1010, 1011, 2000, 2001, 2002, 3000, 3001, 3002, 4000, 4001,
            4002, 4003,
        ];
        assert_eq!(blocked.collect::<Vec<_>>(), expected);
    }
}
