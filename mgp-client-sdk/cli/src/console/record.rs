//! The page about the audit log: its records, filtered or complete, and the check of its hash chain.

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use maud::{Markup, html};
use mgp_security::{RESULT_WORDS, result_word};
use mgp_types::method::KernelAudit;
use mgp_types::mgp::{AuditEvent, EventType, KernelAuditParams, KernelAuditResult};

use super::form::{Form, segment};
use super::layout::{self, field, mark, plain, table, url};
use super::operator::Viewer;
use super::questions::Questions;
use super::remedy;
use super::{Console, PageError, Shared, refusal, shown, times};
use crate::commands::audit::{
    Entry, all_kinds, key_of, number, reason, short_type, tenant, verify_files, who,
};

const PAGE: u64 = 100;

const EXPORT_PAGE: u64 = 1000;

/// The maximum number of requests for the records of one page.
const MAX_REQUESTS: usize = 10;

/// The filters of the page; a filter that is `None` matches everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Filter {
    pub(super) agent: Option<String>,
    pub(super) server: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) trace: Option<String>,
    pub(super) since: Option<String>,
    /// The result of an event, in the words of the table's column.
    pub(super) result: Option<String>,
}

impl Filter {
    fn from_query(query: &Form) -> Self {
        let value = |name: &str| query.get(name).map(str::to_owned);
        Self {
            agent: value("agent"),
            server: value("server"),
            tool: value("tool"),
            kind: value("type"),
            trace: value("trace"),
            since: value("since"),
            result: value("result"),
        }
    }

    fn to_params(&self) -> Result<KernelAuditParams, PageError> {
        let mut params = KernelAuditParams::new();
        params.agent.clone_from(&self.agent);
        params.server_id.clone_from(&self.server);
        params.tool.clone_from(&self.tool);
        params.trace.clone_from(&self.trace);
        params.result.clone_from(&self.result);
        params.event_type = self.kind.as_deref().map(EventType::from);
        if let Some(since) = &self.since {
            let since = times::past(since);
            let bad = |reason| PageError(axum::http::StatusCode::BAD_REQUEST, reason);
            params.since = Some(since.map_err(bad)?.into());
        }
        Ok(params)
    }
}

/// Returns the newest matching records before a sequence number, the newest first. One request reads only a limited
/// part of the log, so finding a rare record takes several requests.
pub(super) async fn read(
    viewer: &Viewer,
    filter: &Filter,
    limit: u64,
    before: Option<u64>,
) -> Result<KernelAuditResult, PageError> {
    let mut params = filter.to_params()?;
    params.newest_first = Some(true);
    params.after = before;
    let mut found = KernelAuditResult::new();
    for _ in 0..MAX_REQUESTS {
        params.limit = Some(limit - found.events.len() as u64);
        let page = viewer.operator.client.request::<KernelAudit>(&params).await?;
        found.events.extend(page.events);
        found.next = page.next.filter(|_| page.next != params.after);
        params.after = found.next;
        if found.next.is_none() || found.events.len() as u64 >= limit {
            break;
        }
    }
    Ok(found)
}

pub(super) async fn page(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    query: Form,
) -> Response {
    shown(&console, &viewer, async {
        let filter = Filter::from_query(&query);
        let before = query.get("before").and_then(|before| before.parse().ok());
        let page = match read(&viewer, &filter, PAGE, before).await {
            Ok(page) => page,
            // Show the filters as the person wrote them, with the reason of the failure.
            Err(PageError(status, reason)) => {
                let form = filters(&console, &viewer, &filter);
                let body = html! { (form) (layout::failure(&viewer, &reason)) };
                let page = layout::page(&console, &viewer, "/record", &query, &body);
                return Ok((status, page).into_response());
            }
        };
        let (found, next) = (page.events, page.next);
        let questions = Questions::of(&viewer, &found).await;
        let is_whole = filter.trace.is_some();
        let entries = if is_whole { Entry::each(&found) } else { Entry::by_call(&found) };
        let texts = viewer.texts;
        let verified = match query.get("verify") {
            Some(_) => Some(verify_files(&console.global).await?),
            None => None,
        };
        let body = html! {
            (filters(&console, &viewer, &filter))
            p {
                a href={ (url(&console, "/record/export")) "?" (query.with("format", "jsonl")) } { (texts.export) }
                " · "
                a href={ "?" (query.with("verify", "yes")) } { (texts.verify) }
            }
            @if let Some(verified) = &verified {
                @match &verified.error {
                    Some(error) => p.failed data-keep { (plain(error)) },
                    None => p.done data-keep {
                        (verified.records) " " (texts.records_unchanged)
                        @if let Some(lost) = verified.lost { "; " (texts.records_lost) " " (lost) }
                        @if let Some(lost) = verified.changes_lost { "; " (texts.changes_lost) " " (lost) }
                    },
                }
            }
            div data-live[before.is_none()] { (rows(&console, &viewer, &questions, &entries)) }
            @if let Some(next) = next {
                p { a href={ "?" (query.with("before", &next.to_string())) } { (texts.older) } }
            }
        };
        Ok(layout::page(&console, &viewer, "/record", &query, &body))
    })
    .await
}

fn filters(console: &Console, viewer: &Viewer, filter: &Filter) -> Markup {
    let texts = viewer.texts;
    let value = |filter: &Option<String>| filter.clone().unwrap_or_default();
    html! {
        form.row method="get" action=(url(console, "/record")) {
            (field(texts.agent, "agent", &value(&filter.agent), false))
            (field(texts.server, "server", &value(&filter.server), false))
            (field(texts.tool, "tool", &value(&filter.tool), false))
            label { span { (texts.event) }
                select name="type" {
                    option value="" { (texts.all) }
                    @for kind in all_kinds() {
                        option value=(kind) selected[filter.kind.as_deref() == Some(kind)] { (short_type(kind)) }
                    }
                }
            }
            label { span { (texts.result) }
                select name="result" {
                    option value="" { (texts.all) }
                    @for word in RESULT_WORDS {
                        option value=(word) selected[filter.result.as_deref() == Some(word)] { (word) }
                    }
                }
            }
            (field(texts.trace, "trace", &value(&filter.trace), false))
            (field(texts.since_example, "since", &value(&filter.since), false))
            button.main { (texts.show) }
        }
    }
}

/// Returns records as a table; each refused call has a link to what would let it run.
pub(super) fn rows(
    console: &Console,
    viewer: &Viewer,
    questions: &Questions,
    entries: &[Entry<'_>],
) -> Markup {
    let texts = viewer.texts;
    if entries.is_empty() {
        return html! { p.dim { (texts.none) } };
    }
    let rows = html! {
        @for entry in entries {
            @let event = entry.event;
            tr {
                td.time { (times::moment(event.timestamp.as_str())) }
                td.name {
                    @match story_path(event) {
                        Some(path) => a href=(url(console, &path)) { (plain(short_type(event.event_type.as_str()))) },
                        None => (plain(short_type(event.event_type.as_str()))),
                    }
                }
                td { (mark(result_word(event))) }
                td { (plain(&who(event))) @if let Some(tenant) = tenant(event) { div.dim { (plain(&tenant)) } } }
                td { (plain(&target(event))) }
                td {
                    (refusal::words(viewer, event)) (remedy::links(console, viewer, questions, event))
                    @if !entry.parts.is_empty() { (details(viewer, &entry.parts)) }
                }
            }
        }
    };
    let heads = [texts.time, texts.event, texts.result, texts.who, texts.subject, texts.reason];
    table(texts.record, &heads, &rows)
}

/// Returns the path of the story of a record's call. The path contains the record's number, because the other records
/// of the call are near it in the log.
fn story_path(event: &AuditEvent) -> Option<String> {
    let path = format!("/story/{}", segment(event.trace_id.as_deref()?));
    Some(match number(event) {
        Some(number) => format!("{path}?at={number}"),
        None => path,
    })
}

/// Returns the other records of a call as lines that appear after a click.
fn details(viewer: &Viewer, parts: &[&AuditEvent]) -> Markup {
    html! {
        details {
            summary { (viewer.texts.more_records) " " (parts.len()) }
            @for part in parts {
                div {
                    (times::moment(part.timestamp.as_str())) " " (plain(short_type(part.event_type.as_str()))) " "
                    (mark(result_word(part))) " " (plain(&part.actor.id))
                    @if let Some(reason) = reason(part) { ": " (plain(&reason)) }
                }
            }
        }
    }
}

/// Returns the server and the tool of a record. For a record about an API key, returns the key.
pub(super) fn target(event: &AuditEvent) -> String {
    let Some(target) = &event.target else { return key_of(event).unwrap_or_default() };
    let names = target.server_id.iter().chain(&target.tool_name);
    names.map(String::as_str).collect::<Vec<_>>().join(".")
}

/// Returns all matching records as lines of JSON, the oldest first, one page at a time.
pub(super) async fn export(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    query: Form,
) -> Response {
    let filter = Filter::from_query(&query);
    let params = match filter.to_params() {
        Ok(params) => params,
        Err(error) => return super::failed(&console, &viewer, &error),
    };
    let lines = stream::unfold(Some(0), move |after| {
        let (operator, mut params) = (std::sync::Arc::clone(&viewer.operator), params.clone());
        async move {
            let after: u64 = after?;
            params.limit = Some(EXPORT_PAGE);
            params.newest_first = Some(false);
            params.after = Some(after).filter(|after| *after > 0);
            let page = match operator.client.request::<KernelAudit>(&params).await {
                Ok(page) => page,
                Err(error) => return Some((Err(std::io::Error::other(error.to_string())), None)),
            };
            let lines = page.events.iter().filter_map(|event| serde_json::to_string(event).ok());
            let text: String = lines.map(|line| line + "\n").collect();
            Some((Ok(text), page.next.filter(|next| *next > after)))
        }
    });
    let headers = [
        (header::CONTENT_TYPE, "application/x-ndjson"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"audit.jsonl\""),
    ];
    (headers, Body::from_stream(lines)).into_response()
}
