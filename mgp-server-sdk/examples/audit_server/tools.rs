//! Questions about the events.

use std::collections::BTreeMap;
use std::sync::Arc;

use mgp_server_sdk::prelude::*;
use mgp_types::mgp::AuditEvent;

use crate::filter::{Filter, Span};
use crate::journal::{Journal, Walk};

/// How many agents, and tools, are counted by name; further ones count as `…`.
const NAMES_MAX: usize = 1000;

/// What was found.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Found {
    /// The events, in the order they came.
    #[schemars(with = "Vec<serde_json::Map<String, serde_json::Value>>")]
    events: Vec<AuditEvent>,
    /// Where to go on; absent at the end.
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
) -> Result<Json<Found>, ToolError> {
    let page = filter.page(&journal)?;
    Ok(Json(Found { events: page.events, next_cursor: page.next_cursor }))
}

/// Which events are counted.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct When {
    /// Events of this time and later (RFC 3339).
    since: Option<String>,
    /// Events before this time (RFC 3339).
    until: Option<String>,
}

/// How many events there are.
#[derive(Default, Serialize, JsonSchema)]
pub(crate) struct Stats {
    /// All of them.
    total: u64,
    by_type: BTreeMap<String, u64>,
    by_result: BTreeMap<String, u64>,
    by_agent: BTreeMap<String, u64>,
    /// As `server/tool`.
    by_tool: BTreeMap<String, u64>,
    /// The time of the first event that came.
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<String>,
    /// The time of the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<String>,
    /// Numbers that did not come yet.
    missing: u64,
    /// Numbers that nobody has any more.
    lost: u64,
    /// Events there was no room for, since this server started.
    refused: u64,
}

/// Counts audit events by type, result, agent and tool.
#[tool(
    name = "get_audit_stats",
    read_only,
    security(risk = "safe", validator = "none", reversible)
)]
pub(crate) fn stats(
    Args(when): Args<When>,
    State(journal): State<Arc<Journal>>,
) -> Result<Json<Stats>, ToolError> {
    let span = Span::parse(when.since.as_deref(), when.until.as_deref())?;
    let mut stats = Stats::default();
    let walked = journal.walk(0, |_, event| {
        if span.has(&event) {
            stats.count(&event);
        }
        Walk::On
    });
    walked.map_err(|error| ToolError(format!("the file cannot be read: {error}")))?;
    (stats.missing, stats.lost, stats.refused) = journal.holes();
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
    let is_known = counts.contains_key(name) || counts.len() < NAMES_MAX;
    *counts.entry(if is_known { name } else { "…" }.to_owned()).or_default() += 1;
}
