//! Links from the record of a refused call to pages where a person can make the call possible: a form, a limit, or an
//! item of the inbox.

use maud::{Markup, html};
use mgp_types::ErrorCode;
use mgp_types::mgp::{AuditEvent, EventType};

use super::Console;
use super::form::{Form, segment};
use super::layout::url;
use super::operator::Viewer;
use super::questions::{Questions, approval_id, detail};
use crate::commands::audit::tenant;

/// The duration that the links propose for a grant.
const TERM: &str = "1h";

struct Refused<'a> {
    agent: &'a str,
    server: &'a str,
    tool: &'a str,
    event: &'a AuditEvent,
}

/// Returns links from the record of a refused call to pages where a person can make the call possible; nothing for
/// other records.
pub(super) fn links(
    console: &Console,
    viewer: &Viewer,
    questions: &Questions,
    event: &AuditEvent,
) -> Markup {
    let found = targets(viewer, questions, event);
    html! {
        @for (path, text) in &found { div { a href=(url(console, path)) { (text) } } }
    }
}

/// Returns the path and the text of each link that may let the call run.
fn targets(
    viewer: &Viewer,
    questions: &Questions,
    event: &AuditEvent,
) -> Vec<(String, &'static str)> {
    let texts = viewer.texts;
    let code = detail::<ErrorCode>(event, "code");
    let (Some(code), true) = (code, event.event_type == EventType::ToolBlocked) else {
        return Vec::new();
    };
    let Some(target) = &event.target else { return Vec::new() };
    let (Some(server), Some(tool)) = (&target.server_id, &target.tool_name) else {
        return Vec::new();
    };
    let refused = Refused { agent: &event.actor.id, server, tool, event };
    let rule = (refused.rule(), texts.show_rule);
    match code {
        // Propose no form for a call of another tenant, because the forms change the access and permissions of the
        // viewer's own tenant.
        ErrorCode::ACCESS_DENIED | ErrorCode::PERMISSION_DENIED if refused.is_foreign() => {
            Vec::new()
        }
        ErrorCode::ACCESS_DENIED if refused.can_be_granted() => {
            vec![(refused.grant(), texts.grant_hour), rule]
        }
        ErrorCode::PERMISSION_DENIED => {
            let question = approval_id(event).and_then(|id| questions.get(&id));
            let asked = question.map(|one| {
                let text = if one.state == "open" { texts.answer_it } else { texts.show_question };
                (format!("/call/{}", segment(&one.id)), text)
            });
            let missing = detail::<String>(event, "missing");
            // Do not propose to grant the permission if an operator has just denied the call.
            let is_denied = question.is_some_and(|one| one.state == "denied");
            let missing = missing.filter(|_| !is_denied);
            let missing =
                missing.map(|names| (refused.permission(&names), texts.grant_permission_hour));
            let found: Vec<_> = asked.into_iter().chain(missing).collect();
            if found.is_empty() { vec![rule] } else { found }
        }
        ErrorCode::ACCESS_DENIED => vec![rule],
        // A validator judges the arguments, so the page that explains decisions can explain this refusal only if the
        // record keeps the arguments.
        ErrorCode::VALIDATION_BLOCKED | ErrorCode::CODE_SAFETY_VIOLATION => {
            let is_kept = kept_arguments(event).is_some() && !refused.is_foreign();
            let first = if is_kept { rule } else { (refused.definition(), texts.show_definition) };
            vec![first, ("/configuration".to_owned(), texts.show_validators)]
        }
        ErrorCode::AUTH_EXPIRED => vec![("/access#keys".to_owned(), texts.show_keys)],
        ErrorCode::RATE_LIMITED | ErrorCode::RESOURCE_EXHAUSTED | ErrorCode::QUOTA_EXCEEDED => {
            vec![("/access#limits".to_owned(), texts.show_limits)]
        }
        ErrorCode::TOOL_DISABLED => vec![(refused.definition(), texts.show_definition)],
        ErrorCode::SERVER_NOT_READY | ErrorCode::SERVER_DRAINING | ErrorCode::SERVER_RESTARTING => {
            vec![(format!("/servers/{}", segment(server)), texts.show_server)]
        }
        _ => Vec::new(),
    }
}

impl Refused<'_> {
    /// Returns whether the call belonged to another tenant than the viewer's.
    fn is_foreign(&self) -> bool {
        tenant(self.event).is_some()
    }

    /// Returns whether an access entry for this agent would allow the call. This is so only if access entries or the
    /// `default_policy` caused the refusal, and the call was not on behalf of another agent.
    fn can_be_granted(&self) -> bool {
        let rule: String = detail(self.event, "rule").unwrap_or_default();
        let is_of_entries = ["default_policy", "server_grant", "tool_grant"];
        detail::<String>(self.event, "on_behalf_of").is_none()
            && is_of_entries.iter().any(|source| rule.starts_with(source))
    }

    fn grant(&self) -> String {
        let query =
            [("for", self.agent), ("server", self.server), ("name", self.tool), ("expires", TERM)];
        format!("/access?{}#grant", Form::of(query).to_query())
    }

    fn permission(&self, names: &str) -> String {
        let query = [("server", self.server), ("permit", names), ("expires", TERM)];
        format!("/access?{}#permit", Form::of(query).to_query())
    }

    fn definition(&self) -> String {
        format!("/definition/{}", segment(&format!("{}.{}", self.server, self.tool)))
    }

    /// Returns the address of the page that shows which rules decide about the refused call. It includes the call's
    /// arguments if they are kept.
    fn rule(&self) -> String {
        let tool = format!("{}.{}", self.server, self.tool);
        let kept = kept_arguments(self.event).unwrap_or_default();
        let query = [("agent", self.agent), ("tool", &tool), ("arguments", &kept)];
        format!("/access?{}#why", Form::of(query).to_query())
    }
}

/// The maximum length of the arguments that a link repeats, in bytes.
const MAX_LINKED: usize = 2048;

fn kept_arguments(event: &AuditEvent) -> Option<String> {
    let arguments: mgp_types::Extras = detail(event, "arguments")?;
    let text = arguments.get("value")?.as_str();
    (text.len() <= MAX_LINKED).then(|| text.to_owned())
}
