//! The inbox: everything that waits for a person, and the forms for answering.

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use mgp_types::method::{
    KernelApprovalsApprove, KernelApprovalsDeny, KernelTools, KernelToolsApprove, KernelToolsReject,
};
use mgp_types::mgp::{
    AccessGrantParams, KernelApproval, KernelApprovalDecisionParams, KernelExplainResult,
    KernelTool, KernelToolDecisionParams, KernelToolsParams, RegistrationStatus, ToolStanding,
};
use mgp_types::{ErrorCode, Extras};

use super::card::{answers, card, facts, heading, notes, place, several, state, story_link};
use super::form::{Form, Posted, segment};
use super::layout::{
    self, NO_ANSWER, Notice, command, enter_guard, field, hidden, hint, in_order, mark, plain,
    table, token, url,
};
use super::live::{count_waiting, waiting_definitions};
use super::operator::Viewer;
use super::questions::{Questions, approvals, whole_approval};
use super::record::{self, Filter};
use super::terminal;
use super::times;
use super::waiting::Waiting;
use super::{Console, PageError, Shared, shown};
use crate::commands::approvals::already_decided;
use crate::commands::audit::Entry;
use crate::commands::callbacks::open_questions;
use crate::commands::tools::needs_decision;
use crate::commands::transactions;
use crate::exit::{CliResult, Failure};
use crate::state_option::shell_word_or;

/// The maximum number of earlier records about the tool that the page of a call shows.
const EARLIER: u64 = 8;

/// The maximum number of decided approvals that the inbox shows.
const MAX_DECIDED: u64 = 10;

/// The maximum number of blank lines in succession in a text that is shown with its line breaks.
const MAX_BLANK_LINES: usize = 5;

pub(super) async fn page(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    query: Form,
) -> Response {
    shown(&console, &viewer, async {
        let all = approvals(&viewer, MAX_DECIDED).await?;
        // Leave out approvals in the state `later`: the operator is asked about them only once their server is ready.
        let known = all.iter().filter(|one| one.state != "later");
        let (open, decided): (Vec<_>, Vec<_>) = known.partition(|one| one.state == "open");
        let client = &viewer.operator.client;
        let definitions = waiting_definitions(client).await?;
        let questions = open_questions(client).await?;
        let stuck = transactions::stuck(client).await?;
        let count = open.len() + definitions.len() + questions.len() + stuck.len();
        viewer.operator.live.set_waiting(count);
        let open = Waiting::all(&viewer, &open).await;
        let texts = viewer.texts;
        let body = html! {
            @if count == 0 { div.empty { b { (texts.nothing_waits) } (texts.nothing_waits_hint) } }
            @for one in &questions { (terminal::question(&viewer, one)) }
            @for one in &open { (card(&console, &viewer, one)) }
            @if open.len() > 1 { (several(&console, &viewer, &open)) }
            @for one in &stuck { (terminal::transaction(&viewer, one)) }
            @if !definitions.is_empty() {
                h2 #definitions { (texts.changed_definitions) }
                @for tool in &definitions { (definition(&console, &viewer, tool)) }
            }
            @if !decided.is_empty() {
                h2 { (texts.decided) }
                (decided_table(&console, &viewer, &decided))
            }
        };
        Ok(layout::page(&console, &viewer, "/", &query, &body))
    })
    .await
}

fn decided_table(console: &Console, viewer: &Viewer, decided: &[&KernelApproval]) -> Markup {
    let texts = viewer.texts;
    let rows = html! {
        @for one in decided.iter().rev() {
            tr {
                td {
                    @if one.kind == "call" {
                        a href=(url(console, &format!("/call/{}", segment(&one.id)))) { (heading(viewer, one)) }
                    } @else { (heading(viewer, one)) }
                }
                td { (state(one)) }
                td { (plain(one.decided_by.as_deref().unwrap_or("-"))) (place(viewer, one)) }
                td { (plain(one.justification.as_deref().unwrap_or_default())) (story_link(console, viewer, one)) }
            }
        }
    };
    table(texts.decided, &[texts.subject, texts.state, texts.by, texts.reason], &rows)
}

/// Returns a definition that waits: its findings and differences, and its buttons.
fn definition(console: &Console, viewer: &Viewer, tool: &KernelTool) -> Markup {
    let texts = viewer.texts;
    let name = tool.tool_id.strip_prefix(&format!("{}.", tool.server_id)).unwrap_or(&tool.name);
    html! {
        article.card aria-label=(plain(&tool.tool_id)) {
            h2 { (plain(&tool.tool_id)) " " (mark(tool.standing.as_str())) }
            @let whole = format!("/definition/{}", segment(&tool.tool_id));
            p { a href=(url(console, &whole)) { (texts.whole_definition) } }
            ul { @for reason in &tool.reasons { li { (in_order(reason)) } } }
            @if let Some(description) = &tool.description { pre tabindex="0" { (in_order(description)) } }
            form.row method="post" action=(url(console, "/definitions")) {
                (enter_guard(viewer))
                (token(viewer)) (hidden("server", &tool.server_id)) (hidden("tool", name))
                (hidden("fingerprint", tool.fingerprint.as_deref().unwrap_or_default()))
                (hidden("seen", tool.standing.as_str()))
                (field(texts.reason_or_none, "because", "", false))
                button.main name="answer" value="approve" { (texts.approve_definition) }
                button.bad name="answer" value="reject" { (texts.reject) }
            }
        }
    }
}

/// Shows one call with its complete arguments, and everything else that a decision needs.
pub(super) async fn call(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    Path(id): Path<String>,
    query: Form,
) -> Response {
    shown(&console, &viewer, async {
        let Some(approval) = whole_approval(&viewer, &id).await? else {
            let reason = viewer.texts.no_approval.to_owned();
            return Err(PageError(axum::http::StatusCode::NOT_FOUND, reason));
        };
        let waiting = Waiting::of_whole(&viewer, approval).await;
        let approval = &waiting.approval;
        let earlier = earlier(&viewer, approval).await?;
        let questions = Questions::of(&viewer, &earlier).await;
        let page = format!("/call/{}", segment(&id));
        let texts = viewer.texts;
        let body = html! {
            section.card {
                h2 { (heading(&viewer, approval)) " " (state(approval)) }
                (facts(&viewer, approval))
                @if approval.state == "open" { (notes(&viewer, &waiting)) }
                // Show the arguments above the buttons, so that a person sees them before answering.
                @if approval.kind == "call" || approval.arguments.is_some() {
                    h2 { (if approval.kind == "call" { texts.arguments } else { texts.sent_script }) }
                    (arguments(&viewer, approval.arguments.as_deref()))
                }
                @if approval.state == "open" { (answers(&console, &viewer, approval, &page)) }
                @else if let Some(by) = &approval.decided_by {
                    p { (texts.decided_by) " " (plain(by)) (place(&viewer, approval)) @if let Some(reason) = &approval.justification { ": " (plain(reason)) } }
                }
                @if approval.state == "denied" && approval.kind == "call" {
                    p { (texts.take_back) " " (command(&format!("mgp approvals approve {}", approval.id))) }
                }
                (story_link(&console, &viewer, approval))
            }
            h2 { (texts.question) }
            pre tabindex="0" { (in_order(&approval.question)) }
            @if let Some(explained) = &waiting.explained {
                h2 { (texts.rules) }
                (rules(&viewer, explained))
            }
            h2 { (if approval.kind == "call" { texts.earlier_calls } else { texts.earlier_records }) }
            (record::rows(&console, &viewer, &questions, &Entry::each(&earlier)))
        };
        Ok(layout::page(&console, &viewer, "/", &query, &body))
    })
    .await
}

/// Shows one definition that waits for a decision.
pub(super) async fn one_definition(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    Path(id): Path<String>,
    query: Form,
) -> Response {
    shown(&console, &viewer, async {
        let mut params = KernelToolsParams::new();
        params.tool_id = Some(id.clone());
        let found = viewer.operator.client.request::<KernelTools>(&params).await?.tools;
        let texts = viewer.texts;
        let body = html! {
            @if let Some(tool) = found.iter().find(|tool| needs_decision(tool)) {
                (definition(&console, &viewer, tool))
                @if let Some(whole) = &tool.definition { pre.whole tabindex="0" { (in_order(whole)) } }
            } @else if let Some(tool) = found.first() {
                p.dim { code { (plain(&id)) } ": " (texts.no_definition) }
                (settled_definition(&viewer, tool))
            } @else {
                p.dim { code { (plain(&id)) } ": " (texts.tool_missing) }
            }
        };
        Ok(layout::page(&console, &viewer, "/", &query, &body))
    })
    .await
}

/// Returns the section about a tool whose definition needs no decision.
fn settled_definition(viewer: &Viewer, tool: &KernelTool) -> Markup {
    let texts = viewer.texts;
    html! {
        article.card aria-label=(plain(&tool.tool_id)) {
            h2 { (plain(&tool.tool_id)) " " (mark(tool.standing.as_str())) }
            dl { dt { (texts.risk) } dd { (mark(tool.risk_level.as_str())) } }
            @if tool.standing == ToolStanding::Rejected {
                @let name = shell_word_or("TOOL", &tool.tool_id);
                p { (texts.take_back_rejection) " " (command(&format!("mgp tools approve {name}"))) }
            }
            @if let Some(whole) = &tool.definition { pre.whole tabindex="0" { (in_order(whole)) } }
        }
    }
}

/// Returns all arguments, each with its name and its whole value.
pub(super) fn arguments(viewer: &Viewer, arguments: Option<&str>) -> Markup {
    let Some(text) = arguments else { return html! { p.dim { (viewer.texts.none) } } };
    let members = serde_json::from_str::<Extras>(text).ok();
    html! {
        p.dim { (text.len()) " " (viewer.texts.bytes) }
        @match &members {
            Some(members) => dl {
                @for (name, value) in members.iter() {
                    dt { (in_order(name)) }
                    dd { pre.whole tabindex="0" { (in_order(&shown_value(value.as_str()))) } }
                }
            },
            None => pre.whole tabindex="0" { (in_order(text)) },
        }
    }
}

/// Returns the form in which the page shows a JSON value: a text of several lines, e.g. a script, with its line breaks,
/// and any other value as JSON. A text with many blank lines in succession is also shown as JSON, because these lines
/// would push the text after them out of view.
fn shown_value(value: &str) -> String {
    let is_readable = |text: &String| text.contains('\n') && !has_gap(text);
    let text = serde_json::from_str::<String>(value).ok().filter(is_readable);
    text.unwrap_or_else(|| value.to_owned())
}

/// Returns whether a text has more than `MAX_BLANK_LINES` blank lines in succession.
fn has_gap(text: &str) -> bool {
    let mut blank = 0;
    text.lines().any(|line| {
        blank = if line.trim().is_empty() { blank + 1 } else { 0 };
        blank > MAX_BLANK_LINES
    })
}

/// Returns the rules of a decision as a table.
pub(super) fn rules(viewer: &Viewer, explained: &KernelExplainResult) -> Markup {
    let texts = viewer.texts;
    let rows = html! {
        @for step in &explained.steps {
            tr { td { (step.stage) } td { (mark(step.result.as_str())) } td { (hint(&step.rule)) } }
        }
    };
    table(texts.rules, &[texts.stage, texts.result, texts.rule], &rows)
}

/// Returns the newest audit events about the tool that an approval concerns.
async fn earlier(
    viewer: &Viewer,
    approval: &KernelApproval,
) -> Result<Vec<mgp_types::mgp::AuditEvent>, PageError> {
    let filter = Filter {
        server: approval.server_id.clone(),
        tool: approval.tool.clone(),
        ..Filter::default()
    };
    Ok(record::read(viewer, &filter, EARLIER, None).await?.events)
}

/// Answers one approval, or several.
pub(super) async fn decide(State(console): Shared, Posted(form, viewer): Posted) -> Response {
    let mut page = form.get("page").filter(|page| page.starts_with("/call/")).unwrap_or("/");
    if form.text("answer") == NO_ANSWER {
        return console.done(&viewer, page, &unanswered(&viewer));
    }
    let ids: Vec<&str> = form.all("id").collect();
    let (mut done, mut failed, mut is_lasting) = (Vec::new(), Vec::new(), false);
    for id in &ids {
        match answer(&viewer, id, &form).await {
            Ok(Notice::Failed(text)) => failed.push(text),
            Ok(Notice::Done(text)) => done.push(text),
            Ok(Notice::Lasting(text)) => {
                done.push(text);
                is_lasting = true;
            }
            Err(failure) => failed.push(match whole_approval(&viewer, id).await {
                Ok(Some(known)) => format!("{}: {failure}", heading(&viewer, &known)),
                _ => failure.to_string(),
            }),
        }
    }
    if let Ok(count) = count_waiting(&viewer.operator.client).await {
        viewer.operator.live.set_waiting(count);
    }
    // Redirect to the inbox if the approval was about a registration: the kernel forgets a decided registration, so its
    // page no longer exists.
    if let [id] = ids[..]
        && matches!(whole_approval(&viewer, id).await, Ok(None))
    {
        page = "/";
    }
    let notice = if ids.is_empty() {
        Notice::Failed(viewer.texts.nothing_chosen.to_owned())
    } else if !failed.is_empty() {
        // Put the failures first, because a long notice is cut at its end.
        Notice::Failed([failed, done].concat().join("; "))
    } else if is_lasting {
        Notice::Lasting(done.join("; "))
    } else {
        Notice::Done(done.join("; "))
    };
    console.done(&viewer, page, &notice)
}

/// Returns the notice that nothing was changed, for a form that was sent with Enter instead of a button.
fn unanswered(viewer: &Viewer) -> Notice {
    Notice::Failed(viewer.texts.press_button.to_owned())
}

/// Answers one approval, and returns the decision; the kernel refuses the answer if another operator has already
/// decided.
async fn answer(viewer: &Viewer, id: &str, form: &Form) -> CliResult<Notice> {
    let mut params = KernelApprovalDecisionParams::new(id);
    params.because = form.get("because").map(str::to_owned);
    params.via = Some("page".to_owned());
    // Send the state that the page showed, because an answer without it also takes back a denial.
    params.expected = form.get("seen").map(str::to_owned);
    let texts = viewer.texts;
    let word = match form.text("answer") {
        "once" => texts.allowed_once,
        "hour" => {
            let end = times::future("1h").map_err(Failure::usage)?;
            (params.term, params.until) = (Some("tool".to_owned()), Some(end.into()));
            texts.allowed_hour
        }
        "like" => {
            params.term = Some("like".to_owned());
            texts.allowed_like
        }
        "deny" => {
            let denied = deny(viewer, &params).await?;
            let word = match denied.kind.as_str() {
                "call" | "registration" => texts.denied,
                _ => texts.denied_permissions,
            };
            return Ok(Notice::Done(format!("{}: {word}", heading(viewer, &denied))));
        }
        "never" => return deny_always(viewer, &params).await.map(Notice::Done),
        _ => return Err(Failure::usage("choose an answer")),
    };
    approve(viewer, &params, word).await
}

/// Approves a call, permissions or a server. If the kernel refuses the call although it is approved, e.g. because its
/// agent has lost access, the notice shows that.
async fn approve(
    viewer: &Viewer,
    params: &KernelApprovalDecisionParams,
    word: &str,
) -> CliResult<Notice> {
    let waiting = match whole_approval(viewer, &params.id).await.unwrap_or_default() {
        Some(whole) => Some(Waiting::of_whole(viewer, whole).await),
        None => None,
    };
    let decided = match viewer.operator.client.request::<KernelApprovalsApprove>(params).await {
        Ok(decided) => decided,
        Err(error) => return Err(refused(viewer, params, error).await),
    };
    if let (Some(RegistrationStatus::Error), Some(message)) = (&decided.status, &decided.message) {
        return Err(Failure::failed(message));
    }
    let word = match decided.approval.kind.as_str() {
        "call" | "registration" => word,
        _ => viewer.texts.granted,
    };
    let word = decided.status.as_ref().map_or(word, RegistrationStatus::as_str);
    let mut done = format!("{}: {word}", heading(viewer, &decided.approval));
    if let Some(message) = &decided.message {
        done.extend(["; ", message]);
    }
    Ok(match waiting.as_ref().and_then(Waiting::refusal) {
        Some(refusal) => Notice::Failed(format!("{done}, {} {refusal}", viewer.texts.but_refused)),
        None if params.term.is_some() => Notice::Lasting(done),
        None => Notice::Done(done),
    })
}

/// Returns the failure of an answer that the kernel refused. If the approval no longer has the state that the page
/// showed, the failure names the earlier decision.
async fn refused(
    viewer: &Viewer,
    params: &KernelApprovalDecisionParams,
    error: mgp_client_sdk::Error,
) -> Failure {
    let is_refused = error.code() == ErrorCode::INVALID_PARAMS;
    let Some(seen) = params.expected.as_ref().filter(|_| is_refused) else { return error.into() };
    match whole_approval(viewer, &params.id).await {
        Ok(Some(now)) if now.state != *seen => already_decided(&now),
        Ok(None) => Failure::failed(viewer.texts.no_longer_waits),
        _ => error.into(),
    }
}

async fn deny(viewer: &Viewer, params: &KernelApprovalDecisionParams) -> CliResult<KernelApproval> {
    match viewer.operator.client.request::<KernelApprovalsDeny>(params).await {
        Ok(decided) => Ok(decided.approval),
        Err(error) => Err(refused(viewer, params, error).await),
    }
}

/// Denies a call. Also denies the agent that made the call all later calls of the tool.
async fn deny_always(viewer: &Viewer, params: &KernelApprovalDecisionParams) -> CliResult<String> {
    let denied = deny(viewer, params).await?;
    let (done, texts) = (heading(viewer, &denied), viewer.texts);
    let (Some(agent), Some(server), Some(tool)) = (denied.agent_id, denied.server_id, denied.tool)
    else {
        return Ok(format!("{done}: {}", texts.denied));
    };
    let mut entry = AccessGrantParams::deny(agent, server).tool(tool);
    if let Some(because) = &params.because {
        entry = entry.because(because);
    }
    viewer.operator.client.mgp().access_grant(&entry).await?;
    Ok(format!("{done}: {}", texts.denied_always))
}

/// Approves or rejects a definition, if it is still the definition that the page showed.
pub(super) async fn decide_definitions(
    State(console): Shared,
    Posted(form, viewer): Posted,
) -> Response {
    if form.text("answer") == NO_ANSWER {
        return console.done(&viewer, "/", &unanswered(&viewer));
    }
    let mut params = KernelToolDecisionParams::new(form.text("server"), form.text("tool"));
    // Send the fingerprint that the page showed, so that the kernel does not approve a definition that has changed
    // since.
    params.fingerprint = form.get("fingerprint").map(str::to_owned);
    params.because = form.get("because").map(str::to_owned);
    // Send the state that the page showed, so that the kernel does not approve a definition that was rejected since.
    params.expected = form.get("seen").map(ToolStanding::from);
    let (name, texts) = (format!("{}.{}", params.server_id, params.tool), viewer.texts);
    let decided = async {
        match form.text("answer") {
            "approve" => viewer.operator.client.request::<KernelToolsApprove>(&params).await?,
            "reject" => viewer.operator.client.request::<KernelToolsReject>(&params).await?,
            _ => return Err(Failure::usage("choose an answer")),
        };
        Ok(())
    };
    let result = decided.await;
    let is_approved = form.text("answer") == "approve";
    let word = if is_approved { texts.definition_approved } else { texts.definition_rejected };
    console.ended(&viewer, "/", format!("{name}: {word}"), result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_whose_blank_lines_hide_its_end_is_shown_as_json() {
        let value = |blank: &str| serde_json::json!(format!("ls\n{blank}rm -rf /")).to_string();
        assert_eq!(shown_value(&value("\n\n")), "ls\n\n\nrm -rf /");
        for blank in ["\n".repeat(9), " \t\n".repeat(9), "\r\n".repeat(9)] {
            assert_eq!(shown_value(&value(&blank)), value(&blank));
        }
        assert_eq!(shown_value("{\"a\": 1}"), "{\"a\": 1}");
    }
}
