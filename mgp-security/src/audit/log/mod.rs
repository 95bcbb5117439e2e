//! The audit log on disk (MGP §6): segment files in one directory, each record chained to the record before it.
//!
//! - A log has one writer, which runs on its own thread; a second writer is refused.
//! - The writer collects waiting records into a group. It saves the head, i.e. number and hash of the last record, in
//!   the store before it acknowledges any record of the group, so that a truncated or replaced log is detected.
//!   Records without a waiting caller (the ends of calls) are written within 5 ms, and their head within a second.
//! - Before a call of moderate, higher or unknown risk runs, an intent, i.e. a record that announces the call, is
//!   written to the disk. If the process dies, the next process that opens the log records the call as interrupted.
//! - While the disk or the store fails, no call can begin.
//! - Files and directory are private. Names in events come from the operator and from peers. Arguments are in the log
//!   only if [`Arguments`](crate::Arguments) is configured so.

mod chain;
mod config;
mod digest;
mod encode;
mod error;
mod group;
mod handle;
mod head;
mod lines;
mod outbox;
mod query;
mod queue;
mod recover;
mod segments;
#[cfg(test)]
mod tests;
mod verify;
mod waiting;
mod writer;

pub use config::{FileRetention, Fsync, LogConfig};
pub use digest::DigestKey;
pub use error::{BadRecord, LogError, RecordFlaw};
pub use handle::AuditLog;
pub use head::LogHead;
pub use query::{AuditPage, AuditQuery, LogFiles};
#[cfg(feature = "sqlite")]
pub(crate) use segments::{private_folder, refuse_others};
pub use verify::verify;
#[cfg(feature = "sqlite")]
pub(crate) use verify::verify_with_store;
