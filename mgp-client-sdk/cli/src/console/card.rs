//! An item of the inbox: a question, the information for deciding it, and its buttons.

use maud::{Markup, html};
use mgp_types::mgp::KernelApproval;

use super::Console;
use super::form::segment;
use super::layout::{enter_guard, field, hidden, hint, in_order, mark, plain, token, url};
use super::operator::Viewer;
use super::questions;
use super::times;
use super::waiting::{Waiting, tool_id};
use crate::commands::approvals::caller;

/// The maximum length of a tool's description in an item of the inbox.
const MAX_DESCRIPTION: usize = 400;

/// The maximum length of a call's arguments in the form that answers several approvals together.
const MAX_ARGUMENTS: usize = 80;

/// Returns the item of the inbox for an approval, with the buttons that answer it.
pub(super) fn card(console: &Console, viewer: &Viewer, waiting: &Waiting) -> Markup {
    let (texts, approval) = (viewer.texts, &waiting.approval);
    let is_call = approval.kind == "call";
    html! {
        article.card aria-labelledby=(format!("a-{}", approval.id)) {
            h2 id=(format!("a-{}", approval.id)) { (heading(viewer, approval)) }
            (facts(viewer, approval))
            (notes(viewer, waiting))
            pre tabindex="0" { (in_order(&approval.question)) }
            @if is_call || approval.kind == "registration" {
                @let whole = if is_call { texts.whole_call } else { texts.whole_request };
                p { a href=(url(console, &format!("/call/{}", segment(&approval.id)))) { (whole) } }
            }
            (answers(console, viewer, approval, "/"))
        }
    }
}

/// Returns the heading of an approval, i.e. which agent or server asks for what.
pub(super) fn heading(viewer: &Viewer, approval: &KernelApproval) -> String {
    let agent = caller(approval);
    let server = approval.server_id.as_deref().unwrap_or("-");
    match (approval.kind.as_str(), &approval.tool) {
        ("call", Some(tool)) => plain(&format!("{agent} → {server}.{tool}")),
        ("registration", _) => plain(&format!("{}: {server}", viewer.texts.registration)),
        (_, Some(tool)) => {
            plain(&format!("{}: {agent} → {server}.{tool}", viewer.texts.permissions))
        }
        _ => plain(&format!("{}: {server}", viewer.texts.permissions)),
    }
}

/// Returns the tool's description, and why the call would be refused now.
pub(super) fn notes(viewer: &Viewer, waiting: &Waiting) -> Markup {
    let texts = viewer.texts;
    html! {
        @if let Some(refusal) = waiting.refusal() { p.failed data-refused { (texts.refused_now) " " (hint(refusal)) } }
        @if let Some(description) = &waiting.description {
            p.means { (texts.own_words) " " q { (in_order(&mgp_types::clip(description, MAX_DESCRIPTION))) } }
        }
    }
}

/// Returns the risk, the permissions and the times of a question.
pub(super) fn facts(viewer: &Viewer, approval: &KernelApproval) -> Markup {
    let texts = viewer.texts;
    let permissions: Vec<String> = approval.permissions.iter().map(ToString::to_string).collect();
    html! {
        dl {
            @if let Some(risk) = &approval.risk_level { dt { (texts.risk) } dd { (mark(risk.as_str())) } }
            @if !permissions.is_empty() { dt { (texts.permissions) } dd { (plain(&permissions.join(" "))) } }
            dt { (texts.since) } dd { (times::moment(approval.asked_at.as_str())) }
            @if let Some(end) = approval.expires_at.as_ref().filter(|_| approval.state == "open") { dt { (texts.until) } dd { (times::moment(end.as_str())) } }
        }
    }
}

/// Returns the form for answering an approval.
pub(super) fn answers(
    console: &Console,
    viewer: &Viewer,
    approval: &KernelApproval,
    page: &str,
) -> Markup {
    let texts = viewer.texts;
    let is_call = approval.kind == "call";
    let (approve, holds) = match approval.kind.as_str() {
        "call" => (texts.approve, None),
        "registration" => (texts.approve_all, Some(texts.registration_holds)),
        _ => (texts.approve_permissions, Some(texts.permissions_hold)),
    };
    html! {
        form.row method="post" action=(url(console, "/decide")) {
            (enter_guard(viewer))
            (token(viewer)) (hidden("id", &approval.id)) (hidden("page", page)) (hidden("seen", &approval.state))
            (field(texts.reason_or_none, "because", "", false))
            button.main name="answer" value="once" { (approve) }
            @if is_call {
                button name="answer" value="hour" { (texts.approve_hour) }
                @if let Some(like) = &approval.like {
                    button name="answer" value="like" title=(plain(like)) { (texts.approve_like) }
                }
            }
            button.bad name="answer" value="deny" { (texts.deny) }
            @if is_call && approval.agent_id.is_some() {
                button.bad name="answer" value="never" { (texts.deny_always) }
            }
        }
        @if is_call { (meanings(viewer, approval)) }
        @if let Some(holds) = holds { p.means { (hint(holds)) } }
    }
}

/// Returns a text about each answer to a call. The text explains to which later calls the answer also applies.
fn meanings(viewer: &Viewer, approval: &KernelApproval) -> Markup {
    let texts = viewer.texts;
    let caller = approval.agent_id.as_deref().unwrap_or(&approval.subject);
    let tool = tool_id(approval).or_else(|| approval.tool.clone()).unwrap_or_default();
    let filled = |text: &str| plain(&fill(text, &[("agent", caller), ("tool", &tool)]));
    html! {
        p.means { (texts.once_means) " " (texts.once_holds) }
        p.means { (texts.hour_means) " " (filled(texts.hour_holds)) }
        @if let Some(like) = &approval.like {
            p.means { (texts.like_means) " " (filled(texts.like_holds)) " " (in_order(like)) "." }
        }
        p.means { (texts.deny_means) " " (texts.deny_holds) }
        @if approval.agent_id.is_some() {
            p.means { (texts.never_means) " " (filled(texts.never_holds)) }
        }
    }
}

/// Replaces each `{name}` of a text by its value; a value is not searched for further names.
pub(super) fn fill(text: &str, values: &[(&str, &str)]) -> String {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        let value = values.iter().find(|(own, _)| *own == name).map_or("", |(_, value)| value);
        filled.extend([before, value]);
        rest = after;
    }
    filled + rest
}

/// Returns the form for answering several approvals together.
pub(super) fn several(console: &Console, viewer: &Viewer, open: &[Waiting]) -> Markup {
    let texts = viewer.texts;
    html! {
        section.card aria-labelledby="several" {
            h2 #several { (texts.several) }
            form method="post" action=(url(console, "/decide")) {
                (enter_guard(viewer))
                (token(viewer)) (hidden("seen", "open"))
                @for one in open {
                    p { label.check {
                        input type="checkbox" name="id" value=(one.approval.id);
                        span {
                            (heading(viewer, &one.approval)) " "
                            @if let Some(risk) = &one.approval.risk_level { (mark(risk.as_str())) " " }
                            @if let Some(arguments) = short_arguments(&one.approval) { code { (arguments) } }
                            @else if one.approval.kind == "call" {
                                // Long arguments would make this list too long, so link to the page that shows them.
                                a href=(url(console, &format!("/call/{}", segment(&one.approval.id)))) { (texts.arguments) }
                            }
                            @if one.refusal().is_some() { " " (mark(texts.refused_mark)) }
                        }
                    } }
                }
                div.row {
                    (field(texts.reason_or_none, "because", "", false))
                    button.main name="answer" value="once" { (texts.approve_all) }
                    button.bad name="answer" value="deny" { (texts.deny) }
                }
            }
        }
    }
}

/// Returns the arguments of a call in one line.
fn short_arguments(approval: &KernelApproval) -> Option<Markup> {
    let text = approval.arguments.as_deref().filter(|_| approval.kind == "call")?;
    Some(in_order(&mgp_types::clip(text, MAX_ARGUMENTS)))
}

/// Returns the state of a question as a coloured word; an approval that was used is shown as `approved`.
pub(super) fn state(approval: &KernelApproval) -> Markup {
    mark(if approval.state == "used" { "approved" } else { &approval.state })
}

/// Returns where a question was answered, e.g. in a terminal or in the console.
pub(super) fn place(viewer: &Viewer, approval: &KernelApproval) -> Markup {
    let place = approval.via.as_deref().and_then(|word| questions::place(viewer, word));
    html! { @if let Some(place) = place { ", " (place) } }
}

/// Returns a link to the page with all steps of the call to which a question belongs.
pub(super) fn story_link(console: &Console, viewer: &Viewer, approval: &KernelApproval) -> Markup {
    html! {
        @if let Some(trace) = &approval.trace_id {
            div { a href=(url(console, &format!("/story/{}", segment(trace)))) { (viewer.texts.story_link) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_in_a_text_is_not_filled_again() {
        let filled = fill("`{agent}` may call `{tool}`.", &[("agent", "{tool}"), ("tool", "a.b")]);
        assert_eq!(filled, "`{tool}` may call `a.b`.");
        assert_eq!(fill("none", &[]), "none");
    }
}
