//! Events on their way: out to the sinks an operator named, back to those who missed some, in from servers (MGP §6.3).
//!
//! - [`Forwarder`] sends what a log holds to sinks, in order and at the log's own pace: the log is the queue, so a
//!   sink that is slow or away costs no memory and loses nothing.
//! - [`Replay`] answers `mgp.audit.replay`: a receiver that sees a number missing asks for it again.
//! - [`Ingest`] takes the events that servers send, and keeps them apart from ours.
//!
//! Applies to: both.

mod delivery;
mod forwarder;
mod ingest;
mod replay;
mod task;
#[cfg(test)]
mod tests;

pub use forwarder::{Delivery, Forwarder, Forwarding, NotNamed};
pub use ingest::Ingest;
pub use replay::Replay;
