//! All records of one call: the records of its trace, and the records of the question that a person answered about the
//! call.
//!
//! A call that waits too long for an answer is refused, and the agent repeats it later. Then the question belongs to
//! the trace of the first call, and the run to the trace of the repeated call. Both have the id of the question.

use mgp_types::method::KernelAudit;
use mgp_types::mgp::{AuditEvent, EventType, KernelAuditParams, KernelAuditResult};

use super::PageError;
use super::operator::Viewer;
use super::questions::approval_id;
use crate::commands::audit::number;

/// The type of the audit record of a question to an operator.
pub(super) const ASKED: &str = "dev.cloto.approval_requested";

/// The type of the audit record of an operator's answer to a question.
pub(super) const ANSWERED: &str = "dev.cloto.approval_decided";

/// The maximum number of records of one trace, and of one page of a search.
const MAX_RECORDS: u64 = 200;

/// The maximum number of pages of one search.
const MAX_PAGES: usize = 5;

/// The audit records of one call.
#[derive(Default)]
pub(super) struct History {
    /// The records, oldest first.
    pub(super) events: Vec<AuditEvent>,
    /// `true` if a search ended before the end of the log, so there may be more records.
    pub(super) is_cut: bool,
    /// `true` if too many records follow the start of the search, so that the search did not reach the end of the log.
    pub(super) is_old: bool,
}

impl History {
    /// Adds the records that a search has found.
    fn add(&mut self, search: &Search, mut found: Vec<AuditEvent>) {
        if search.is_newest_first() {
            found.reverse();
        }
        self.events.extend(found);
        self.is_cut |= search.is_cut;
        self.is_old |= search.is_cut && !search.is_newest_first();
    }
}

/// Returns the records of a trace, and of other traces with records about the same questions. The search begins at the
/// record with the number `at`, or at the end of the log.
pub(super) async fn of_trace(
    viewer: &Viewer,
    trace: &str,
    at: Option<u64>,
) -> Result<History, PageError> {
    let mut all = of_one(viewer, trace, at).await?;
    let ids: Vec<String> = all.events.iter().filter_map(approval_id).collect();
    if ids.is_empty() {
        return Ok(all);
    }
    for kind in [EventType::from(ASKED), EventType::ToolExecuted] {
        if all.events.iter().any(|event| event.event_type == kind) {
            continue;
        }
        if let Some(other) = other_record(viewer, &all.events, &ids, kind).await?
            && let Some(trace) = &other.trace_id
        {
            all.events.extend(of_one(viewer, trace, number(&other)).await?.events);
        }
    }
    all.events.sort_by(|one, other| one.timestamp.as_str().cmp(other.timestamp.as_str()));
    Ok(all)
}

async fn of_one(viewer: &Viewer, trace: &str, at: Option<u64>) -> Result<History, PageError> {
    let mut all = History::default();
    for mut search in Search::for_trace(trace, at) {
        let mut found = Vec::new();
        while let Some(query) = search.query() {
            let page = viewer.operator.client.request::<KernelAudit>(query).await?;
            found.extend(search.read(page));
            if found.len() as u64 >= MAX_RECORDS {
                break;
            }
        }
        all.add(&search, found);
    }
    Ok(all)
}

/// Searches the audit log for a record of type `kind` that contains one of these ids of questions to an operator.
async fn other_record(
    viewer: &Viewer,
    known: &[AuditEvent],
    ids: &[String],
    kind: EventType,
) -> Result<Option<AuditEvent>, PageError> {
    let target = known.iter().find_map(|event| event.target.as_ref());
    let mut params = KernelAuditParams::new();
    params.server_id = target.and_then(|target| target.server_id.clone());
    params.tool = target.and_then(|target| target.tool_name.clone());
    // Search in the direction of the wanted record: the question precedes the known records, and the call runs after
    // the answer.
    let is_run = kind == EventType::ToolExecuted;
    let answer = known.iter().find(|event| is_run && event.event_type.as_str() == ANSWERED);
    params.after = answer.or(known.first()).and_then(number);
    params.newest_first = Some(!is_run);
    params.event_type = Some(kind);
    let mut search = Search::new(params);
    while let Some(query) = search.query() {
        let page = viewer.operator.client.request::<KernelAudit>(query).await?;
        let is_meant = |event: &AuditEvent| approval_id(event).is_some_and(|id| ids.contains(&id));
        if let Some(found) = search.read(page).into_iter().find(is_meant) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// A search of the audit log, page by page.
struct Search {
    params: KernelAuditParams,
    left: usize,
    /// `true` once the search has ended before the end of the log.
    is_cut: bool,
}

impl Search {
    fn new(mut params: KernelAuditParams) -> Self {
        params.limit = Some(MAX_RECORDS);
        Self { params, left: MAX_PAGES, is_cut: false }
    }

    /// Returns the searches for the records of a trace: with `at`, one back and one forward from the record with this
    /// number, else one back from the end of the log.
    fn for_trace(trace: &str, at: Option<u64>) -> Vec<Self> {
        let search = |newest_first, after| {
            let mut params = KernelAuditParams::new();
            params.trace = Some(trace.to_owned());
            (params.newest_first, params.after) = (Some(newest_first), after);
            Self::new(params)
        };
        let back = search(true, at.map(|at| at.saturating_add(1)));
        std::iter::once(back).chain(at.map(|at| search(false, Some(at)))).collect()
    }

    fn is_newest_first(&self) -> bool {
        self.params.newest_first == Some(true)
    }

    /// Returns the query for the next page; `None` after the last one.
    fn query(&self) -> Option<&KernelAuditParams> {
        (self.left > 0).then_some(&self.params)
    }

    /// Moves the search on past a page, and returns the records of the page. A page can be empty, because one query
    /// reads only a limited part of the log.
    fn read(&mut self, page: KernelAuditResult) -> Vec<AuditEvent> {
        let has_more = page.next.is_some() && page.next != self.params.after;
        self.left = if has_more { self.left - 1 } else { 0 };
        self.is_cut = has_more && self.left == 0;
        self.params.after = page.next;
        page.events
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The number of records of the log of the tests.
    const RECORDS: u64 = 1000;

    /// The number of records that one query reads of that log.
    const READ: usize = 10;

    const NONE: Vec<u64> = Vec::new();

    /// Returns a page of a log in which the records 298, 300 and 302 have the trace `old`.
    fn page(query: &KernelAuditParams) -> KernelAuditResult {
        let is_back = query.newest_first == Some(true);
        let read: Vec<u64> = if is_back {
            (1..query.after.unwrap_or(RECORDS + 1)).rev().take(READ).collect()
        } else {
            (query.after.unwrap_or(0) + 1..=RECORDS).take(READ).collect()
        };
        let mut page = KernelAuditResult::new();
        page.next = read.last().copied().filter(|_| read.len() == READ);
        let meant = read.into_iter().filter(|number| [298, 300, 302].contains(number));
        page.events = meant
            .map(|number| {
                let event = json!({
                    "timestamp": "2026-03-04T12:00:00.000Z",
                    "trace_id": query.trace,
                    "event_type": "TOOL_EXECUTED",
                    "actor": { "type": "agent", "id": "ada" },
                    "result": "SUCCESS",
                    "_mgp": { "seq": number },
                });
                serde_json::from_str(&event.to_string()).unwrap()
            })
            .collect();
        page
    }

    /// Returns the numbers of the records that each search finds, and whether it was cut.
    fn found(at: Option<u64>) -> Vec<(Vec<u64>, bool)> {
        let run = |mut search: Search| {
            let mut numbers = Vec::new();
            while let Some(query) = search.query() {
                let page = page(query);
                numbers.extend(search.read(page).iter().filter_map(number));
            }
            (numbers, search.is_cut)
        };
        Search::for_trace("old", at).into_iter().map(run).collect()
    }

    #[test]
    fn the_records_of_an_old_call_are_found_from_one_of_them() {
        assert_eq!(found(Some(300)), [(vec![300, 298], true), (vec![302], true)]);
        assert_eq!(found(Some(302)), [(vec![302, 300, 298], true), (NONE, true)]);
    }

    #[test]
    fn a_search_reports_that_it_ended_before_the_end_of_the_log() {
        assert_eq!(found(None), [(NONE, true)], "the newest fifty records have none of it");
        let whole = [(NONE, false), (NONE, true)];
        assert_eq!(found(Some(20)), whole, "the first search reached the first record");
    }

    #[test]
    fn a_call_is_old_if_the_search_from_its_record_does_not_reach_the_newest_record() {
        let is_old = |at| {
            let mut all = History::default();
            for mut search in Search::for_trace("old", at) {
                while let Some(query) = search.query() {
                    let page = page(query);
                    search.read(page);
                }
                all.add(&search, Vec::new());
            }
            all.is_old
        };
        assert!(is_old(Some(300)));
        assert!(!is_old(Some(RECORDS - 20)), "only the search back is cut");
        assert!(!is_old(None), "the search begins at the newest record");
    }
}
