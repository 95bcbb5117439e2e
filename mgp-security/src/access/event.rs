//! The events of entries and of refused administration (MGP §6.4).
//!
//! Applies to: both.

use mgp_types::mgp::{AccessEntry, Actor, AuditEvent, AuditResult, EventType, Target};
use mgp_types::service::{Principal, Rule};
use mgp_types::{Object, RpcError, Timestamp};
use serde::Serialize;

/// An entry was made, in place of another where there was one.
pub(super) fn granted(
    by: &Principal,
    trace: Option<&str>,
    entry: &AccessEntry,
    before: Option<&AccessEntry>,
) -> AuditEvent {
    let mut event = of_entry(EventType::AccessGranted, Actor::of(by), entry);
    event.trace_id = trace.map(str::to_owned);
    if let Some(before) = before {
        detail(&mut event, "before", before);
    }
    event
}

/// An entry was taken back.
pub(super) fn revoked(by: &Principal, trace: Option<&str>, entry: &AccessEntry) -> AuditEvent {
    let mut event = of_entry(EventType::AccessRevoked, Actor::of(by), entry);
    event.trace_id = trace.map(str::to_owned);
    detail(&mut event, "before", entry);
    event
}

/// The time of an entry was over.
pub(super) fn expired(entry: &AccessEntry) -> AuditEvent {
    let mut event = of_entry(EventType::AccessRevoked, Actor::new("kernel", "kernel"), entry);
    detail(&mut event, "before", entry);
    detail(&mut event, "cause", "expired");
    event
}

/// Somebody called an administrative method and may not.
pub(super) fn refused(
    by: &Principal,
    trace: Option<&str>,
    method: &str,
    server: Option<&str>,
    error: &RpcError,
) -> AuditEvent {
    let mut event = new(EventType::PermissionDenied, Actor::of(by), AuditResult::Blocked);
    event.trace_id = trace.map(str::to_owned);
    if let Some(server) = server {
        event.target.get_or_insert_default().server_id = Some(server.to_owned());
    }
    detail(&mut event, "method", method);
    detail(&mut event, "code", &error.code());
    if let Some(reason) = error.code().name() {
        detail(&mut event, "reason", reason);
    }
    if let Some(rule) = Rule::of(error) {
        detail(&mut event, "rule", rule.as_str());
    }
    event
}

fn of_entry(event_type: EventType, by: Actor, entry: &AccessEntry) -> AuditEvent {
    let mut event = new(event_type, by, AuditResult::Success);
    let mut target = Target::new();
    target.server_id = Some(entry.server_id.clone());
    target.tool_name.clone_from(&entry.tool_name);
    event.target = Some(target);
    detail(&mut event, "agent_id", &entry.agent_id);
    detail(&mut event, "entry_type", &entry.entry_type);
    detail(&mut event, "permission", &entry.permission);
    if let Some(justification) = &entry.justification {
        detail(&mut event, "justification", justification);
    }
    if let Some(end) = &entry.expires_at {
        detail(&mut event, "expires_at", end);
    }
    event
}

fn new(event_type: EventType, by: Actor, result: AuditResult) -> AuditEvent {
    AuditEvent::new(Timestamp::now(), event_type, by, result)
}

fn detail<T: Serialize + ?Sized>(event: &mut AuditEvent, name: &str, value: &T) {
    // Words and entries can always be written.
    let _ = event.details.get_or_insert_with(Object::new).encode(name, value);
}
