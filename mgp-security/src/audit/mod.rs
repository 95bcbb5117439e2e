//! Records every tool call, whatever becomes of it (MGP §6).
//!
//! - Only `tools/call` requests are recorded; everything else passes for nothing.
//! - The call runs once the sink has given a ticket, and not at all if it gives none: no chunk, result or event
//!   of a call leaves before its record can be written.
//! - A stack has one [`AuditLayer`], and each layer writes one event a call.
//!   A call that crosses two audited stacks is recorded by both; in a kernel it stands on the outbound stack only.
//! - Rounds of one logical call are one event, that of the round that completes. Each attempt of a retry is one.
//!
//! - Every recorded call has a trace; one is made where it brought none.
//! - Arguments are recorded as [`AuditConfig`] says, redacted by default; texts of errors never are.
//!
//! | how the call ends | event | result | details |
//! |---|---|---|---|
//! | a result | `TOOL_EXECUTED` | `SUCCESS` | |
//! | a result with `isError` | `TOOL_EXECUTED` | `FAILURE` | `is_error` |
//! | a task of the callee | `TOOL_EXECUTED` | `SUCCESS` | `task` |
//! | refused before it ran: 1000–1099, 2000–2099, 3000–3002, 4000–4003 | `TOOL_BLOCKED` | `BLOCKED` | `code`, `reason`, `rule` |
//! | any other error, and any error of a peer | `TOOL_EXECUTED` | `FAILURE` | `code` |
//! | no answer, or the future was dropped | `TOOL_EXECUTED` | `FAILURE` | `cancelled` |
//!
//! A refusal with 1000, 1010 or 1011 is told a second time, as `PERMISSION_DENIED`, `VALIDATION_FAILED` or
//! `CODE_REJECTED` with the same trace; it is answered once that was recorded too.
//!
//! Applies to: both.

mod arguments;
mod event;
mod forward;
mod future;
mod layer;
mod log;
mod outcome;
mod source;
#[cfg(test)]
mod tests;

pub use arguments::{Arguments, AuditConfig};
pub use event::{By, Event, Flagged};
pub use forward::{Delivery, Forwarder, Forwarding, Ingest, NotNamed, Replay};
pub use layer::{Audit, AuditLayer};
#[cfg(feature = "sqlite")]
pub(crate) use log::private_folder;
pub use log::{
    AuditLog, AuditPage, AuditQuery, Bad, DigestKey, Flaw, Fsync, Head, Keep, LogConfig, LogError,
    LogFiles, verify,
};
pub use source::EventSource;
