//! The audit log of a kernel (MGP §6; the methods are this kernel's own).
//!
//! Applies to: inbound.

use crate::Timestamp;
use crate::mgp::{AuditEvent, EventType};
use crate::record::record;

record! {
    /// Parameters of `mgp/kernel/audit`: every condition holds.
    pub struct KernelAuditParams {
        /// Of this party.
        opt agent: Option<String>,
        /// About this server.
        opt server_id: Option<String>,
        /// About this tool.
        opt tool: Option<String>,
        /// Of this type.
        opt event_type: Option<EventType>,
        /// Of this trace; `trace_id` would be the one of the question itself (§6.5).
        opt trace: Option<String>,
        /// From this time on.
        opt since: Option<Timestamp>,
        /// Before this time.
        opt until: Option<Timestamp>,
        /// How many at most.
        opt limit: Option<u64>,
        /// Whether the newest come first.
        opt newest_first: Option<bool>,
        /// What came behind the last query: its `next`.
        opt after: Option<u64>,
    }

    /// Result of `mgp/kernel/audit`.
    pub struct KernelAuditResult {
        /// The events.
        def events: Vec<AuditEvent>,
        /// Where to go on, where there may be more.
        opt next: Option<u64>,
    }

    /// Parameters of `mgp/kernel/audit/verify`.
    pub struct KernelAuditVerifyParams {
    }

    /// Result of `mgp/kernel/audit/verify`.
    pub struct KernelAuditVerifyResult {
        /// How many records were checked; 0 where the chain is broken.
        req records: u64,
        /// Whether the chain is whole.
        req ok: bool,
        /// What is wrong with it.
        opt error: Option<String>,
    }
}
