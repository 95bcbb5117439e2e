//! Search as an agent does it: what is found and why, and what the tools in context cost.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use mgp_types::method::{KernelSessions, KernelToolsTokens};
use mgp_types::mgp::{
    DiscoverToolsParams, DiscoverToolsResult, KernelSession, KernelSessionsParams,
    KernelTokensParams, KernelTokensResult,
};

use super::form::Form;
use super::gate::Viewer;
use super::layout::{self, field, plain, table, url};
use super::{Console, Shared, shown};
use crate::control;
use crate::exit::CliResult;

const MAX_TOOLS: u64 = 10;

/// The width of the longest bar of a chart.
const BAR: f64 = 420.0;

pub(super) async fn page(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    query: Form,
) -> Response {
    shown(&console, &viewer, async {
        let agent = query.get("agent").unwrap_or("default");
        let found = match query.get("query") {
            Some(text) => Some(search(&console, agent, text).await),
            None => None,
        };
        let mut params = KernelTokensParams::new();
        params.agent_id = Some(agent.to_owned());
        let tokens = console.client.request::<KernelToolsTokens>(&params).await?;
        let params = KernelSessionsParams::new();
        let sessions = console.client.request::<KernelSessions>(&params).await?.sessions;
        let texts = viewer.texts;
        let body = html! {
            form.row method="get" action=(url(&console, "/search")) {
                (field(texts.wish, "query", query.text("query"), true))
                (field(texts.agent, "agent", agent, false))
                button.main { (texts.search) }
            }
            @match &found {
                Some(Ok(found)) => (results(&viewer, found)),
                Some(Err(failure)) => p.failed { (plain(&failure.to_string())) },
                None => {}
            }
            h2 { (texts.context) " " (plain(agent)) }
            (cost(&viewer, &tokens))
            h2 { (texts.sessions) }
            (sessions_table(&viewer, &sessions))
        };
        Ok(layout::page(&console, &viewer, "/search", &query, &body))
    })
    .await
}

/// Searches with the rights of an agent.
async fn search(console: &Console, agent: &str, text: &str) -> CliResult<DiscoverToolsResult> {
    let client = control::connect_as(&console.global, agent).await?;
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
        @if found.tools.is_empty() { p.dim { (texts.nothing_found) } }
        @else { (table(texts.search, &[texts.tool, texts.score, texts.reason, texts.note], &rows)) }
        @for note in &found.notes { p.dim { (plain(note)) } }
    }
}

/// Draws what an agent's list of tools costs, beside a list of everything.
fn cost(viewer: &Viewer, tokens: &KernelTokensResult) -> Markup {
    let texts = viewer.texts;
    let bars: Vec<(String, u64)> =
        [(texts.listed.to_owned(), tokens.listed), (texts.all.to_owned(), tokens.all)]
            .into_iter()
            .chain(tokens.servers.iter().map(|server| (plain(&server.server_id), server.tokens)))
            .take(22)
            .collect();
    let most = bars.iter().map(|(_, tokens)| *tokens).max().unwrap_or(1).max(1);
    html! {
        p { (tokens.saved_percent) " % " (texts.saved) }
        svg role="img" aria-label=(texts.context) viewBox=(format!("0 0 760 {}", bars.len() * 28)) {
            @for (at, (name, tokens)) in bars.iter().enumerate() {
                text x="0" y=(at * 28 + 18) { (mgp_types::clip(name, 28)) }
                rect.bar x="220" y=(at * 28 + 5) height="18" rx="3" width=(format!("{:.1}", share(*tokens, most) * BAR)) {}
                text x=(format!("{:.1}", 228.0 + share(*tokens, most) * BAR)) y=(at * 28 + 18) { (tokens) }
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
                td { (plain(session.agent_id.as_deref().unwrap_or("-"))) }
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
