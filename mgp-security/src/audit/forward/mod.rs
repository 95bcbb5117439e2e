//! The exchange of audit events: sent to sinks, sent again to receivers that missed some, and received from servers
//! (MGP §6.3).
//!
//! - [`Forwarder`] sends the events of a log to sinks, in order and at the pace of each sink: the log is the queue,
//!   so a slow or unreachable sink costs no memory and loses no event.
//! - [`Replay`] answers `mgp.audit.replay`, with which a receiver requests events that it missed.
//! - [`Ingest`] records the events that servers send, separately from our own.

mod confirm;
mod forwarder;
mod ingest;
mod replay;
mod sink;
#[cfg(test)]
mod tests;

pub use forwarder::{Delivery, Forwarder, Forwarding, UnknownSink};
pub use ingest::Ingest;
pub use replay::Replay;
pub(super) use sink::POSITIONS;
pub(crate) use sink::check_positions;
