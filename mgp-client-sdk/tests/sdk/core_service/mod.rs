//! Tests of the call service end to end, over in-memory connections.
//!
//! Every test runs on a current-thread runtime and on one with two workers.

mod core;
mod eras;
mod isolation;
mod order;
mod world;
