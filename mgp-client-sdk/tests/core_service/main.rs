//! The one service, end to end: what DESIGN §3 promises, over in-memory connections.
//!
//! Every story runs on a current-thread runtime and on one with two workers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cells;
mod isolation;
mod order;
mod ownership;
mod prototype;
mod world;
