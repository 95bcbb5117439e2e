//! All records of one call: those of its trace, and those of the question that a person answered about it.
//!
//! A call that waits too long for an answer is refused, and the agent repeats it later. Then the question belongs to
//! the trace of the first call, and the run to the trace of the repeated call. Both have the id of the question.

use mgp_types::method::KernelAudit;
use mgp_types::mgp::{AuditEvent, EventType, KernelAuditParams};

use super::PageError;
use super::operator::Viewer;
use super::questions::approval_id;

/// The type of the audit record of a question to an operator.
pub(super) const ASKED: &str = "dev.cloto.approval_requested";

/// The type of the audit record of the answer to such a question.
pub(super) const ANSWERED: &str = "dev.cloto.approval_decided";

/// The maximum number of records of one trace, and of one page of a search.
const MAX_RECORDS: u64 = 200;

/// The maximum number of pages of one search.
const MAX_PAGES: usize = 5;

/// Returns the records of a trace, and of other traces with records about the same questions, oldest first.
pub(super) async fn of_trace(viewer: &Viewer, trace: &str) -> Result<Vec<AuditEvent>, PageError> {
    let mut all = of_one(viewer, trace).await?;
    let ids: Vec<String> = all.iter().filter_map(approval_id).collect();
    if ids.is_empty() {
        return Ok(all);
    }
    for kind in [EventType::from(ASKED), EventType::ToolExecuted] {
        if all.iter().any(|event| event.event_type == kind) {
            continue;
        }
        if let Some(other) = other_trace(viewer, &all, &ids, kind).await? {
            all.extend(of_one(viewer, &other).await?);
        }
    }
    all.sort_by(|one, other| one.timestamp.as_str().cmp(other.timestamp.as_str()));
    Ok(all)
}

async fn of_one(viewer: &Viewer, trace: &str) -> Result<Vec<AuditEvent>, PageError> {
    let mut params = KernelAuditParams::new();
    params.trace = Some(trace.to_owned());
    let mut found = Vec::new();
    let mut events = Events::new(params);
    while let Some(page) = events.next(viewer).await? {
        found.extend(page);
        if found.len() as u64 >= MAX_RECORDS {
            break;
        }
    }
    found.reverse();
    Ok(found)
}

/// Searches the audit log for a record of type `kind` that names one of these questions, and returns its trace.
async fn other_trace(
    viewer: &Viewer,
    known: &[AuditEvent],
    ids: &[String],
    kind: EventType,
) -> Result<Option<String>, PageError> {
    let Some(first) = known.first() else { return Ok(None) };
    let target = known.iter().find_map(|event| event.target.as_ref());
    let mut params = KernelAuditParams::new();
    params.server_id = target.and_then(|target| target.server_id.clone());
    params.tool = target.and_then(|target| target.tool_name.clone());
    // The log has the question before the known records, and the run of its call after them.
    if kind == EventType::ToolExecuted {
        params.since = Some(first.timestamp.clone());
    } else {
        params.until = Some(first.timestamp.clone());
    }
    params.event_type = Some(kind);
    let mut events = Events::new(params);
    while let Some(page) = events.next(viewer).await? {
        let is_meant = |event: &&AuditEvent| approval_id(event).is_some_and(|id| ids.contains(&id));
        if let Some(found) = page.iter().find(is_meant) {
            return Ok(found.trace_id.clone());
        }
    }
    Ok(None)
}

/// A search of the audit log, which returns its pages from the newest to the oldest.
struct Events {
    params: KernelAuditParams,
    left: usize,
}

impl Events {
    fn new(mut params: KernelAuditParams) -> Self {
        params.newest_first = Some(true);
        params.limit = Some(MAX_RECORDS);
        Self { params, left: MAX_PAGES }
    }

    /// Returns the next page; `None` after the last one. A page can be empty, because one query reads only a limited
    /// part of the log.
    async fn next(&mut self, viewer: &Viewer) -> Result<Option<Vec<AuditEvent>>, PageError> {
        if self.left == 0 {
            return Ok(None);
        }
        let page = viewer.operator.client.request::<KernelAudit>(&self.params).await?;
        let has_more = page.next.is_some() && page.next != self.params.after;
        self.left = if has_more { self.left - 1 } else { 0 };
        self.params.after = page.next;
        Ok(Some(page.events))
    }
}
