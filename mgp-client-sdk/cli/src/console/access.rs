//! Access: who may use which tool and why, grants and denials, and the decisions that hold for later calls.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use mgp_types::RawObject;
use mgp_types::method::{KernelExplain, KernelPermissions, KernelPermissionsRevoke};
use mgp_types::mgp::{
    AccessGrantParams, KernelExplainParams, KernelPermission, KernelPermissionChangeParams,
    KernelPermissionsParams, Permission,
};

use super::form::{Form, Posted};
use super::layout::{self, field, hidden, mark, plain, table, token, url};
use super::operator::Viewer;
use super::{Console, PageError, Shared, inbox, keys, shown};
use crate::backend::Backend;
use crate::commands::access::{self, AccessMatrix, Target};
use crate::exit::{CliResult, Failure};
use crate::time_args;

pub(super) async fn page(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    query: Form,
) -> Response {
    shown(&console, &viewer, async {
        let backend = Backend::Kernel(viewer.operator.client.clone());
        let config = console.config(&viewer).await?;
        let matrix = access::matrix_of_all(&console.global, &config, &backend).await?;
        let params = KernelPermissionsParams::new();
        let decisions =
            viewer.operator.client.request::<KernelPermissions>(&params).await?.permissions;
        let texts = viewer.texts;
        let body = html! {
            section.card aria-labelledby="why" {
                h2 #why { (texts.what_if) }
                (what_if(&console, &viewer, &query).await?)
            }
            section.card aria-labelledby="grant" {
                h2 #grant { (texts.grant_or_deny) }
                (grant_form(&console, &viewer, &query))
            }
            h2 { (texts.matrix) }
            (matrix_table(&console, &viewer, &matrix))
            h2 { (texts.decisions) }
            (decisions_table(&console, &viewer, &decisions))
            (keys::section(&console, &viewer, &config).await?)
        };
        Ok(layout::page(&console, &viewer, "/access", &query, &body))
    })
    .await
}

/// Returns the form of a question about a call, and the answer.
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
                    @if let Some(reason) = &explained.reason { ": " (plain(reason)) }
                }
                (inbox::rules(viewer, &explained))
            }
            Some(Err(failure)) => p.failed { (plain(&failure.to_string())) },
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
        let arguments: RawObject = serde_json::from_str(text).map_err(|_| {
            Failure::usage("the arguments are not a JSON object, e.g. {\"path\": \"/tmp\"}")
        })?;
        params.arguments = Some(arguments);
    }
    Ok(viewer.operator.client.request::<KernelExplain>(&params).await?)
}

fn grant_form(console: &Console, viewer: &Viewer, query: &Form) -> Markup {
    let texts = viewer.texts;
    html! {
        form.row method="post" action=(url(console, "/access/grant")) {
            (token(viewer))
            (field(texts.agent, "agent", query.text("for"), true))
            (field(texts.server, "server", query.text("server"), true))
            (field(texts.tool_or_all, "tool", "", false))
            (field(texts.expires_example, "expires", "", false))
            (field(texts.reason, "because", "", false))
            button.main name="answer" value="allow" { (texts.grant) }
            button.bad name="answer" value="deny" { (texts.deny) }
        }
        p.dim { (texts.grant_hint) }
    }
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

/// Returns the access of an agent to a server, each entry with a button that removes it.
fn matrix_cell(
    console: &Console,
    viewer: &Viewer,
    agent: &str,
    cell: &access::ServerAccess,
) -> Markup {
    let whole = if cell.whole == "default" { cell.by_default } else { cell.whole };
    let revoke = |tool: &str| {
        html! {
            form method="post" action=(url(console, "/access/revoke")) {
                (token(viewer)) (hidden("agent", agent)) (hidden("server", &cell.server)) (hidden("tool", tool))
                button.quiet aria-label=(plain(&format!("{} {agent} {} {tool}", viewer.texts.revoke, cell.server))) { (viewer.texts.revoke) }
            }
        }
    };
    html! {
        (mark(whole)) @if cell.whole == "default" { span.dim { " " (viewer.texts.by_default) } } @else { (revoke("")) }
        @for (word, tools) in [("allow", &cell.allowed), ("deny", &cell.denied)] {
            @for tool in tools { div { (mark(word)) " " (plain(tool)) (revoke(tool)) } }
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
                td { (plain(server)) }
                td { (plain(one.permission.as_str())) @if let Some(limits) = &one.limits { div.dim { (plain(limits)) } } }
                td { (plain(one.agent_id.as_deref().unwrap_or("*"))) }
                td { (mark(&one.decision)) }
                td { (plain(&one.approved_by)) div.dim { (plain(one.justification.as_deref().unwrap_or_default())) } }
                td.time { @if let Some(end) = &one.expires_at { (super::record::short_time(end.as_str())) } }
                td {
                    @if one.decision == "approved" { form method="post" action=(url(console, "/access/withdraw")) {
                        (token(viewer)) (hidden("server", server)) (hidden("permission", one.permission.as_str()))
                        button.quiet aria-label=(plain(&format!("{} {server} {}", texts.revoke, one.permission))) { (texts.revoke) }
                    } }
                }
            }
        }
    };
    let heads = [
        texts.server,
        texts.permission,
        texts.agent,
        texts.state,
        texts.by,
        texts.until,
        texts.revoke,
    ];
    table(texts.decisions, &heads, &rows)
}

/// Grants or denies access.
pub(super) async fn grant(State(console): Shared, Posted(form, viewer): Posted) -> Response {
    let (agent, server) = (form.text("agent"), form.text("server"));
    // The other pages show a tool's name after the name of its server.
    let whole = form.get("tool");
    let tool = whole.map(|tool| {
        tool.strip_prefix(server).and_then(|rest| rest.strip_prefix('.')).unwrap_or(tool)
    });
    let granted = async {
        let mut params = match form.text("answer") {
            "allow" => AccessGrantParams::allow(agent, server),
            "deny" => AccessGrantParams::deny(agent, server),
            _ => return Err(Failure::usage("choose an answer")),
        };
        if let Some(tool) = tool {
            params = params.tool(tool);
        }
        if let Some(end) = form.get("expires") {
            params = params.until(time_args::future(end).map_err(Failure::usage)?);
        }
        if let Some(because) = form.get("because") {
            params = params.because(because);
        }
        let backend = Backend::Kernel(viewer.operator.client.clone());
        let target = Target::new(agent, server, tool);
        access::check_new_entry(&console.global, &backend, &target).await?;
        viewer.operator.client.mgp().access_grant(&params).await?;
        Ok(())
    };
    let result = granted.await;
    let target = tool.map_or_else(|| server.to_owned(), |tool| format!("{server}.{tool}"));
    let mut done = format!("{agent} → {target}: {}", form.text("answer"));
    if let Some(end) = form.get("expires") {
        done = format!("{done} ({}: {end})", viewer.texts.until);
    }
    console.ended("/access", done, result)
}

/// Removes an entry about a server or a tool.
pub(super) async fn revoke(State(console): Shared, Posted(form, viewer): Posted) -> Response {
    let (agent, server) = (form.text("agent"), form.text("server"));
    let backend = Backend::Kernel(viewer.operator.client.clone());
    let result = access::revoke(&backend, &Target::new(agent, server, form.get("tool"))).await;
    console.ended("/access", format!("{agent} {server}: revoked"), result)
}

/// Ends a permission, or an approval of later calls.
pub(super) async fn withdraw(State(console): Shared, Posted(form, viewer): Posted) -> Response {
    let (server, permission) = (form.text("server"), form.text("permission"));
    let params = KernelPermissionChangeParams::new(server, vec![Permission::from(permission)]);
    let ended = viewer.operator.client.request::<KernelPermissionsRevoke>(&params).await;
    let done = format!("{server} {permission}: revoked");
    console.ended("/access", done, ended.map(|_| ()).map_err(Into::into))
}
