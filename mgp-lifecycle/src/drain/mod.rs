//! Graceful shutdown: running calls complete, new calls are refused, then the server ends (MGP §11.4).

mod admission;
mod durations;
mod endpoint;
mod gate;
mod handle;
mod layer;
mod owner;

pub(crate) use handle::DrainHold;
pub use handle::{Drain, DrainConfig, RemainingCalls};
pub use layer::{DrainLayer, DrainService};
pub use owner::ProcessOwner;

#[cfg(test)]
mod tests;
