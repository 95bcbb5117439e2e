//! Groups the records of an audit log by call, because one refused call has up to five records.

use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use mgp_security::CallApprovals;
use mgp_types::mgp::{AuditEvent, EventType};

/// The tolerance for comparing the time of a record with the end of its call. Two clocks are involved: the end is the
/// recorded start plus a duration, which another clock measures.
const TOLERANCE: Duration = Duration::from_millis(100);

/// A record, and the records of the same call that are only details of it: the question to a person, the answer, and
/// the second record of a refusal.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) event: &'a AuditEvent,
    /// The records that are details of `event`, oldest first.
    pub(crate) parts: Vec<&'a AuditEvent>,
}

/// The values that connect the record of a call with its details.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Link<'a> {
    /// The id of a question to a person. The records of the question, of its answer and of the call contain this id.
    Question(String),
    /// The trace, the server and the tool of a call.
    Call(&'a str, Option<&'a str>, &'a str),
    /// The trace, the server and the tool of a refused call, and the code of the refusal. The code helps to distinguish
    /// calls that run at the same time and have the same trace.
    Refusal(&'a str, Option<&'a str>, &'a str, i64),
}

/// For each link, the calls that have it, in the order of their ends. A call is given by its end and the index of its
/// record in the list.
type Calls<'a> = HashMap<Link<'a>, Vec<(SystemTime, usize)>>;

impl<'a> Entry<'a> {
    /// Returns an entry without details for each record.
    pub(crate) fn each(events: &'a [AuditEvent]) -> Vec<Self> {
        events.iter().map(|event| Self { event, parts: Vec::new() }).collect()
    }

    /// Returns an entry for each record that is not a detail of another record; the order is kept.
    pub(crate) fn by_call(events: &'a [AuditEvent]) -> Vec<Self> {
        let calls = calls(events);
        let owners: Vec<Option<usize>> = events.iter().map(|event| owner(&calls, event)).collect();
        let mut parts: HashMap<usize, Vec<&'a AuditEvent>> = HashMap::new();
        for (event, owner) in events.iter().zip(&owners) {
            if let Some(owner) = owner {
                parts.entry(*owner).or_default().push(event);
            }
        }
        let mut entries = Vec::new();
        for ((at, event), owner) in events.iter().enumerate().zip(owners) {
            if owner.is_none() {
                let mut parts = parts.remove(&at).unwrap_or_default();
                parts.sort_by(|one, other| one.timestamp.as_str().cmp(other.timestamp.as_str()));
                entries.push(Self { event, parts });
            }
        }
        entries
    }
}

fn calls(events: &[AuditEvent]) -> Calls<'_> {
    let mut calls = Calls::new();
    for (at, event) in events.iter().enumerate() {
        let is_call = matches!(event.event_type, EventType::ToolExecuted | EventType::ToolBlocked);
        let Some(end) = event.timestamp.to_system_time().filter(|_| is_call) else { continue };
        let is_refused = matches!(event.event_type, EventType::ToolBlocked);
        let refused = refusal(event).filter(|_| is_refused);
        for link in question(event).into_iter().chain(call(event)).chain(refused) {
            calls.entry(link).or_default().push((end, at));
        }
    }
    for ends in calls.values_mut() {
        ends.sort_unstable();
    }
    calls
}

/// If this record is a detail of a call, returns the index of the call's record. Returns `None` for other records, e.g.
/// for an answer after the end of its call. Several calls can have the same link. In this case, the second record of a
/// refusal belongs to the call whose end is closest in time. Any other record belongs to the first call that ends after
/// the record.
fn owner(calls: &Calls<'_>, event: &AuditEvent) -> Option<usize> {
    let time = event.timestamp.to_system_time()?;
    let link = match event.event_type.as_str() {
        "dev.cloto.approval_requested" | "dev.cloto.approval_decided" => question(event),
        "dev.cloto.confirmation_given" | "dev.cloto.confirmation_denied" => call(event),
        "PERMISSION_DENIED" | "VALIDATION_FAILED" | "CODE_REJECTED" => {
            let ends = calls.get(&refusal(event)?)?.iter();
            let distance = |end: SystemTime| {
                end.duration_since(time).unwrap_or_else(|before| before.duration())
            };
            return ends.min_by_key(|(end, _)| distance(*end)).map(|(_, place)| *place);
        }
        _ => None,
    };
    let ends = calls.get(&link?)?;
    let is_over = |end: SystemTime| time.duration_since(end).is_ok_and(|since| since > TOLERANCE);
    let first = ends.partition_point(|(end, _)| is_over(*end));
    ends.get(first).map(|(_, place)| *place)
}

/// Returns the question that a record names. Returns `None` for an approval of later calls: it also has an id, but
/// applies to more than this call.
fn question(event: &AuditEvent) -> Option<Link<'_>> {
    let id: String = event.details.as_ref()?.decode("approval_id").ok()??;
    (!CallApprovals::is_id(&id)).then_some(Link::Question(id))
}

fn call(event: &AuditEvent) -> Option<Link<'_>> {
    let target = event.target.as_ref()?;
    let (trace, tool) = (event.trace_id.as_deref()?, target.tool_name.as_deref()?);
    Some(Link::Call(trace, target.server_id.as_deref(), tool))
}

/// Returns the refused call that a record names; `None` if the record names no call, or has no code: it is then an
/// operator's decision about a permission.
fn refusal(event: &AuditEvent) -> Option<Link<'_>> {
    let code: i64 = event.details.as_ref()?.decode("code").ok()??;
    let Link::Call(trace, server, tool) = call(event)? else { return None };
    Some(Link::Refusal(trace, server, tool, code))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns a record of a call of `desk.wipe` at this number of seconds after 12:00.
    fn record(seconds: u32, kind: &str, trace: &str, details: &Value) -> AuditEvent {
        record_at(seconds * 1000, kind, trace, details)
    }

    /// Returns a record of a call of `desk.wipe` at this number of milliseconds after 12:00.
    fn record_at(millis: u32, kind: &str, trace: &str, details: &Value) -> AuditEvent {
        let (seconds, millis) = (millis / 1000, millis % 1000);
        let event = json!({
            "timestamp": format!("2026-03-04T12:00:{seconds:02}.{millis:03}Z"),
            "trace_id": trace,
            "event_type": kind,
            "actor": { "type": "agent", "id": "ada" },
            "target": { "server_id": "desk", "tool_name": "wipe" },
            "result": "BLOCKED",
            "details": details,
        });
        serde_json::from_str(&event.to_string()).unwrap()
    }

    /// Asserts that grouping `events`, in this and in the reverse order, gives the expected entries: the type of each,
    /// with the types of its details.
    #[track_caller]
    fn check(events: &[AuditEvent], expected: &[(&str, &[&str])]) {
        let newest_first: Vec<_> = events.iter().rev().cloned().collect();
        let mut reversed = Entry::by_call(&newest_first);
        reversed.reverse();
        for entries in [Entry::by_call(events), reversed] {
            let found = entries.iter().map(|entry| {
                let parts = entry.parts.iter().map(|part| part.event_type.as_str());
                (entry.event.event_type.as_str(), parts.collect())
            });
            let found: Vec<(&str, Vec<&str>)> = found.collect();
            let expected = expected.iter().map(|(kind, parts)| (*kind, parts.to_vec()));
            let expected: Vec<(&str, Vec<&str>)> = expected.collect();
            assert_eq!(found, expected);
        }
    }

    const ASKED: &str = "dev.cloto.approval_requested";
    const ANSWERED: &str = "dev.cloto.approval_decided";
    const NONE: &[&str] = &[];

    #[test]
    fn the_question_the_answer_and_the_reason_are_details_of_the_refused_call() {
        let question = json!({ "approval_id": "5f0c", "code": 1000 });
        let answer = json!({ "approval_id": "5f0c", "decision": "denied" });
        let events = [
            record(1, ASKED, "t", &question),
            record(5, ANSWERED, "t", &answer),
            record(6, "dev.cloto.confirmation_denied", "t", &json!({ "binding": "0" })),
            record(7, "TOOL_BLOCKED", "t", &question),
            record(7, "PERMISSION_DENIED", "t", &json!({ "code": 1000 })),
        ];
        let parts = [ASKED, ANSWERED, "dev.cloto.confirmation_denied", "PERMISSION_DENIED"];
        check(&events, &[("TOOL_BLOCKED", &parts)]);
        assert_eq!(Entry::each(&events).len(), 5);
        check(
            &events[..3],
            &[(ASKED, NONE), (ANSWERED, NONE), ("dev.cloto.confirmation_denied", NONE)],
        );
    }

    #[test]
    fn a_late_answer_belongs_to_the_repeated_call_and_is_an_entry_until_then() {
        let question = json!({ "approval_id": "5f0c", "code": 1000 });
        let answer = json!({ "approval_id": "5f0c", "decision": "approved" });
        let events = [
            record(1, ASKED, "first", &question),
            record(5, "TOOL_BLOCKED", "first", &question),
            record(30, ANSWERED, "first", &answer),
            record(40, "TOOL_EXECUTED", "second", &json!({ "approval_id": "5f0c" })),
        ];
        check(&events[..3], &[("TOOL_BLOCKED", &[ASKED]), (ANSWERED, NONE)]);
        check(&events, &[("TOOL_BLOCKED", &[ASKED]), ("TOOL_EXECUTED", &[ANSWERED])]);
    }

    #[test]
    fn the_reason_of_a_refusal_belongs_to_the_refused_call_among_several_of_one_trace() {
        let (invalid, denied) = (json!({ "code": 1010 }), json!({ "code": 1000 }));
        let (failed, permission): (&[&str], &[&str]) =
            (&["VALIDATION_FAILED"], &["PERMISSION_DENIED"]);
        let events = [
            record_at(0, "TOOL_EXECUTED", "t", &json!({})),
            record_at(10, "TOOL_BLOCKED", "t", &invalid),
            record_at(10, "VALIDATION_FAILED", "t", &invalid),
        ];
        check(&events, &[("TOOL_EXECUTED", NONE), ("TOOL_BLOCKED", failed)]);
        // A detail with another code or another time belongs to another call.
        let events = [
            record_at(0, "TOOL_BLOCKED", "t", &denied),
            record_at(20, "TOOL_BLOCKED", "t", &invalid),
            record_at(40, "TOOL_BLOCKED", "t", &invalid),
            record_at(41, "VALIDATION_FAILED", "t", &invalid),
            record_at(42, "PERMISSION_DENIED", "t", &denied),
        ];
        let expected =
            [("TOOL_BLOCKED", permission), ("TOOL_BLOCKED", NONE), ("TOOL_BLOCKED", failed)];
        check(&events, &expected);
    }

    #[test]
    fn decisions_for_later_calls_and_records_of_other_calls_are_entries() {
        let later = json!({ "approval_id": "call-7", "decision": "approved" });
        let events = [
            record(1, ASKED, "t", &json!({ "approval_id": "other" })),
            record(2, "PERMISSION_DENIED", "u", &json!({ "code": 1000 })),
            record(3, "PERMISSION_DENIED", "t", &json!({ "permission": "camera" })),
            record(4, ANSWERED, "t", &later),
            record(5, "TOOL_BLOCKED", "t", &json!({ "approval_id": "5f0c", "code": 1000 })),
        ];
        let kinds = [ASKED, "PERMISSION_DENIED", "PERMISSION_DENIED", ANSWERED, "TOOL_BLOCKED"];
        check(&events, &kinds.map(|kind| (kind, NONE)));
    }
}
