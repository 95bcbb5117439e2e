//! The page about access: who may use which tool and why, the forms for grants and denials, and the decisions that hold
//! for later calls.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use mgp_types::method::{KernelExplain, KernelPermissions, KernelPermissionsRevoke};
use mgp_types::mgp::{
    AccessEntry, KernelExplainParams, KernelPermission, KernelPermissionChangeParams,
    KernelPermissionsParams, Permission,
};
use mgp_types::{ErrorCode, RawObject};

use super::form::{Form, Posted};
use super::grant::{self, Filled};
use super::layout::{self, field, hidden, hint, mark, plain, table, token, url};
use super::operator::Viewer;
use super::{Console, PageError, Shared, inbox, keys, shown, times};
use crate::backend::Backend;
use crate::commands::access::{self, AccessMatrix, Target};
use crate::commands::permissions::limits;
use crate::exit::{CliResult, Failure};

pub(super) async fn page(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    query: Form,
) -> Response {
    show(&console, &viewer, &query, &Filled::from_query(&query)).await
}

/// Returns the page about access, with its forms filled in as in `filled`.
pub(super) async fn show(
    console: &Console,
    viewer: &Viewer,
    query: &Form,
    filled: &Filled,
) -> Response {
    shown(console, viewer, async {
        let backend = Backend::Kernel(viewer.operator.client.clone());
        let sources = console.sources(viewer).await?;
        let matrix = access::matrix_of_all(&console.global, &sources, &backend).await?;
        let params = KernelPermissionsParams::new();
        let decisions =
            viewer.operator.client.request::<KernelPermissions>(&params).await?.permissions;
        let texts = viewer.texts;
        let body = html! {
            section.card aria-labelledby="why" {
                h2 #why { (texts.what_if) }
                (what_if(console, viewer, query).await?)
            }
            (grant::forms(console, viewer, filled))
            h2 { (texts.matrix) }
            (matrix_table(console, viewer, &matrix))
            h2 #decisions { (texts.decisions) }
            (decisions_table(console, viewer, &decisions))
            (keys::section(console, viewer, &sources).await?)
        };
        Ok(layout::page(console, viewer, "/access", query, &body))
    })
    .await
}

/// Returns the form in which a person asks how the kernel would decide about a call. If an agent and a tool are named,
/// adds the answer.
async fn what_if(console: &Console, viewer: &Viewer, query: &Form) -> Result<Markup, PageError> {
    let texts = viewer.texts;
    let (agent, tool) = (query.text("agent"), query.text("tool"));
    let answer = if agent.is_empty() || tool.is_empty() {
        None
    } else {
        Some(explain(viewer, agent, tool, query.get("arguments")).await)
    };
    Ok(html! {
        form.row method="get" action=(url(console, "/access")) {
            (field(texts.agent, "agent", agent, true))
            (field(texts.tool_example, "tool", tool, true))
            (field(texts.arguments_json, "arguments", query.text("arguments"), false))
            button.main { (texts.ask) }
        }
        @match answer {
            Some(Ok(explained)) => {
                p { (mark(explained.outcome.as_str())) " "
                    code { (plain(&format!("{}.{}", explained.server_id, explained.tool_name))) }
                    @if let Some(reason) = &explained.reason { ": " (hint(reason)) }
                }
                @if explained.code == Some(ErrorCode::ACCESS_DENIED.0) {
                    @let entry = [("for", agent), ("server", &explained.server_id), ("name", &explained.tool_name)];
                    p { a href=(url(console, &format!("/access?{}#grant", Form::of(entry).to_query()))) { (texts.fill_grant) } }
                }
                (inbox::rules(viewer, &explained))
            }
            Some(Err(failure)) => p.failed { (hint(&failure.to_string())) },
            None => {}
        }
    })
}

async fn explain(
    viewer: &Viewer,
    agent: &str,
    tool: &str,
    arguments: Option<&str>,
) -> CliResult<mgp_types::mgp::KernelExplainResult> {
    let mut params = KernelExplainParams::new(agent, tool);
    if let Some(text) = arguments {
        let wrong = |_| Failure::usage(viewer.texts.not_an_object);
        let arguments: RawObject = serde_json::from_str(text).map_err(wrong)?;
        params.arguments = Some(arguments);
    }
    Ok(viewer.operator.client.request::<KernelExplain>(&params).await?)
}

fn matrix_table(console: &Console, viewer: &Viewer, matrix: &AccessMatrix) -> Markup {
    let texts = viewer.texts;
    let heads: Vec<&str> =
        std::iter::once(texts.agent).chain(matrix.servers.iter().map(String::as_str)).collect();
    let rows = html! {
        @for row in &matrix.agents {
            tr {
                th scope="row" { (plain(&row.agent)) }
                @for cell in &row.access { td { (matrix_cell(console, viewer, &row.agent, cell)) } }
            }
        }
    };
    html! {
        (table(texts.matrix, &heads, &rows))
        @if !matrix.left.is_empty() { p.failed { (texts.left_over) " " (plain(&matrix.left.join(", "))) } }
    }
}

/// Returns the access of an agent to a server, and each access entry for it. An entry of the agent itself has a button
/// that removes the entry.
fn matrix_cell(
    console: &Console,
    viewer: &Viewer,
    agent: &str,
    cell: &access::ServerAccess,
) -> Markup {
    let is_default = cell.whole == "default" || cell.is_excluded();
    let whole = if is_default { cell.by_default } else { cell.whole };
    let revoke = |tool: &str| {
        html! {
            form method="post" action=(url(console, "/access/revoke")) {
                (token(viewer)) (hidden("agent", agent)) (hidden("server", &cell.server)) (hidden("tool", tool))
                button.quiet aria-label=(plain(&format!("{} {agent} {} {tool}", viewer.texts.revoke, cell.server))) { (viewer.texts.revoke) }
            }
        }
    };
    html! {
        (mark(whole)) @if is_default && !cell.is_excluded() { span.dim { " " (viewer.texts.by_default) } }
        @for entry in &cell.entries {
            div {
                (mark(entry.permission.as_str())) " "
                (plain(entry.tool_name.as_deref().unwrap_or(viewer.texts.all_tools)))
                // Show the button only for the agent's own entry. An entry of a group or of all agents has a button in
                // its own row.
                @if entry.agent_id == agent { (revoke(entry.tool_name.as_deref().unwrap_or_default())) }
                @else { span.dim { " " (viewer.texts.entry_of) " " (plain(&entry.agent_id)) } }
                (origin(viewer, entry))
            }
        }
    }
}

/// Returns until when an access entry is valid, who made it, and why.
fn origin(viewer: &Viewer, entry: &AccessEntry) -> Markup {
    let texts = viewer.texts;
    html! {
        details.origin {
            summary {
                @match &entry.expires_at {
                    Some(end) => { (texts.until_word) " " (times::moment(end.as_str())) },
                    None => (texts.no_end),
                }
            }
            (texts.by_word) " " (plain(entry.granted_by.as_deref().unwrap_or("-")))
            @if let Some(since) = &entry.granted_at { ", " (times::moment(since.as_str())) }
            @if let Some(reason) = &entry.justification { ": " q { (plain(reason)) } }
        }
    }
}

fn decisions_table(console: &Console, viewer: &Viewer, decisions: &[KernelPermission]) -> Markup {
    let texts = viewer.texts;
    if decisions.is_empty() {
        return html! { p.dim { (texts.none) } };
    }
    let rows = html! {
        @for one in decisions {
            @let server = one.server_id.as_deref().unwrap_or_default();
            tr {
                td { (decided_tools(viewer, one, server)) }
                td { (plain(one.permission.as_str())) @if let Some(limits) = limits(one) { div.dim { (plain(&limits)) } } }
                td { (plain(one.agent_id.as_deref().unwrap_or("*"))) }
                td { (mark(&one.decision)) }
                td { (plain(&one.approved_by)) div.dim { (plain(one.justification.as_deref().unwrap_or_default())) } }
                td.time { @match &one.expires_at { Some(end) => (times::moment(end.as_str())), None => (texts.no_end) } }
                td {
                    @if matches!(one.decision.as_str(), "approved" | "denied") { form method="post" action=(url(console, "/access/withdraw")) {
                        (token(viewer)) (hidden("server", server)) (hidden("permission", one.permission.as_str()))
                        button.quiet aria-label=(plain(&format!("{} {server} {}", texts.revoke, one.permission))) { (texts.revoke) }
                    } }
                }
            }
        }
    };
    let heads = [
        texts.tool,
        texts.permission,
        texts.agent,
        texts.state,
        texts.by,
        texts.until,
        texts.revoke,
    ];
    table(texts.decisions, &heads, &rows)
}

/// Returns the tools to which a decision applies, with their server.
fn decided_tools(viewer: &Viewer, decision: &KernelPermission, server: &str) -> Markup {
    html! {
        @if decision.tools.is_empty() { (plain(server)) ": " (viewer.texts.all_tools) }
        @for tool in decision.tools.iter() { div { (plain(&format!("{server}.{tool}"))) } }
    }
}

/// Removes the access entry about a tool or about a whole server; entries about the tools of that server remain.
pub(super) async fn revoke(State(console): Shared, Posted(form, viewer): Posted) -> Response {
    // The name of an agent can begin or end with white space, which `text` removes.
    let agent = form.all("agent").next().unwrap_or_default();
    let server = form.text("server");
    let backend = Backend::Kernel(viewer.operator.client.clone());
    let target = Target::new(agent, server, form.get("tool"));
    let result = access::revoke_entry(&backend, &target).await;
    let tool = form.get("tool").map(|tool| format!(".{tool}")).unwrap_or_default();
    let done = format!("{agent} {server}{tool}: {}", viewer.texts.revoked);
    console.ended(&viewer, "/access", done, result)
}

/// Ends a permission or its denial, or an approval of later calls.
pub(super) async fn withdraw(State(console): Shared, Posted(form, viewer): Posted) -> Response {
    let (server, permission) = (form.text("server"), form.text("permission"));
    let params = KernelPermissionChangeParams::new(server, vec![Permission::from(permission)]);
    let ended = viewer.operator.client.request::<KernelPermissionsRevoke>(&params).await;
    let done = format!("{server} {permission}: {}", viewer.texts.revoked);
    console.ended(&viewer, "/access", done, ended.map(|_| ()).map_err(Into::into))
}
