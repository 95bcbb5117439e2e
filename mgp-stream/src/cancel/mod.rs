//! Cancellation of a running call by the id that its caller gave it (MGP §12.7; MCP `notifications/cancelled`).
//!
//! [`CancelLayer`] registers each call among the running ones (`running.rs`), finds the call that a cancellation names,
//! and drops it, or signals it if its handler listens to its [`CancelSignal`].

mod layer;
#[cfg(test)]
mod model;
mod running;
mod signal;

pub use layer::{Cancel, CancelLayer};
pub use signal::CancelSignal;
