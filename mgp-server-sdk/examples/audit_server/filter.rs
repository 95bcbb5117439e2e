//! Which events somebody wants, and pages of them.

use std::io;
use std::time::SystemTime;

use mgp_server_sdk::prelude::*;
use mgp_types::Timestamp;
use mgp_types::mgp::AuditEvent;

use crate::journal::{Journal, Walk};

/// How many events a page has where nothing is said.
const USUAL: usize = 100;

/// How many it has at most.
const MOST: usize = 1000;

/// How large a page gets, in bytes of JSON: an answer is one line of the wire.
const BYTES: usize = 512 * 1024;

/// How many events one question looks at; the cursor goes on behind them.
const LOOKED_AT: usize = 100_000;

/// Which events are wanted; what is not said matches all.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Filter {
    /// Events of this agent, or about it.
    agent_id: Option<String>,
    /// Events about this server.
    server_id: Option<String>,
    /// Events about this tool.
    tool_name: Option<String>,
    /// Events of this type, such as `TOOL_BLOCKED`.
    event_type: Option<String>,
    /// Events of this trace.
    trace_id: Option<String>,
    /// Events of this time and later (RFC 3339).
    since: Option<String>,
    /// Events before this time (RFC 3339).
    until: Option<String>,
    /// How many at most: 100 if not said, 1,000 at most.
    limit: Option<usize>,
    /// Where to go on: the `next_cursor` of the answer before.
    cursor: Option<String>,
}

/// A span of time.
pub(crate) struct Span {
    since: Option<SystemTime>,
    until: Option<SystemTime>,
}

impl Span {
    pub(crate) fn parse(since: Option<&str>, until: Option<&str>) -> Result<Self, ToolError> {
        let time = |text: Option<&str>| match text {
            None => Ok(None),
            Some(text) => match Timestamp::from(text).to_system_time() {
                Some(time) => Ok(Some(time)),
                None => Err(ToolError(format!("`{text}` is no time as 2026-03-04T05:06:07Z is"))),
            },
        };
        Ok(Self { since: time(since)?, until: time(until)? })
    }

    pub(crate) fn has(&self, event: &AuditEvent) -> bool {
        let Some(at) = event.timestamp.to_system_time() else {
            return self.since.is_none() && self.until.is_none();
        };
        self.since.is_none_or(|since| at >= since) && self.until.is_none_or(|until| at < until)
    }
}

/// A page of events.
#[derive(Default)]
pub(crate) struct Page {
    /// The events.
    pub(crate) events: Vec<AuditEvent>,
    /// Where the next page begins; none at the end.
    pub(crate) next_cursor: Option<String>,
}

impl Filter {
    /// Looks up a page.
    pub(crate) fn page(&self, journal: &Journal) -> Result<Page, ToolError> {
        let span = Span::parse(self.since.as_deref(), self.until.as_deref())?;
        let begin = match &self.cursor {
            None => 0,
            Some(cursor) => cursor
                .parse()
                .map_err(|_| ToolError(format!("`{cursor}` is no cursor of an answer")))?,
        };
        let limit = self.limit.unwrap_or(USUAL).clamp(1, MOST);
        let (mut page, mut bytes) = (Page::default(), 0);
        let walked: io::Result<()> = journal.walk(begin, |place, event| {
            let is_wanted = span.has(&event) && self.has(&event);
            bytes += if is_wanted { size(&event) } else { 0 };
            let is_full = page.events.len() == limit
                || place - begin == LOOKED_AT
                // One event always fits, or nobody would get past it.
                || bytes > BYTES && !page.events.is_empty();
            if is_full {
                page.next_cursor = Some(place.to_string());
                return Walk::Enough;
            }
            if is_wanted {
                page.events.push(event);
            }
            Walk::On
        });
        walked.map_err(|error| ToolError(format!("the file cannot be read: {error}")))?;
        Ok(page)
    }

    /// Whether it asks for the first page.
    pub(crate) fn is_first(&self) -> bool {
        self.cursor.is_none()
    }

    fn has(&self, event: &AuditEvent) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        let target = event.target.as_ref();
        is(&self.event_type, Some(event.event_type.as_str()))
            && is(&self.trace_id, event.trace_id.as_deref())
            && is(&self.server_id, target.and_then(|target| target.server_id.as_deref()))
            && is(&self.tool_name, target.and_then(|target| target.tool_name.as_deref()))
            && self.agent_id.as_deref().is_none_or(|agent| is_about(event, agent))
    }
}

/// Whether an agent did it, or it was done for one.
fn is_about(event: &AuditEvent, agent: &str) -> bool {
    let acted = event.actor.kind == "agent" && event.actor.id == agent;
    let details = event.details.as_ref();
    let meant = || details.and_then(|details| details.decode::<String>("agent_id").ok().flatten());
    acted || meant().is_some_and(|meant| meant == agent)
}

fn size(event: &AuditEvent) -> usize {
    serde_json::to_string(event).map_or(0, |text| text.len())
}
