//! Attacks on what governs calls, as an agent, a server and an operator's mistakes would make them (MGP §3–§6).
//!
//! Applies to: both.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod agent;
mod broken;
mod hop;
mod raw;
mod server;
mod storm;
mod waiting;
mod world;
