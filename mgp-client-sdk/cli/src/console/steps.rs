//! The steps of one call in words: called, asked, answered, started, ended or not run.

use std::time::{Duration, SystemTime};

use maud::{Markup, html};
use mgp_security::result_word;
use mgp_types::Timestamp;
use mgp_types::mgp::{AuditEvent, EventType};

use super::form::segment;
use super::history::{ANSWERED, ASKED};
use super::layout::{mark, plain, url};
use super::operator::Viewer;
use super::questions::{self, Questions, approval_id, detail};
use super::record::target;
use super::remedy::links;
use super::{Console, inbox, refusal, times};
use crate::commands::audit::reason;

const CONFIRMED: &str = "dev.cloto.confirmation_given";

const UNCONFIRMED: &str = "dev.cloto.confirmation_denied";

/// A step of a call: its time, its name, and a text about what happened.
struct Step {
    at: Option<SystemTime>,
    name: &'static str,
    what: Markup,
}

/// The records of one call, the questions that they name, and the viewer for whom they are described.
pub(super) struct Story<'a> {
    pub(super) console: &'a Console,
    pub(super) viewer: &'a Viewer,
    pub(super) events: &'a [AuditEvent],
    pub(super) questions: &'a Questions,
}

impl Story<'_> {
    /// Returns the steps as a list in the order of time.
    pub(super) fn list(&self) -> Markup {
        let mut steps: Vec<Step> = self.events.iter().flat_map(|event| self.steps(event)).collect();
        // Show the call before its question if both have the same time in milliseconds.
        steps.sort_by_key(|step| (step.at, step.name != self.viewer.texts.step_called));
        let waiting = self.waiting();
        html! {
            ol.steps aria-label=(self.viewer.texts.steps) {
                @for step in &steps {
                    li {
                        span.time { @if let Some(at) = step.at { (times::moment(Timestamp::from(at).as_str())) } }
                        b { (step.name) } div { (step.what) }
                    }
                }
                @if let Some(waiting) = waiting { li { span.time {} b { (self.viewer.texts.step_waits) } div { (waiting) } } }
            }
        }
    }

    fn has(&self, kind: &str) -> bool {
        self.events.iter().any(|event| event.event_type.as_str() == kind)
    }

    fn steps(&self, event: &AuditEvent) -> Vec<Step> {
        let texts = self.viewer.texts;
        let at = event.timestamp.to_system_time();
        let one = |name, what| vec![Step { at, name, what }];
        match event.event_type.as_str() {
            ASKED => self.question(event, at),
            ANSWERED => one(texts.step_answered, self.answered(event)),
            // Skip this record if the question was in the inbox, because the record `ANSWERED` then has the answer.
            CONFIRMED | UNCONFIRMED if !self.has(ANSWERED) => {
                one(texts.step_answered, self.answered(event))
            }
            "PERMISSION_GRANTED" => one(texts.step_permission, html! { (self.by(event)) }),
            _ if event.event_type == EventType::ToolExecuted => self.run(event, at),
            _ if event.event_type == EventType::ToolBlocked => self.refusal(event, at),
            _ => Vec::new(),
        }
    }

    /// Returns the steps of a question. While its call waits, the call has no record of its own, so the step of the
    /// call is added here.
    fn question(&self, event: &AuditEvent, at: Option<SystemTime>) -> Vec<Step> {
        let texts = self.viewer.texts;
        let asked = Step { at, name: texts.step_asked, what: self.asked(event) };
        let calls = [EventType::ToolExecuted, EventType::ToolBlocked];
        let is_recorded = self
            .events
            .iter()
            .any(|one| one.trace_id == event.trace_id && calls.contains(&one.event_type));
        if is_recorded {
            return vec![asked];
        }
        vec![Step { at, name: texts.step_called, what: who(event) }, asked]
    }

    /// Returns the time when a recorded call arrived: its end minus its duration or, if earlier, the time of the first
    /// record of its trace. The duration alone is not exact, because it is in whole milliseconds.
    fn began(&self, event: &AuditEvent, ended: Option<SystemTime>) -> Option<SystemTime> {
        let lasted = Duration::from_millis(detail(event, "duration_ms").unwrap_or_default());
        let began = ended.and_then(|end| end.checked_sub(lasted));
        let own = self.events.iter().filter(|one| one.trace_id == event.trace_id);
        own.filter_map(|one| one.timestamp.to_system_time()).chain(began).min()
    }

    /// Returns a text about who was asked to confirm the call, and by which rule.
    fn asked(&self, event: &AuditEvent) -> Markup {
        let texts = self.viewer.texts;
        html! {
            (texts.operators_for) " " (plain(&event.actor.id)) " → " (plain(&target(event)))
            @if let Some(rule) = detail::<String>(event, "rule") { "; " (texts.rule) ": " (plain(&rule)) }
            (self.question_link(event))
        }
    }

    /// Returns a link to the question, as long as the question is in the inbox.
    fn question_link(&self, event: &AuditEvent) -> Markup {
        let known = approval_id(event).and_then(|id| self.questions.get(&id));
        html! {
            @if let Some(known) = known {
                div { a href=(url(self.console, &format!("/call/{}", segment(&known.id)))) { (self.viewer.texts.arguments_in_inbox) } }
            }
        }
    }

    /// Returns a text about the answer to a question: who answered what, where, and why.
    fn answered(&self, event: &AuditEvent) -> Markup {
        let texts = self.viewer.texts;
        let decision: String = detail(event, "decision").unwrap_or_default();
        let (word, more) = match (event.event_type.as_str(), &*decision) {
            (ANSWERED, "denied") | (UNCONFIRMED, _) => ("denied", None),
            // Show a text about later calls: an approval for them has its own id and its own record.
            (ANSWERED, "approved") if is_for_later(event) => ("approved", Some(texts.later_calls)),
            // The question was closed without an answer, e.g. because an operator decided about permissions.
            (ANSWERED, "settled") => ("settled", None),
            _ => ("approved", None),
        };
        html! {
            @if let Some(more) = more { (more) } @else { (mark(word)) }
            " " (self.by(event))
        }
    }

    /// Returns who gave an answer, where and why, and until when it holds.
    fn by(&self, event: &AuditEvent) -> Markup {
        let texts = self.viewer.texts;
        let place =
            detail::<String>(event, "via").and_then(|word| questions::place(self.viewer, &word));
        let end = detail::<String>(event, "expires_at").filter(|_| is_for_later(event));
        html! {
            @if detail::<String>(event, "cause").as_deref() == Some("expired") { (texts.not_in_time) }
            @else { (texts.by_word) " " (plain(&event.actor.id)) }
            @if let Some(place) = place { ", " (place) }
            @if let Some(permission) = detail::<String>(event, "permission") { ", " code { (plain(&permission)) } }
            @if let Some(end) = end { ", " (texts.until_word) " " (times::moment(&end)) }
            @if let Some(reason) = detail::<String>(event, "justification") { ": " q { (plain(&reason)) } }
        }
    }

    /// Returns the steps of a call that ran.
    fn run(&self, event: &AuditEvent, at: Option<SystemTime>) -> Vec<Step> {
        let texts = self.viewer.texts;
        let called = self.began(event, at);
        let confirmed = self
            .events
            .iter()
            .find(|one| one.event_type.as_str() == CONFIRMED && one.trace_id == event.trace_id);
        let started = confirmed.and_then(|one| one.timestamp.to_system_time()).or(called);
        let lasted = at.zip(started).and_then(|(end, start)| end.duration_since(start).ok());
        let mut steps = vec![Step { at: called, name: texts.step_called, what: who(event) }];
        if confirmed.is_some() {
            let what = html! { (texts.ran_as_answered) };
            steps.push(Step { at: started, name: texts.step_started, what });
        }
        let ended = html! {
            (mark(result_word(event)))
            @if let Some(lasted) = lasted { " " (texts.after_word) " " (times::words(lasted)) }
            @if let Some(reason) = reason(event) { ": " (plain(&reason)) }
        };
        steps.push(Step { at, name: texts.step_ended, what: ended });
        steps
    }

    /// Returns the steps of a call that did not run.
    fn refusal(&self, event: &AuditEvent, at: Option<SystemTime>) -> Vec<Step> {
        let texts = self.viewer.texts;
        let is_cancelled = detail::<bool>(event, "cancelled") == Some(true);
        let what = html! {
            @if is_cancelled { (texts.gave_up) } @else { (refusal::words(self.viewer, event)) }
            (links(self.console, self.viewer, self.questions, event))
        };
        vec![
            Step { at: self.began(event, at), name: texts.step_called, what: who(event) },
            Step { at, name: texts.step_not_run, what },
        ]
    }

    /// Returns the last step if the question has no answer: a link to answer it, or a note that the question ended
    /// without an answer.
    fn waiting(&self) -> Option<Markup> {
        let texts = self.viewer.texts;
        let asked = self.events.iter().rfind(|event| event.event_type.as_str() == ASKED)?;
        if self.has(ANSWERED) {
            return None;
        }
        let known = approval_id(asked).and_then(|id| self.questions.get(&id));
        Some(html! {
            @match known.filter(|one| one.state == "open") {
                Some(open) => a href=(url(self.console, &format!("/call/{}", segment(&open.id)))) { (texts.answer_it) },
                None => (texts.no_answer),
            }
        })
    }

    /// Returns the arguments of the call, if its record has them. Otherwise returns their names, and the setting that
    /// makes the audit log keep the arguments of later calls.
    pub(super) fn arguments(&self) -> Markup {
        let texts = self.viewer.texts;
        let calls = [EventType::ToolExecuted, EventType::ToolBlocked];
        let Some(call) = self.events.iter().find(|event| calls.contains(&event.event_type)) else {
            return html! {};
        };
        let kept: mgp_types::Extras = detail(call, "arguments").unwrap_or_default();
        let value = kept.get("value");
        let names: Vec<String> = kept.decode("names").ok().flatten().unwrap_or_default();
        let item = self
            .events
            .iter()
            .find(|event| approval_id(event).is_some_and(|id| self.questions.get(&id).is_some()));
        html! {
            h2 { (texts.arguments_title) }
            @if let Some(value) = value { (inbox::arguments(self.viewer, Some(value.as_str()))) }
            @else {
                @if !names.is_empty() { p { (texts.names) ": " (plain(&names.join(", "))) } }
                p.dim { (texts.arguments_not_kept) " " code { "kernel.audit.arguments = \"full\"" } " " (texts.arguments_key) }
                @if let Some(item) = item { (self.question_link(item)) }
            }
        }
    }
}

/// Returns whether a record is about an approval for later calls.
fn is_for_later(event: &AuditEvent) -> bool {
    approval_id(event).is_some_and(|id| mgp_security::CallApprovals::is_id(&id))
}

/// Returns the agent that called and the called tool.
fn who(event: &AuditEvent) -> Markup {
    html! { (plain(&event.actor.id)) " → " (plain(&target(event))) }
}
