//! The story of one call: its steps in words, and its records as a timeline and as a table.

use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use maud::{Markup, html};
use mgp_security::result_word;
use mgp_types::mgp::AuditEvent;

use super::form::Form;
use super::layout::{self, in_order, plain};
use super::operator::Viewer;
use super::questions::Questions;
use super::steps::Story;
use super::{Shared, history, record, shown, times};
use crate::commands::audit::{Entry, short_type};

/// The maximum number of records that the timeline shows.
const MAX_DRAWN: usize = 24;

const WIDTH: f64 = 900.0;

const LEFT: f64 = 320.0;

const ROW: usize = 28;

pub(super) async fn page(
    State(console): Shared,
    Extension(viewer): Extension<Viewer>,
    Path(trace): Path<String>,
    query: Form,
) -> Response {
    shown(&console, &viewer, async {
        let at = query.get("at").and_then(|at| at.parse().ok());
        let found = history::of_trace(&viewer, &trace, at).await?;
        let events = found.events;
        let questions = Questions::of(&viewer, &events).await;
        let (console, viewer) = (&*console, &viewer);
        let story = Story { console, viewer, events: &events, questions: &questions };
        let texts = viewer.texts;
        let body = html! {
            h2 { (texts.story) " " code { (plain(&trace)) } }
            div data-live[!found.is_old] { (story.list()) }
            (story.arguments())
            h2 { (texts.records) }
            @if events.is_empty() && found.is_cut { p.dim { (texts.story_cut) } }
            @else {
                (picture(viewer, &events))
                (record::rows(console, viewer, &questions, &Entry::each(&events)))
            }
            @for event in events.iter().filter(|event| event.details.is_some()) {
                details {
                    summary { (times::moment(event.timestamp.as_str())) " " (plain(short_type(event.event_type.as_str()))) }
                    pre tabindex="0" { (details(event)) }
                }
            }
        };
        Ok(layout::page(console, viewer, "/record", &query, &body))
    })
    .await
}

fn details(event: &AuditEvent) -> Markup {
    let details = event.details.as_ref();
    let text = details.and_then(|details| serde_json::to_string_pretty(details).ok());
    in_order(&text.unwrap_or_default())
}

/// Returns the time of each record in milliseconds since the first record.
fn offsets(events: &[AuditEvent]) -> Vec<f64> {
    let times: Vec<_> = events.iter().map(|event| event.timestamp.to_system_time()).collect();
    let first = times.iter().flatten().min().copied();
    let since = |time: &Option<std::time::SystemTime>| {
        let passed = time.as_ref()?.duration_since(first?).ok()?;
        Some(passed.as_secs_f64() * 1000.0)
    };
    times.iter().map(|time| since(time).unwrap_or_default()).collect()
}

/// Draws each of the first [`MAX_DRAWN`] records as a bar from its own time to the time of the next record.
fn picture(viewer: &Viewer, events: &[AuditEvent]) -> Markup {
    let events = &events[..events.len().min(MAX_DRAWN)];
    let offsets = offsets(events);
    let Some(last) = offsets.last().copied() else {
        return html! { p.dim { (viewer.texts.none) } };
    };
    let scale = (WIDTH - LEFT - 110.0) / last.max(1.0);
    let height = ROW * events.len() + 10;
    html! {
        div.scroll role="region" aria-label=(viewer.texts.story) tabindex="0" {
            svg.story role="img" aria-label=(viewer.texts.story) viewBox=(format!("0 0 {WIDTH} {height}")) {
                line.axis x1=(LEFT) y1="0" x2=(LEFT) y2=(height) {}
                @for (at, event) in events.iter().enumerate() {
                    @let begin = LEFT + offsets[at] * scale;
                    @let end = offsets.get(at + 1).map_or(begin, |next| LEFT + next * scale);
                    @let top = ROW * at + 6;
                    @let name = mgp_types::clip(&format!("{} {}", short_type(event.event_type.as_str()), record::target(event)), 44);
                    text x="0" y=(top + 15) { (plain(&name)) }
                    rect class={ "bar " (color(event)) } x=(format!("{begin:.1}")) y=(top) width=(format!("{:.1}", (end - begin).max(4.0))) height="18" rx="3" {}
                    text x=(format!("{:.1}", end.max(begin + 4.0) + 6.0)) y=(top + 15) { "+" (times::words(Duration::from_secs_f64(offsets[at] / 1000.0))) }
                }
            }
        }
    }
}

fn color(event: &AuditEvent) -> &'static str {
    match result_word(event) {
        "SUCCESS" => "good",
        "BLOCKED" | "FAILURE" | "DENIED" => "bad",
        _ => "warn",
    }
}
