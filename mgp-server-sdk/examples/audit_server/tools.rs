//! The tools that query the stored events.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use mgp_server_sdk::prelude::*;
use mgp_types::mgp::AuditEvent;

use crate::filter::{Filter, Span};
use crate::journal::Journal;

/// The maximum number of names in each group of counts, e.g. of agents; all other names are counted under `…`.
const MAX_NAMES: usize = 1000;

/// A page of matching events.
#[derive(Serialize, JsonSchema)]
pub(crate) struct EventPage {
    /// The events, in order of arrival.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    events: Vec<AuditEvent>,
    /// The cursor of the next page; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_cursor: Option<String>,
}

/// Finds audit events.
#[tool(
    name = "query_audit_log",
    read_only,
    security(risk = "safe", validator = "none", reversible)
)]
pub(crate) fn query(
    Args(filter): Args<Filter>,
    State(journal): State<Arc<Journal>>,
) -> Result<Json<EventPage>, ToolError> {
    let page = filter.page(&journal)?;
    Ok(Json(EventPage { events: page.events, next_cursor: page.next_cursor }))
}

/// The time range of the counted events.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TimeRange {
    /// Events at or after this time (RFC 3339).
    since: Option<String>,
    /// Events before this time (RFC 3339).
    until: Option<String>,
}

/// Counts of events.
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Stats {
    /// The number of all events.
    total: u64,
    by_type: BTreeMap<String, u64>,
    by_result: BTreeMap<String, u64>,
    by_agent: BTreeMap<String, u64>,
    /// Keyed by `server/tool`.
    by_tool: BTreeMap<String, u64>,
    /// The time of the event that arrived first.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// The time of the event that arrived last.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// The number of missing events.
    missing: u64,
    /// The number of missing events that the client no longer has.
    lost: u64,
    /// The number of events refused for lack of room, since this server started.
    refused: u64,
}

/// Counts audit events by type, result, agent and tool.
#[tool(
    name = "get_audit_stats",
    read_only,
    security(risk = "safe", validator = "none", reversible)
)]
pub(crate) fn stats(
    Args(range): Args<TimeRange>,
    State(journal): State<Arc<Journal>>,
) -> Result<Json<Stats>, ToolError> {
    let span = Span::parse(range.since.as_deref(), range.until.as_deref())?;
    let mut stats = Stats::default();
    let result = journal.for_each(0, |_, event| {
        if span.has(&event) {
            stats.count(&event);
        }
        ControlFlow::Continue(())
    });
    result.map_err(|error| ToolError(format!("cannot read the file: {error}")))?;
    (stats.missing, stats.lost, stats.refused) = journal.gap_counts();
    Ok(Json(stats))
}

impl Stats {
    fn count(&mut self, event: &AuditEvent) {
        self.total += 1;
        add(&mut self.by_type, event.event_type.as_str());
        add(&mut self.by_result, event.result.as_str());
        if event.actor.kind == "agent" {
            add(&mut self.by_agent, &event.actor.id);
        }
        let target = event.target.as_ref();
        if let Some(tool) = target.and_then(|target| target.tool_name.as_deref()) {
            let server = target.and_then(|target| target.server_id.as_deref()).unwrap_or_default();
            add(&mut self.by_tool, &format!("{server}/{tool}"));
        }
        let time = event.timestamp.as_str();
        self.first.get_or_insert_with(|| time.to_owned());
        self.last = Some(time.to_owned());
    }
}

fn add(counts: &mut BTreeMap<String, u64>, name: &str) {
    let is_known = counts.contains_key(name) || counts.len() < MAX_NAMES;
    *counts.entry(if is_known { name } else { "…" }.to_owned()).or_default() += 1;
}
