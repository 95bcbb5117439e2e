//! What an operator does with a running kernel, and that nobody else does: `mgp/kernel/*`.
//!
//! Applies to: both.

#![expect(clippy::unwrap_used, reason = "tests")]

mod approvals;
mod decisions;
mod refused;
mod servers;
mod world;
