//! The registry of the servers that are there (MGP §15.2).
//!
//! Applies to: inbound.

mod fleet;
mod list;
#[cfg(test)]
mod tests;

pub use fleet::{Fleet, Known};
pub use list::list_router;
pub(crate) use list::shown;
