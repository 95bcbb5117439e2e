//! All records of one call: those of its trace, and those of the question that a person answered about it.
//!
//! A call that waits too long is refused, and repeated after the answer: then the question belongs to the trace of the
//! first call, and the run to that of the repeated one. Both name the id of the question.

use mgp_types::method::KernelAudit;
use mgp_types::mgp::{AuditEvent, EventType, KernelAuditParams};

use super::PageError;
use super::operator::Viewer;
use super::questions::approval_id;

/// The type of the record of a question.
pub(super) const ASKED: &str = "dev.cloto.approval_requested";

/// The type of the record of its answer.
pub(super) const ANSWERED: &str = "dev.cloto.approval_decided";

/// The bound of records of one trace, and of one page of a search.
const MAX_RECORDS: u64 = 200;

/// The bound of pages of one search.
const MAX_PAGES: usize = 5;

/// Returns the records of a trace, and of the traces that the same questions were about, oldest first.
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

/// Returns the trace of a record of a type that names one of these questions, in the neighbourhood of the known ones.
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
    // The question is older than what is known, the run newer.
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

/// The pages of a search, newest first.
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

    /// Returns the next page, which may be empty; one query reads only a limited part of the log.
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
