//! Every key of `mgp.toml`, and what it does in a kernel (MGP §15.2).
//!
//! Applies to: both.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod agents;
mod govern;
mod reload;
mod servers;
mod world;
