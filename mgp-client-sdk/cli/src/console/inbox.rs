//! The inbox: everything that waits for a person, and its answers.

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use mgp_types::Extras;
use mgp_types::method::{
    KernelApprovalsApprove, KernelApprovalsDeny, KernelExplain, KernelTools, KernelToolsApprove,
    KernelToolsReject,
};
use mgp_types::mgp::{
    AccessGrantParams, KernelApproval, KernelApprovalDecisionParams, KernelExplainParams,
    KernelExplainResult, KernelTool, KernelToolDecisionParams, KernelToolsParams,
    RegistrationStatus,
};

use super::form::{Form, Posted, segment};
use super::layout::{self, Notice, field, hidden, mark, plain, table, token, url};
use super::live::waiting_definitions;
use super::operator::Viewer;
use super::questions::{self, Questions, approvals};
use super::record::{self, Filter};
use super::{Console, PageError, Shared, shown};
use crate::commands::tools::needs_decision;
use crate::exit::{CliResult, Failure};
use crate::time_args;

/// The maximum number of earlier records about the tool that the page of a call shows.
const EARLIER: u64 = 8;

/// The maximum number of decided approvals that the inbox shows.
const MAX_DECIDED: usize = 10;

pub(super) async fn page(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    query: Form,
) -> Response {
    shown(&console, &viewer, async {
        let all = approvals(&viewer, None).await?;
        // A review that waits for its server neither waits for a person nor is decided.
        let known = all.iter().filter(|one| one.state != "later");
        let (open, decided): (Vec<_>, Vec<_>) = known.partition(|one| one.state == "open");
        let definitions = waiting_definitions(&viewer.operator.client).await?;
        viewer.operator.live.set_waiting(open.len() + definitions.len());
        let texts = viewer.texts;
        let body = html! {
            @if open.is_empty() && definitions.is_empty() { div.empty { b { (texts.nothing_waits) } (texts.nothing_waits_hint) } }
            @for approval in &open { (card(&console, &viewer, approval)) }
            @if open.len() > 1 { (several(&console, &viewer, &open)) }
            @if !definitions.is_empty() {
                h2 { (texts.changed_definitions) }
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

/// Returns an approval with its buttons.
fn card(console: &Console, viewer: &Viewer, approval: &KernelApproval) -> Markup {
    let texts = viewer.texts;
    let is_call = approval.kind == "call";
    html! {
        section.card aria-labelledby=(format!("a-{}", approval.id)) {
            h2 id=(format!("a-{}", approval.id)) { (heading(viewer, approval)) }
            (facts(viewer, approval))
            pre { (plain(&approval.question)) }
            @if is_call || approval.kind == "registration" {
                p { a href=(url(console, &format!("/call/{}", segment(&approval.id)))) { (texts.whole_call) } }
            }
            (answers(console, viewer, approval, "/"))
        }
    }
}

fn heading(viewer: &Viewer, approval: &KernelApproval) -> String {
    let agent = approval.agent_id.as_deref().unwrap_or(&approval.subject);
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

fn facts(viewer: &Viewer, approval: &KernelApproval) -> Markup {
    let texts = viewer.texts;
    let permissions: Vec<String> = approval.permissions.iter().map(ToString::to_string).collect();
    html! {
        dl {
            @if let Some(risk) = &approval.risk_level { dt { (texts.risk) } dd { (mark(risk.as_str())) } }
            @if !permissions.is_empty() { dt { (texts.permissions) } dd { (plain(&permissions.join(" "))) } }
            dt { (texts.since) } dd { (record::short_time(approval.asked_at.as_str())) " UTC" }
            @if let Some(end) = approval.expires_at.as_ref().filter(|_| approval.state == "open") { dt { (texts.until) } dd { (record::short_time(end.as_str())) " UTC" } }
        }
    }
}

/// Returns the form with which an operator answers an approval.
fn answers(console: &Console, viewer: &Viewer, approval: &KernelApproval, page: &str) -> Markup {
    let texts = viewer.texts;
    let is_call = approval.kind == "call";
    html! {
        form.row method="post" action=(url(console, "/decide")) {
            (token(viewer)) (hidden("id", &approval.id)) (hidden("page", page))
            (field(texts.reason, "because", "", false))
            button.main name="answer" value="once" { (texts.approve) }
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
        @if let Some(like) = approval.like.as_ref().filter(|_| is_call) {
            p.dim { (texts.like_means) " " (plain(like)) }
        }
    }
}

/// Returns the form with which an operator answers several approvals at once.
fn several(console: &Console, viewer: &Viewer, open: &[&KernelApproval]) -> Markup {
    let texts = viewer.texts;
    html! {
        section.card aria-labelledby="several" {
            h2 #several { (texts.several) }
            form method="post" action=(url(console, "/decide")) {
                (token(viewer))
                @for approval in open {
                    p { label.check {
                        input type="checkbox" name="id" value=(approval.id);
                        span { (heading(viewer, approval)) }
                    } }
                }
                div.row {
                    (field(texts.reason, "because", "", false))
                    button.main name="answer" value="once" { (texts.approve) }
                    button.bad name="answer" value="deny" { (texts.deny) }
                }
            }
        }
    }
}

fn decided_table(console: &Console, viewer: &Viewer, decided: &[&KernelApproval]) -> Markup {
    let texts = viewer.texts;
    let rows = html! {
        @for one in decided.iter().rev().take(MAX_DECIDED) {
            tr {
                td {
                    @if one.kind == "call" {
                        a href=(url(console, &format!("/call/{}", segment(&one.id)))) { (heading(viewer, one)) }
                    } @else { (heading(viewer, one)) }
                }
                td { (mark(&one.state)) }
                td { (plain(one.decided_by.as_deref().unwrap_or("-"))) (place(viewer, one)) }
                td { (plain(one.justification.as_deref().unwrap_or_default())) (story_link(console, viewer, one)) }
            }
        }
    };
    table(texts.decided, &[texts.subject, texts.state, texts.by, texts.reason], &rows)
}

/// Returns where a question was answered.
fn place(viewer: &Viewer, approval: &KernelApproval) -> Markup {
    let place = approval.via.as_deref().and_then(|word| questions::place(viewer, word));
    html! { @if let Some(place) = place { ", " (place) } }
}

/// Returns the link to the story of the call that a question is about.
fn story_link(console: &Console, viewer: &Viewer, approval: &KernelApproval) -> Markup {
    html! {
        @if let Some(trace) = &approval.trace_id {
            div { a href=(url(console, &format!("/story/{}", segment(trace)))) { (viewer.texts.story_link) } }
        }
    }
}

/// Returns a definition that waits: its findings and differences, and its buttons.
fn definition(console: &Console, viewer: &Viewer, tool: &KernelTool) -> Markup {
    let texts = viewer.texts;
    let name = tool.tool_id.strip_prefix(&format!("{}.", tool.server_id)).unwrap_or(&tool.name);
    html! {
        section.card aria-label=(plain(&tool.tool_id)) {
            h2 { (plain(&tool.tool_id)) " " (mark(tool.standing.as_str())) }
            @let whole = format!("/definition/{}", segment(&tool.tool_id));
            p { a href=(url(console, &whole)) { (texts.whole_definition) } }
            ul { @for reason in &tool.reasons { li { (plain(reason)) } } }
            @if let Some(description) = &tool.description { pre { (plain(description)) } }
            form.row method="post" action=(url(console, "/definitions")) {
                (token(viewer)) (hidden("server", &tool.server_id)) (hidden("tool", name))
                (hidden("fingerprint", tool.fingerprint.as_deref().unwrap_or_default()))
                (field(texts.reason, "because", "", false))
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
        let found = approvals(&viewer, Some(&id)).await?.into_iter().next();
        let Some(approval) = found else {
            let reason = viewer.texts.no_approval.to_owned();
            return Err(PageError(axum::http::StatusCode::NOT_FOUND, reason));
        };
        let explained = explained(&viewer, &approval).await;
        let earlier = earlier(&viewer, &approval).await?;
        let questions = Questions::of(&viewer, &earlier).await;
        let page = format!("/call/{}", segment(&id));
        let texts = viewer.texts;
        let body = html! {
            section.card {
                h2 { (heading(&viewer, &approval)) " " (mark(&approval.state)) }
                (facts(&viewer, &approval))
                @if approval.state == "open" { (answers(&console, &viewer, &approval, &page)) }
                @else if let Some(by) = &approval.decided_by {
                    p { (texts.decided_by) " " (plain(by)) (place(&viewer, &approval)) @if let Some(reason) = &approval.justification { ": " (plain(reason)) } }
                }
                (story_link(&console, &viewer, &approval))
            }
            h2 { (texts.arguments) }
            (arguments(&viewer, approval.arguments.as_deref()))
            h2 { (texts.question) }
            pre { (plain(&approval.question)) }
            @if let Some(explained) = &explained {
                h2 { (texts.rules) }
                (rules(&viewer, explained))
            }
            h2 { (texts.earlier_calls) }
            (record::rows(&console, &viewer, &questions, &earlier))
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
                @if let Some(whole) = &tool.definition { pre.whole { (plain(whole)) } }
            } @else {
                p.dim { code { (plain(&id)) } ": " (texts.no_definition) }
                @if let Some(tool) = found.first() { (settled_definition(&viewer, tool)) }
            }
        };
        Ok(layout::page(&console, &viewer, "/", &query, &body))
    })
    .await
}

/// Returns a definition that needs no decision.
fn settled_definition(viewer: &Viewer, tool: &KernelTool) -> Markup {
    let texts = viewer.texts;
    html! {
        section.card aria-label=(plain(&tool.tool_id)) {
            h2 { (plain(&tool.tool_id)) " " (mark(tool.standing.as_str())) }
            dl { dt { (texts.risk) } dd { (mark(tool.risk_level.as_str())) } }
            @if let Some(whole) = &tool.definition { pre.whole { (plain(whole)) } }
        }
    }
}

/// Returns all arguments, a member each; nothing is left out.
pub(super) fn arguments(viewer: &Viewer, arguments: Option<&str>) -> Markup {
    let Some(text) = arguments else { return html! { p.dim { (viewer.texts.none) } } };
    let members = serde_json::from_str::<Extras>(text).ok();
    html! {
        p.dim { (text.len()) " " (viewer.texts.bytes) }
        @match &members {
            Some(members) => dl {
                @for (name, value) in members.iter() {
                    dt { (plain(name)) }
                    dd { pre.whole { (plain(&shown_value(value.as_str()))) } }
                }
            },
            None => pre.whole { (plain(text)) },
        }
    }
}

/// Returns a value as JSON; a text of several lines, e.g. a script, is returned with its line breaks.
fn shown_value(value: &str) -> String {
    let text = serde_json::from_str::<String>(value).ok().filter(|text| text.contains('\n'));
    text.unwrap_or_else(|| value.to_owned())
}

/// Returns how the kernel would now decide about the call that an approval is for.
async fn explained(viewer: &Viewer, approval: &KernelApproval) -> Option<KernelExplainResult> {
    let (server, tool) = (approval.server_id.as_deref()?, approval.tool.as_deref()?);
    let mut params =
        KernelExplainParams::new(approval.agent_id.as_deref()?, format!("{server}.{tool}"));
    params.arguments =
        approval.arguments.as_deref().and_then(|text| serde_json::from_str(text).ok());
    viewer.operator.client.request::<KernelExplain>(&params).await.ok()
}

/// Returns the rules of a decision as a table.
pub(super) fn rules(viewer: &Viewer, explained: &KernelExplainResult) -> Markup {
    let texts = viewer.texts;
    let rows = html! {
        @for step in &explained.steps {
            tr { td { (step.stage) } td { (mark(step.result.as_str())) } td { (plain(&step.rule)) } }
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
    let page = form.get("page").filter(|page| page.starts_with("/call/")).unwrap_or("/");
    let ids: Vec<&str> = form.all("id").collect();
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for id in &ids {
        match answer(&viewer, id, &form).await {
            Ok(answered) => done.push(answered),
            Err(failure) => failed.push(format!("{id}: {failure}")),
        }
    }
    let client = &viewer.operator.client;
    if let (Ok(left), Ok(definitions)) =
        (approvals(&viewer, None).await, waiting_definitions(client).await)
    {
        let open = left.iter().filter(|one| one.state == "open").count();
        viewer.operator.live.set_waiting(open + definitions.len());
    }
    let notice = if ids.is_empty() {
        Notice::Failed(viewer.texts.nothing_chosen.to_owned())
    } else if failed.is_empty() {
        Notice::Done(done.join("; "))
    } else {
        Notice::Failed([done, failed].concat().join("; "))
    };
    console.done(page, &notice)
}

/// Answers one approval, and returns the decision; the kernel refuses the answer if another operator has already
/// decided.
async fn answer(viewer: &Viewer, id: &str, form: &Form) -> CliResult<String> {
    let mut params = KernelApprovalDecisionParams::new(id);
    params.because = form.get("because").map(str::to_owned);
    params.via = Some("page".to_owned());
    let (client, texts) = (&viewer.operator.client, viewer.texts);
    let word = match form.text("answer") {
        "once" => texts.allowed_once,
        "hour" => {
            let end = time_args::future("1h").map_err(Failure::usage)?;
            (params.term, params.until) = (Some("tool".to_owned()), Some(end.into()));
            texts.allowed_hour
        }
        "like" => {
            params.term = Some("like".to_owned());
            texts.allowed_like
        }
        "deny" => {
            let denied = client.request::<KernelApprovalsDeny>(&params).await?.approval;
            return Ok(format!("{}: {}", heading(viewer, &denied), texts.denied));
        }
        "never" => return deny_always(viewer, &params).await,
        _ => return Err(Failure::usage("choose an answer")),
    };
    let decided = client.request::<KernelApprovalsApprove>(&params).await?;
    match (decided.status, decided.message) {
        (Some(RegistrationStatus::Error), Some(message)) => Err(Failure::failed(message)),
        (status, _) => {
            let word = status.as_ref().map_or(word, RegistrationStatus::as_str);
            Ok(format!("{}: {word}", heading(viewer, &decided.approval)))
        }
    }
}

/// Denies a call, and also denies its agent the tool from now on.
async fn deny_always(viewer: &Viewer, params: &KernelApprovalDecisionParams) -> CliResult<String> {
    let denied = viewer.operator.client.request::<KernelApprovalsDeny>(params).await?.approval;
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

/// Approves or rejects a definition, if it is still the one that the page showed.
pub(super) async fn decide_definitions(
    State(console): Shared,
    Posted(form, viewer): Posted,
) -> Response {
    let mut params = KernelToolDecisionParams::new(form.text("server"), form.text("tool"));
    // The fingerprint prevents the approval of a definition that has changed since the page was made.
    params.fingerprint = form.get("fingerprint").map(str::to_owned);
    params.because = form.get("because").map(str::to_owned);
    let decided = async {
        match form.text("answer") {
            "approve" => viewer.operator.client.request::<KernelToolsApprove>(&params).await?,
            "reject" => viewer.operator.client.request::<KernelToolsReject>(&params).await?,
            _ => return Err(Failure::usage("choose an answer")),
        };
        Ok(())
    };
    let name = format!("{}.{}", params.server_id, params.tool);
    let result = decided.await;
    console.ended("/", name, result)
}
