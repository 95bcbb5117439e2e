//! The audit layer: one event for every tool call, however it ends (MGP §6).
//!
//! - Only `tools/call` messages are recorded; those sent as notifications are also blocked. All other messages pass at
//!   no cost.
//! - A call runs only after the sink has issued a ticket: no chunk, result or event of a call leaves this process
//!   before its record can be written.
//! - A stack has one [`AuditLayer`], which writes one event per call.
//!   A call that crosses two audited stacks is recorded by both; a kernel has the layer on its outbound stack only.
//! - All requests of one call (the first one, and those with the answers to questions) are recorded as one event, when
//!   the last one completes. Each attempt of a retried call is recorded as a separate event.
//! - Every recorded call has a trace id; the layer creates one if the call has none.
//! - Arguments are recorded as [`AuditConfig`] defines, redacted by default; error messages are never recorded.
//!
//! | how the call ends | event | result | details |
//! |---|---|---|---|
//! | a result | `TOOL_EXECUTED` | `SUCCESS` | |
//! | a result with `isError` | `TOOL_EXECUTED` | `FAILURE` | `is_error` |
//! | a task of the callee | `TOOL_EXECUTED` | `SUCCESS` | `task` |
//! | refused before it ran: 1000–1099, 2000–2002, 3000–3002, 4000–4003 | `TOOL_BLOCKED` | `BLOCKED` | `code`, `reason`, `rule` |
//! | any other error, and any error of a peer | `TOOL_EXECUTED` | `FAILURE` | `code` |
//! | dropped while a gate held the call, e.g. until a person decided | `TOOL_BLOCKED` | `BLOCKED` | `cancelled` |
//! | otherwise no answer, or the future was dropped | `TOOL_EXECUTED` | `FAILURE` | `cancelled` |
//!
//! A refusal with code 1000 (permission denied), 1010 (validation blocked) or 1011 (code safety violation) is recorded
//! a second time, as `PERMISSION_DENIED`, `VALIDATION_FAILED` or `CODE_REJECTED` with the same trace id. The caller
//! gets its answer after both events were recorded.

mod event;
mod forward;
mod future;
mod layer;
mod log;
mod outcome;
mod recorded_arguments;
mod result_word;
mod source;
#[cfg(test)]
mod tests;

pub(crate) use event::REQUESTS_ONLY;
pub use event::{DefinitionFlag, Event, EventActor};
pub(crate) use forward::check_positions;
pub use forward::{Delivery, Forwarder, Forwarding, Ingest, Replay, UnknownSink};
pub use layer::{Audit, AuditLayer};
pub use log::{
    AuditLog, AuditPage, AuditQuery, BadRecord, DigestKey, FileRetention, Fsync, LogConfig,
    LogError, LogFiles, LogHead, RecordFlaw, verify,
};
#[cfg(feature = "sqlite")]
pub(crate) use log::{private_folder, refuse_others, verify_with_store};
pub use recorded_arguments::{Arguments, AuditConfig};
pub use result_word::{RESULT_WORDS, result_word};
pub use source::EventSource;
