//! The reason of a record in words: a clear sentence for a call that was refused, and the rule that refused it.

use maud::{Markup, html};
use mgp_types::ErrorCode;
use mgp_types::mgp::{AuditEvent, EventType};

use super::card::fill;
use super::layout::plain;
use super::operator::Viewer;
use super::questions::detail;
use super::record::target;
use crate::commands::audit::reason;

/// Returns the reason of a record's result. For a call that was refused for lack of access, returns a sentence and the
/// rule that refused the call.
pub(super) fn words(viewer: &Viewer, event: &AuditEvent) -> Markup {
    let own = reason(event).unwrap_or_default();
    html! {
        @match sentence(viewer, event) {
            Some(sentence) => { (plain(&sentence)) div.dim { (viewer.texts.rule) ": " (plain(&own)) } }
            None => (plain(&own)),
        }
    }
}

/// Returns the sentence about a call that was refused for lack of access, or because an entry denies it.
fn sentence(viewer: &Viewer, event: &AuditEvent) -> Option<String> {
    let texts = viewer.texts;
    let rule: String = detail(event, "rule")?;
    let is_access = detail(event, "code") == Some(ErrorCode::ACCESS_DENIED);
    if event.event_type != EventType::ToolBlocked || !is_access {
        return None;
    }
    let text = match rule.split(' ').collect::<Vec<_>>()[..] {
        ["default_policy", ..] => texts.no_access,
        ["server_grant" | "tool_grant", "deny", ..] => texts.access_denied,
        _ => return None,
    };
    Some(fill(text, &[("agent", &event.actor.id), ("tool", &target(event))]))
}
