//! The audit log on disk (MGP §6): files of one directory, each record chained to the one before.
//!
//! - One writer at a time, a thread of its own; others are refused.
//! - What waits is written as one group. Its head, the last number and hash, is kept in the store before anything of
//!   the group is acknowledged, so that a shortened or replaced log is found.
//!   Records that nobody waits for (the ends of calls) are written within 5 ms, their head within a second.
//! - A call of moderate or higher or unknown risk is on disk before it runs. If the process dies, the next one to open
//!   the log records that it was interrupted.
//! - If the disk or the store fails, no call begins until it works again.
//! - Files are private, and so is their directory; names of events come from the operator and the peers, arguments
//!   never stand in the log.
//!
//! Applies to: both.

mod chain;
mod config;
mod digest;
mod error;
mod files;
mod group;
mod handle;
mod head;
mod json;
mod lines;
mod outbox;
mod query;
mod queue;
mod recover;
mod segments;
#[cfg(test)]
mod tests;
mod verify;
mod writer;

pub use config::{Fsync, Keep, LogConfig};
pub use digest::DigestKey;
pub use error::{Bad, Flaw, LogError};
pub use files::LogFiles;
pub use handle::AuditLog;
pub use head::Head;
pub use query::{AuditPage, AuditQuery};
#[cfg(feature = "sqlite")]
pub(crate) use segments::private_folder;
pub use verify::verify;
