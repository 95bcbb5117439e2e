//! The results of audit events in the words that people read.

use mgp_types::mgp::AuditEvent;

/// The words that [`result_word`] returns.
pub const RESULT_WORDS: [&str; 7] =
    ["SUCCESS", "FAILURE", "BLOCKED", "CANCELLED", "ASKED", "DENIED", "FLAGGED"];

/// Returns the result of an event as people read it: `DENIED` for an approval that was denied, `ASKED` for a question to
/// an operator, `FLAGGED` for a definition that was flagged, otherwise the event's own result.
#[must_use]
pub fn result_word(event: &AuditEvent) -> &str {
    let is_denied = || {
        let details = event.details.as_ref();
        let decision = details.and_then(|details| details.decode::<String>("decision").ok()?);
        decision.as_deref() == Some("denied")
    };
    match event.event_type.as_str() {
        "dev.cloto.approval_decided" if is_denied() => "DENIED",
        "dev.cloto.approval_requested" => "ASKED",
        "dev.cloto.definition_flagged" => "FLAGGED",
        _ => event.result.as_str(),
    }
}
