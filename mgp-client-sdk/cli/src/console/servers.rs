//! The servers: state, cost and log of each, and the actions of an operator.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use maud::{Markup, html};
use mgp_types::ErrorCode;
use mgp_types::method::{
    KernelInfo, KernelServers, KernelServersDrain, KernelServersLogs, KernelServersRestart,
    KernelServersStart, KernelServersStop,
};
use mgp_types::mgp::{
    KernelInfoParams, KernelInfoResult, KernelLogLine, KernelServer, KernelServerLogsParams,
    KernelServersParams, KernelTool, ServerState,
};

use super::form::{Form, Posted, segment};
use super::layout::{self, command, hint, mark, plain, table, token, url};
use super::live::waiting_definitions;
use super::operator::Viewer;
use super::{Console, PageError, Shared, shown, times};
use crate::commands::servers::change::change;
use crate::commands::servers::list::state_word;
use crate::commands::tools::fetch_tools;
use crate::exit::Failure;

const LOG_LINES: u64 = 200;

/// The maximum time that the response to an action waits until the action has ended; a start or stop that takes longer
/// continues. Even twice this time is shorter than the time limit of most proxies.
const ACTION_TIMEOUT: Duration = Duration::from_secs(25);

const ACTIONS: [&str; 4] = ["start", "restart", "drain", "stop"];

pub(super) async fn page(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    query: Form,
) -> Response {
    shown(&console, &viewer, async {
        let all = viewer
            .operator
            .client
            .request::<KernelServers>(&KernelServersParams::new())
            .await?
            .servers;
        let info = viewer.operator.client.request::<KernelInfo>(&KernelInfoParams::new()).await?;
        let waiting = waiting_definitions(&viewer.operator.client).await?;
        let waiting = waiting.into_iter().map(|tool| tool.server_id).collect();
        let body = html! { div data-live {
            (servers_table(&console, &viewer, &all, &waiting))
            (clients(&viewer, &info))
        } };
        Ok(layout::page(&console, &viewer, "/servers", &query, &body))
    })
    .await
}

fn servers_table(
    console: &Console,
    viewer: &Viewer,
    all: &[KernelServer],
    waiting: &BTreeSet<String>,
) -> Markup {
    let texts = viewer.texts;
    if all.is_empty() {
        return html! { p.dim { (hint(texts.no_servers)) } };
    }
    let rows = html! {
        @for server in all {
            tr {
                td { a href=(url(console, &format!("/servers/{}", segment(&server.id)))) { (plain(&server.id)) } }
                td { (mark(state_word(server))) }
                td { (server.tools) }
                td { (server.tokens) }
                td { (server.restarts) }
                td { (server.trust_level) }
                td {
                    (hint(server.error.as_deref().or(server.lacks.as_deref()).unwrap_or_default()))
                    @if waiting.contains(&server.id) { div { a href=(url(console, "/#definitions")) { (texts.changed_definitions) } } }
                }
            }
        }
    };
    let heads = [
        texts.server,
        texts.state,
        texts.tools,
        texts.tokens,
        texts.restarts,
        texts.trust,
        texts.note,
    ];
    table(texts.servers, &heads, &rows)
}

fn clients(viewer: &Viewer, info: &KernelInfoResult) -> Markup {
    let texts = viewer.texts;
    let rows = html! {
        @for client in &info.clients {
            @let name = client.agent.as_deref().or(client.subject.as_deref());
            tr {
                td {
                    (plain(name.unwrap_or("-")))
                    @if let Some(tenant) = &client.tenant { div.dim { (plain(tenant)) } }
                }
                td { (if client.operator { texts.operator } else { texts.agent }) }
                td { (plain(client.transport.as_deref().unwrap_or("-"))) }
                td.time { @if let Some(since) = &client.since { (times::moment(since.as_str())) } }
            }
        }
    };
    html! {
        h2 { (texts.clients) }
        (table(texts.clients, &[texts.who, texts.role, texts.over, texts.since], &rows))
        p.dim { "mgp " (info.version) " · " (texts.process) " " (info.pid) " · " (texts.since) " " (times::moment(info.started_at.as_str())) }
    }
}

async fn fetch(viewer: &Viewer, id: &str) -> Result<KernelServer, PageError> {
    let mut params = KernelServersParams::new();
    params.server_id = Some(id.to_owned());
    let missing = || PageError(StatusCode::NOT_FOUND, viewer.texts.no_server.to_owned());
    let found = viewer.operator.client.request::<KernelServers>(&params).await;
    let found = found.map_err(|error| match error.code() {
        ErrorCode::INVALID_PARAMS => missing(),
        _ => error.into(),
    })?;
    found.servers.into_iter().find(|server| server.id == id).ok_or_else(missing)
}

/// Returns the newest lines of a server's log, and its tools. Both are empty for a server that the kernel lists but
/// does not run: the configuration switches it off, or it waits for an operator.
async fn log_and_tools(
    viewer: &Viewer,
    id: &str,
) -> Result<(Vec<KernelLogLine>, Vec<KernelTool>), PageError> {
    let client = &viewer.operator.client;
    let mut params = KernelServerLogsParams::new(id);
    params.lines = Some(LOG_LINES);
    match client.request::<KernelServersLogs>(&params).await {
        Ok(log) => Ok((log.lines, fetch_tools(client, Some(id), None).await?)),
        Err(error) if error.code() == ErrorCode::INVALID_PARAMS => Ok((Vec::new(), Vec::new())),
        Err(error) => Err(error.into()),
    }
}

pub(super) async fn one(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    Path(id): Path<String>,
    query: Form,
) -> Response {
    shown(&console, &viewer, async {
        let server = fetch(&viewer, &id).await?;
        let (log, tools) = log_and_tools(&viewer, &id).await?;
        let texts = viewer.texts;
        let rows = html! {
            @for tool in &tools {
                tr {
                    td { (plain(&tool.name)) } td { (mark(tool.risk_level.as_str())) }
                    td { (mark(tool.standing.as_str())) } td { (tool.tokens) }
                    td {
                        (plain(&mgp_types::clip(tool.description.as_deref().unwrap_or_default(), 200)))
                        @if tool.proposed_risk.is_some() { p.dim { (texts.undeclared) " " (command(&format!("mgp tools risk {id}"))) } }
                    }
                }
            }
        };
        let heads = [texts.tool, texts.risk, texts.definition, texts.tokens, texts.note];
        let body = html! {
            (summary(&console, &viewer, &server))
            h2 { (texts.tools) }
            @if tools.is_empty() { p.dim { (texts.none) } } @else { (table(texts.tools, &heads, &rows)) }
            h2 { (texts.log) }
            div data-live {
                @if log.is_empty() { p.dim { (texts.none) } }
                @else { pre #log role="region" aria-label=(texts.log) tabindex="0" { @for line in &log { (times::moment(line.at.as_str())) " " (plain(&line.text)) "\n" } } }
            }
        };
        Ok(layout::page(&console, &viewer, "/servers", &query, &body))
    })
    .await
}

fn summary(console: &Console, viewer: &Viewer, server: &KernelServer) -> Markup {
    let texts = viewer.texts;
    let facts = [
        (texts.command, Some(server.reach.clone())),
        (texts.trust, Some(server.trust_level.to_string())),
        (texts.source, Some(server.source.clone())),
        (texts.process, server.pid.map(|pid| pid.to_string())),
        (texts.restarts, Some(server.restarts.to_string())),
        (texts.note, server.error.as_ref().or(server.lacks.as_ref()).map(|note| hint(note))),
    ];
    html! {
        section.card {
            h2 { (plain(&server.id)) " " (mark(state_word(server))) }
            dl {
                @for (name, value) in facts { @if let Some(value) = value { dt { (name) } dd { (plain(&value)) } } }
                @if let Some(since) = &server.since { dt { (texts.since) } dd { (times::moment(since.as_str())) } }
            }
            form.row method="post" action=(url(console, &format!("/servers/{}", segment(&server.id)))) {
                (token(viewer))
                @for (action, name) in ACTIONS.iter().zip([texts.start, texts.restart, texts.drain, texts.stop]) {
                    button name="action" value=(action) { (name) }
                }
            }
        }
    }
}

/// Starts, restarts, drains or stops a server.
pub(super) async fn act(
    State(console): Shared,
    Path(id): Path<String>,
    Posted(form, viewer): Posted,
) -> Response {
    let (client, limit) = (&viewer.operator.client, Some(ACTION_TIMEOUT));
    let acted = match form.text("action") {
        "start" => change::<KernelServersStart>(client, &id, limit).await,
        "restart" => change::<KernelServersRestart>(client, &id, limit).await,
        "drain" => change::<KernelServersDrain>(client, &id, limit).await,
        "stop" => change::<KernelServersStop>(client, &id, limit).await,
        _ => Err(Failure::usage("choose an action")),
    };
    let done = acted.as_ref().map_or("", ServerState::as_str);
    let done = format!("{id}: {done}");
    console.ended(&viewer, &format!("/servers/{}", segment(&id)), done, acted.map(|_| ()))
}
