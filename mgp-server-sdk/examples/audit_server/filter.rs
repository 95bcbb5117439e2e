//! A filter for events, and pages of matching events.

use std::io;
use std::ops::ControlFlow;
use std::time::SystemTime;

use mgp_server_sdk::prelude::*;
use mgp_types::Timestamp;
use mgp_types::mgp::AuditEvent;

use crate::journal::Journal;

/// The default number of events on a page.
const DEFAULT_LIMIT: usize = 100;

const MAX_LIMIT: usize = 1000;

/// The maximum size of a page, in bytes of JSON. It is limited because a whole answer is one line on the wire.
const MAX_PAGE_BYTES: usize = 512 * 1024;

/// The maximum number of events that one query examines; the returned cursor continues after them.
const MAX_READ: usize = 100_000;

/// The wanted events; members that are not set match all.
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
    /// Events at or after this time (RFC 3339).
    since: Option<String>,
    /// Events before this time (RFC 3339).
    until: Option<String>,
    /// The maximum number of events: 100 by default, at most 1,000.
    limit: Option<usize>,
    /// The `next_cursor` of the previous answer.
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
                None => {
                    Err(ToolError(format!("`{text}` is not a time such as 2026-03-04T05:06:07Z")))
                }
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

#[derive(Default)]
pub(crate) struct Page {
    /// The events on the page, which match the filter.
    pub(crate) events: Vec<AuditEvent>,
    /// The cursor of the next page; `None` on the last page.
    pub(crate) next_cursor: Option<String>,
}

impl Filter {
    pub(crate) fn page(&self, journal: &Journal) -> Result<Page, ToolError> {
        let span = Span::parse(self.since.as_deref(), self.until.as_deref())?;
        let begin = match &self.cursor {
            None => 0,
            Some(cursor) => cursor
                .parse()
                .map_err(|_| ToolError(format!("`{cursor}` is not the cursor of an answer")))?,
        };
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
        let (mut page, mut bytes) = (Page::default(), 0);
        let result: io::Result<()> = journal.for_each(begin, |index, event| {
            let is_wanted = span.has(&event) && self.has(&event);
            bytes += if is_wanted { size(&event) } else { 0 };
            let is_full = page.events.len() == limit
                || index - begin == MAX_READ
                // A page has at least one event, even a very large one; otherwise the cursor could never move past it.
                || bytes > MAX_PAGE_BYTES && !page.events.is_empty();
            if is_full {
                page.next_cursor = Some(index.to_string());
                return ControlFlow::Break(());
            }
            if is_wanted {
                page.events.push(event);
            }
            ControlFlow::Continue(())
        });
        result.map_err(|error| ToolError(format!("cannot read the file: {error}")))?;
        Ok(page)
    }

    /// Returns whether this filter requests the first page: it has no cursor.
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

/// Returns whether an agent caused an event, or is the subject of it.
fn is_about(event: &AuditEvent, agent: &str) -> bool {
    let acted = event.actor.kind == "agent" && event.actor.id == agent;
    let details = event.details.as_ref();
    let subject =
        || details.and_then(|details| details.decode::<String>("agent_id").ok().flatten());
    acted || subject().is_some_and(|subject| subject == agent)
}

fn size(event: &AuditEvent) -> usize {
    serde_json::to_string(event).map_or(0, |text| text.len())
}
