//! Cancellation of a running call by the id its caller gave it (MGP §12.7; MCP `notifications/cancelled`).

mod layer;
mod running;
mod signal;

#[cfg(all(test, shuttle))]
pub(crate) mod models {
    pub(crate) use super::running::RunningCalls;
    pub(crate) use super::signal::Cancellation;
}

pub use layer::{Cancel, CancelLayer};
pub use signal::CancelSignal;
