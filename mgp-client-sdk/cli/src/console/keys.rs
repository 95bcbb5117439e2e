//! Keys and quotas on the page about access: which callers can connect over HTTP, and how much of each quota is used.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use maud::{Markup, html};
use mgp_discovery::{Config, Sources, Trust};
use mgp_kernel::{QuotaCount, quota_counts};

use super::card::fill;
use super::form::Posted;
use super::layout::{hidden, hint, mark, plain, table, token, url};
use super::operator::Viewer;
use super::{Console, PageError, Shared, times};
use crate::commands::keys::{self, KeyInfo};
use crate::exit::Failure;
use crate::state;

/// The maximum number of rows in each table of the page with the keys.
const MAX_ROWS: usize = 200;

/// Returns the keys, the limits and the quotas as tables.
pub(super) async fn section(
    console: &Console,
    viewer: &Viewer,
    sources: &Sources,
) -> Result<Markup, PageError> {
    let texts = viewer.texts;
    let keys = keys::list(&console.global).await?;
    let limited = limited(console, viewer, sources).await?;
    Ok(html! {
        h2 #limits { (texts.limits) }
        (limited)
        h2 #keys { (texts.keys) }
        @if keys.is_empty() { p.dim { (hint(texts.no_keys)) } }
        @else { (keys_table(console, viewer, &keys)) }
    })
}

/// Returns the limits and the quotas as tables, or the error of the configuration, so that keys can still be revoked.
async fn limited(
    console: &Console,
    viewer: &Viewer,
    sources: &Sources,
) -> Result<Markup, PageError> {
    let texts = viewer.texts;
    let db = state::db(&console.global).await?;
    let config = match sources.load(&Trust::new(Arc::new(db.clone()))).await {
        Ok(loaded) => loaded.config,
        Err(error) => return Ok(html! { p.failed { (plain(&error.to_string())) } }),
    };
    let counts = quota_counts(&db, &config).await;
    let counts = counts.map_err(|error| Failure::failed(error.to_string()))?;
    Ok(html! {
        (limits(viewer, &config))
        h2 { (texts.quotas) }
        @if counts.is_empty() { p.dim { (texts.no_quotas) } }
        @else { (quotas(viewer, &counts)) }
    })
}

/// Returns the rows that a table shows, and the number of the rows that it leaves out. Rows with `is_first` come first;
/// otherwise the order is kept.
fn shown<T>(rows: impl IntoIterator<Item = T>, is_first: impl Fn(&T) -> bool) -> (Vec<T>, usize) {
    let (mut all, others): (Vec<T>, Vec<T>) = rows.into_iter().partition(is_first);
    all.extend(others);
    let more = all.len().saturating_sub(MAX_ROWS);
    all.truncate(MAX_ROWS);
    (all, more)
}

/// Returns the note below a table about how many rows the table leaves out.
fn others(more: usize, text: &str) -> Markup {
    html! { @if more > 0 { p.dim { (hint(&fill(text, &[("count", &more.to_string())]))) } } }
}

/// Returns a table of the configured limits of calls: calls per minute, calls at the same time, and the size of
/// arguments. Quotas have a table of their own.
fn limits(viewer: &Viewer, config: &Config) -> Markup {
    let texts = viewer.texts;
    let agents =
        config.agents.iter().map(|(name, agent)| (name.clone(), texts.agent, agent.limits.clone()));
    let servers = config
        .servers
        .iter()
        .map(|server| (server.id.to_string(), texts.server, server.limits.calls.clone()));
    let tools = config.servers.iter().flat_map(|server| {
        let of_tool = |(tool, most): (&String, &u64)| (format!("{}.{tool}", server.id), *most);
        server.limits.tool_calls_per_minute.iter().map(of_tool)
    });
    let every = (texts.every_agent.to_owned(), texts.agent, config.limits.clone());
    let mut rows = Vec::new();
    for (name, kind, limits) in std::iter::once(every).chain(agents).chain(servers) {
        let all = [
            (texts.per_minute, limits.calls_per_minute),
            (texts.at_once, limits.running),
            (texts.argument_bytes, limits.max_arguments),
        ];
        rows.extend(all.into_iter().filter_map(|(of, most)| Some((name.clone(), kind, of, most?))));
    }
    rows.extend(tools.map(|(name, most)| (name, texts.tool, texts.per_minute, most)));
    let (rows, more) = shown(rows, |_| true);
    let body = html! {
        @for (name, kind, of, most) in &rows {
            tr { th scope="row" { (plain(name)) } td { (kind) } td { (most) " " (of) } }
        }
    };
    html! {
        @if rows.is_empty() { p.dim { (texts.no_limits) } }
        @else { (table(texts.limits, &[texts.who, texts.kind, texts.limit], &body)) }
        (others(more, texts.more_limits))
    }
}

fn quotas(viewer: &Viewer, counts: &[QuotaCount]) -> Markup {
    let texts = viewer.texts;
    let (counts, more) = shown(counts, |_| true);
    let rows = html! {
        @for count in counts {
            @for (of, used, max) in [(texts.calls, count.calls, count.max_calls), (texts.units, count.units, count.max_units)] {
                @if let Some(max) = max {
                    tr {
                        th scope="row" { (plain(&count.name)) }
                        td { (if count.is_server { texts.server } else { texts.agent }) }
                        td { (of) " " (if count.period == "hour" { texts.this_hour } else { texts.today }) }
                        td { (used) " / " (max) }
                        td { meter min="0" max=(max.max(1)) high=(max.saturating_mul(9) / 10) value=(used.min(max)) aria-label=(format!("{} {of}", plain(&count.name))) {} }
                    }
                }
            }
        }
    };
    let heads = [texts.who, texts.kind, texts.quota, texts.spent, texts.share];
    html! { (table(texts.quotas, &heads, &rows)) (others(more, texts.more_limits)) }
}

fn keys_table(console: &Console, viewer: &Viewer, keys: &[KeyInfo]) -> Markup {
    let texts = viewer.texts;
    let (keys, more) = shown(keys.iter().rev(), |key| key.status == "valid");
    let rows = html! {
        @for key in keys {
            tr {
                th scope="row" { (plain(&key.agent)) div.dim { code { (plain(&key.id)) } } }
                td { (if key.admin { texts.operator } else { texts.agent }) div.dim { (plain(&key.tenant)) } }
                td { (mark(key.status)) }
                td { @if key.permissions.is_empty() { (texts.all) } @else { (plain(&key.permissions.join(" "))) } }
                td.time { @if let Some(end) = &key.expires { (times::moment(end.as_str())) } }
                td {
                    @if key.status == "valid" {
                        form method="post" action=(url(console, "/access/key")) {
                            (token(viewer)) (hidden("id", &key.id))
                            button.quiet aria-label=(plain(&format!("{} {} {}", texts.revoke, key.agent, key.id))) { (texts.revoke) }
                        }
                    }
                }
            }
        }
    };
    let heads =
        [texts.agent, texts.kind, texts.state, texts.permissions, texts.until, texts.revoke];
    html! { (table(texts.keys, &heads, &rows)) (others(more, texts.more_keys)) }
}

/// Revokes a key; its callers are refused from now on.
pub(super) async fn revoke(State(console): Shared, Posted(form, viewer): Posted) -> Response {
    let (id, operator) = (form.text("id"), &viewer.operator);
    let revoked = if console.kernel.admits_change(operator) {
        keys::revoke(&console.global, id, operator.principal.clone()).await.map(drop)
    } else {
        Err(Failure::failed(viewer.texts.no_write))
    };
    let done = format!("{id}: {}", viewer.texts.revoked);
    console.ended(&viewer, "/access", done, revoked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valid_key_is_shown_however_many_newer_ones_were_revoked() {
        let revoked = (0..MAX_ROWS).map(|number| (number, "revoked"));
        let keys = revoked.chain([(MAX_ROWS, "valid"), (MAX_ROWS + 1, "valid")]);
        let (rows, more) = shown(keys, |(_, status)| *status == "valid");
        assert_eq!((rows.len(), more), (MAX_ROWS, 2));
        assert_eq!(rows[..3], [(MAX_ROWS, "valid"), (MAX_ROWS + 1, "valid"), (0, "revoked")]);
        assert!(others(more, "and {count} more").into_string().contains("and 2 more"));
        assert_eq!(others(0, "and {count} more").into_string(), "");
    }
}
