//! The audit log of a kernel (MGP §6; methods of this kernel only).

use crate::Timestamp;
use crate::mgp::{AuditEvent, EventType};
use crate::record::record;

record! {
    /// Parameters of `mgp/kernel/audit`; an event is returned if it meets all given conditions.
    pub struct KernelAuditParams {
        /// The id of the agent that caused the event.
        opt agent: Option<String>,
        /// The id of the server that the event is about.
        opt server_id: Option<String>,
        /// The name of the tool that the event is about, alone or as `SERVER.TOOL`.
        opt tool: Option<String>,
        /// The type of the event.
        opt event_type: Option<EventType>,
        /// The result of the event as commands and pages show it, e.g. `BLOCKED`, or `DENIED` for an approval that was
        /// denied.
        opt result: Option<String>,
        /// The trace id of the event; named `trace` because `trace_id` is the trace of this query itself (§6.5).
        opt trace: Option<String>,
        /// The earliest time of the event, inclusive.
        opt since: Option<Timestamp>,
        /// The latest time of the event, exclusive.
        opt until: Option<Timestamp>,
        /// The maximum number of events to return.
        opt limit: Option<u64>,
        /// `true` to return the newest events first.
        opt newest_first: Option<bool>,
        /// The `next` of the previous page.
        opt after: Option<u64>,
    }

    /// Result of `mgp/kernel/audit`.
    pub struct KernelAuditResult {
        /// The events.
        def events: Vec<AuditEvent>,
        /// The position of the next page; absent if there are certainly no more events.
        opt next: Option<u64>,
    }

    /// Parameters of `mgp/kernel/audit/verify`.
    pub struct KernelAuditVerifyParams {
    }

    /// Result of `mgp/kernel/audit/verify`.
    pub struct KernelAuditVerifyResult {
        /// The number of checked records; 0 if the chain is broken.
        req records: u64,
        /// `true` if the hash chain is intact.
        req ok: bool,
        /// The fault, if the chain is broken.
        opt error: Option<String>,
    }
}
