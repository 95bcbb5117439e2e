//! Cancellation of a running call by the id that its caller gave it (MGP §12.7; MCP `notifications/cancelled`).
//!
//! [`CancelLayer`] registers each call as running (`running.rs`) and finds the call to which a cancellation
//! refers. It drops that call, or notifies its handler if the handler listens to its [`CancelSignal`].

mod layer;
#[cfg(test)]
mod model;
mod running;
mod signal;

pub use layer::{Cancel, CancelLayer};
pub use signal::CancelSignal;
