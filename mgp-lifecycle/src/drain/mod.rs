//! Graceful shutdown: what runs is finished, nothing new begins, then the server ends (MGP §11.4).
//!
//! Applies to: inbound.

mod endpoint;
mod gate;
mod handle;
mod layer;
mod owner;
mod pace;
mod way;

pub(crate) use handle::Held;
pub use handle::{Drain, DrainConfig, Remaining};
pub use layer::{DrainLayer, Draining};
pub use owner::Owner;

#[cfg(test)]
mod tests;
