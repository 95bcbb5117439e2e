//! The page that searches tools with the rights of an agent. It shows the results with their reasons, and how many
//! tokens the tools in the agents' contexts cost.

use std::collections::BTreeSet;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use mgp_types::method::{KernelInfo, KernelSessions, KernelToolsTokens};
use mgp_types::mgp::{
    DiscoverToolsParams, DiscoverToolsResult, KernelInfoParams, KernelSavedDay, KernelSession,
    KernelSessionsParams, KernelTokensParams, KernelTokensResult,
};
use mgp_types::service::Principal;

use super::card::fill;
use super::form::Form;
use super::layout::{self, field, hint, plain, table, url};
use super::operator::Viewer;
use super::{Console, PageError, Shared, shown, times};
use crate::commands::keys;
use crate::exit::{CliResult, Failure};
use crate::state;

const MAX_TOOLS: u64 = 10;

/// The maximum number of agents in the chart of token costs.
const MAX_AGENTS: usize = 12;

/// The maximum number of days in the chart of saved tokens.
const MAX_SAVED_DAYS: usize = 30;

/// The width of the longest bar in a chart.
const BAR: f64 = 400.0;

pub(super) async fn page(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    query: Form,
) -> Response {
    shown(&console, &viewer, async {
        let params = KernelSessionsParams::new();
        let mut sessions =
            viewer.operator.client.request::<KernelSessions>(&params).await?.sessions;
        // Leave out the sessions of the console's own requests, which have no transport.
        sessions.retain(|session| session.transport.is_some());
        let agents = agents(&console, &viewer, &sessions).await?;
        let agent = query.get("agent").unwrap_or_else(|| agents.preferred());
        let tokens = tokens_of(&viewer, agent).await?;
        let saved: Vec<Bar> = agents.tokens.iter().map(bar).collect();
        // Search with the rights of the agent. The requests above were made with the rights of the operator.
        let found = match query.get("query") {
            Some(text) => Some(search(&console, &viewer, agent, text).await),
            None => None,
        };
        let texts = viewer.texts;
        let body = html! {
            form.row method="get" action=(url(&console, "/search")) {
                (field(texts.wish, "query", query.text("query"), true))
                (field(texts.agent, "agent", agent, false))
                button.main { (texts.search) }
            }
            @match &found {
                Some(Ok(found)) if found.tools.is_empty() => {
                    @if found.omitted.is_none() {
                        p.dim { (agents.why_nothing(&viewer, agent, &tokens)) }
                    }
                    (remarks(&viewer, found))
                }
                Some(Ok(found)) => (results(&viewer, found)),
                Some(Err(failure)) => p.failed { (hint(&failure.to_string())) },
                None => {}
            }
            h2 { (texts.context) " " q { (plain(agent)) } }
            (cost(&viewer, &tokens))
            h2 { (texts.saved_by_day) " " q { (plain(agent)) } }
            (saved_by_day(&viewer, &tokens))
            h2 { (texts.unmet) " " q { (plain(agent)) } }
            (unmet(&viewer, &tokens))
            h2 { (texts.saved_by_agent) }
            (saved_by_agent(&viewer, &saved))
            h2 { (texts.sessions) }
            (sessions_table(&viewer, &sessions))
        };
        Ok(layout::page(&console, &viewer, "/search", &query, &body))
    })
    .await
}

/// Searches with the rights of an agent.
async fn search(
    console: &Console,
    viewer: &Viewer,
    agent: &str,
    text: &str,
) -> CliResult<DiscoverToolsResult> {
    let client = console.kernel.connect_as(&console.global, agent, &viewer.operator).await?;
    let mut params = DiscoverToolsParams::new();
    params.query = Some(text.to_owned());
    params.max_results = Some(MAX_TOOLS);
    params.explain = Some(true);
    let found = client.mgp().tools_discover(&params).await;
    client.close().await;
    Ok(found?)
}

fn results(viewer: &Viewer, found: &DiscoverToolsResult) -> Markup {
    let texts = viewer.texts;
    let rows = html! {
        @for tool in &found.tools {
            tr {
                td { (plain(&format!("{}.{}", tool.server_id, tool.name))) }
                td { @if let Some(score) = &tool.relevance_score { (mgp_types::clip(&score.to_string(), 5)) } }
                td { (plain(tool.reason.as_deref().unwrap_or_default())) }
                td { (plain(&mgp_types::clip(tool.description.as_deref().unwrap_or_default(), 200))) }
            }
        }
    };
    html! {
        (table(texts.search, &[texts.tool, texts.score, texts.reason, texts.note], &rows))
        (remarks(viewer, found))
    }
}

/// Returns the notes of an answer, and the number of tools that it leaves out.
fn remarks(viewer: &Viewer, found: &DiscoverToolsResult) -> Markup {
    let left_out = |omitted: u64| fill(viewer.texts.left_out, &[("count", &omitted.to_string())]);
    html! {
        @for note in &found.notes { p.dim { (hint(note)) } }
        @if let Some(omitted) = found.omitted { p.dim { (left_out(omitted)) } }
    }
}

/// A bar of a chart: its name, its length, and the text at its end.
type Bar = (String, u64, String);

/// The known agents, and for the first `MAX_AGENTS` of them the tokens of the tools that they may use.
struct Agents {
    names: BTreeSet<String>,
    tokens: Vec<(String, KernelTokensResult)>,
}

impl Agents {
    /// Returns the agent whose tools cost the most tokens; `default` if no agent has tools.
    fn preferred(&self) -> &str {
        let most = self.tokens.iter().rev().max_by_key(|(_, tokens)| tokens.all);
        most.filter(|(_, tokens)| tokens.all > 0).map_or("default", |(agent, _)| agent)
    }

    /// Returns why a search found no tools.
    fn why_nothing(&self, viewer: &Viewer, agent: &str, tokens: &KernelTokensResult) -> String {
        let texts = viewer.texts;
        let text = match tokens.all {
            0 if !self.names.contains(agent) => texts.unknown_agent,
            0 => texts.no_server_for,
            _ => texts.nothing_found,
        };
        plain(&fill(text, &[("agent", agent)]))
    }
}

/// Returns `default` and the agents of the tenant `local` that are configured or connected, or that have access or a
/// key.
async fn agents(
    console: &Console,
    viewer: &Viewer,
    sessions: &[KernelSession],
) -> Result<Agents, PageError> {
    let info = viewer.operator.client.request::<KernelInfo>(&KernelInfoParams::new()).await?;
    let connected = sessions.iter().filter(|session| session.tenant.is_none());
    let connected = connected.filter_map(|session| session.agent_id.clone());
    let mut names: BTreeSet<String> = info.agents.into_iter().chain(connected).collect();
    let db = state::db(&console.global).await?;
    let local = Principal::local();
    let entries = mgp_security::Access::named_in(&db, local.tenant()).await;
    names.extend(entries.map_err(|error| Failure::failed(error.to_string()))?);
    let keys = keys::list(&console.global).await?;
    let keys = keys.into_iter().filter(|key| !key.admin && key.tenant == local.tenant().as_str());
    names.extend(keys.map(|key| key.agent));
    names.retain(|name| name != "*" && !name.starts_with("group:"));
    names.insert("default".to_owned());
    let mut tokens = Vec::new();
    for name in names.iter().take(MAX_AGENTS) {
        tokens.push((name.clone(), tokens_of(viewer, name).await?));
    }
    Ok(Agents { names, tokens })
}

async fn tokens_of(viewer: &Viewer, agent: &str) -> Result<KernelTokensResult, PageError> {
    let mut params = KernelTokensParams::new();
    params.agent_id = Some(agent.to_owned());
    Ok(viewer.operator.client.request::<KernelToolsTokens>(&params).await?)
}

/// Returns the bar for the tokens that an agent saves by searching instead of listing all tools.
fn bar((agent, tokens): &(String, KernelTokensResult)) -> Bar {
    let saved = tokens.all.saturating_sub(tokens.listed);
    (plain(agent), saved, format!("{saved} ({} %)", tokens.saved_percent))
}

fn saved_by_agent(viewer: &Viewer, saved: &[Bar]) -> Markup {
    if saved.is_empty() {
        return html! { p.dim { (viewer.texts.none) } };
    }
    chart(viewer.texts.saved_by_agent, saved)
}

/// Draws the tokens that shorter lists saved on each of the last [`MAX_SAVED_DAYS`] days.
fn saved_by_day(viewer: &Viewer, tokens: &KernelTokensResult) -> Markup {
    let texts = viewer.texts;
    let bar = |day: &KernelSavedDay| {
        let lists = if day.lists == 1 { texts.list } else { texts.lists };
        (day.day.clone(), day.saved, format!("{} ({} {lists})", day.saved, day.lists))
    };
    let bars: Vec<Bar> = tokens.days.iter().rev().take(MAX_SAVED_DAYS).map(bar).collect();
    if bars.is_empty() {
        return html! { p.dim { (texts.none) } };
    }
    chart(texts.saved_by_day, &bars)
}

/// Lists an agent's searches that found nothing, or were not followed by a call of a found tool.
fn unmet(viewer: &Viewer, tokens: &KernelTokensResult) -> Markup {
    let texts = viewer.texts;
    if tokens.unmet.is_empty() {
        return html! { p.dim { (texts.no_unmet) } };
    }
    let rows = html! {
        @for search in &tokens.unmet {
            tr {
                td { (plain(&search.query)) }
                td { (search.found_nothing) }
                td { (search.not_called) }
                td.time { (times::moment(search.last.as_str())) }
            }
        }
    };
    table(texts.unmet, &[texts.query, texts.found_nothing, texts.not_called, texts.time], &rows)
}

/// Draws the token costs of an agent's list of tools, of a list of all its tools, and of the tools of each of the first
/// 20 servers.
fn cost(viewer: &Viewer, tokens: &KernelTokensResult) -> Markup {
    let texts = viewer.texts;
    let servers = tokens.servers.iter().map(|server| (plain(&server.server_id), server.tokens));
    let all = [(texts.listed.to_owned(), tokens.listed), (texts.all.to_owned(), tokens.all)];
    let bars = all.into_iter().chain(servers).take(22);
    let bars: Vec<Bar> = bars.map(|(name, tokens)| (name, tokens, tokens.to_string())).collect();
    html! {
        p { (tokens.saved_percent) " % " (texts.saved) }
        (chart(texts.context, &bars))
    }
}

/// Draws bars with their names and figures.
fn chart(title: &str, bars: &[Bar]) -> Markup {
    let most = bars.iter().map(|(_, length, _)| *length).max().unwrap_or(1).max(1);
    html! {
        div.scroll role="region" aria-label=(title) tabindex="0" {
            svg.chart role="img" aria-label=(title) viewBox=(format!("0 0 760 {}", bars.len() * 28)) {
                @for (at, (name, length, text)) in bars.iter().enumerate() {
                    text x="0" y=(at * 28 + 18) { (mgp_types::clip(name, 28)) }
                    rect.bar x="220" y=(at * 28 + 5) height="18" rx="3" width=(format!("{:.1}", share(*length, most) * BAR)) {}
                    text x=(format!("{:.1}", 228.0 + share(*length, most) * BAR)) y=(at * 28 + 18) { (text) }
                }
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "the length of a bar needs no more digits")]
fn share(tokens: u64, most: u64) -> f64 {
    tokens as f64 / most as f64
}

fn sessions_table(viewer: &Viewer, sessions: &[KernelSession]) -> Markup {
    let texts = viewer.texts;
    if sessions.is_empty() {
        return html! { p.dim { (texts.none) } };
    }
    let rows = html! {
        @for session in sessions {
            tr {
                td {
                    (plain(session.agent_id.as_deref().unwrap_or("-")))
                    @if let Some(tenant) = &session.tenant { div.dim { (plain(tenant)) } }
                }
                td { (plain(session.transport.as_deref().unwrap_or("-"))) }
                td { (session.total_tokens) " / " (session.max_tokens) }
                td { (plain(&session.pinned.join(" "))) }
                td { (plain(&session.cached.join(" "))) }
            }
        }
    };
    let heads = [texts.agent, texts.over, texts.tokens, texts.pinned, texts.cached];
    table(texts.sessions, &heads, &rows)
}
