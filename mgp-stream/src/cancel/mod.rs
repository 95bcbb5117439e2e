//! Cancelling a running call by the id its caller gave it (MGP §12.7; MCP `notifications/cancelled`).
//!
//! Applies to: inbound.

mod flights;
mod layer;
mod signal;

pub use layer::{Cancel, CancelLayer};
pub use signal::CancelSignal;
