//! The call service end to end over in-memory connections.
//!
//! Every test runs on a current-thread runtime and on one with two workers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod core;
mod eras;
mod isolation;
mod order;
mod world;
