//! The audit log of a kernel (MGP §6; methods of this kernel only).

use crate::Timestamp;
use crate::mgp::{AuditEvent, EventType};
use crate::record::record;

record! {
    /// Parameters of `mgp/kernel/audit`; all conditions must match.
    pub struct KernelAuditParams {
        /// The actor.
        opt agent: Option<String>,
        /// About this server.
        opt server_id: Option<String>,
        /// About this tool.
        opt tool: Option<String>,
        /// The type of event.
        opt event_type: Option<EventType>,
        /// The trace; `trace_id` would be the trace of this query itself (§6.5).
        opt trace: Option<String>,
        /// From this time on.
        opt since: Option<Timestamp>,
        /// Before this time.
        opt until: Option<Timestamp>,
        /// The maximum number of results.
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
        /// The position of the next page, if there may be one.
        opt next: Option<u64>,
    }

    /// Parameters of `mgp/kernel/audit/verify`.
    pub struct KernelAuditVerifyParams {
    }

    /// Result of `mgp/kernel/audit/verify`.
    pub struct KernelAuditVerifyResult {
        /// The number of checked records; 0 if the chain is broken.
        req records: u64,
        /// `true` if the chain is intact.
        req ok: bool,
        /// The fault.
        opt error: Option<String>,
    }
}
