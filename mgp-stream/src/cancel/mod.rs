//! Cancellation of a running call by the id its caller gave it (MGP §12.7; MCP `notifications/cancelled`).

mod layer;
#[cfg(test)]
mod model;
mod running;
mod signal;

pub use layer::{Cancel, CancelLayer};
pub use signal::CancelSignal;
