//! A server that ends: whatever it accepted is answered, nothing is accepted afterwards, and nobody waits for nothing (MGP §11.4).
//!
//! `DRAINS` says how many drains each of the two long stories takes; 100 without it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod http;
mod idle;
mod load;
mod stdio;
mod told;
mod unread;
#[path = "../http_faults/wire.rs"]
#[expect(dead_code, reason = "another test uses the rest")]
mod wire;
mod world;

use std::time::Duration;

/// How many drains a long story takes.
fn drains() -> usize {
    std::env::var("DRAINS").ok().and_then(|count| count.parse().ok()).unwrap_or(100)
}

/// How long a server with nothing to do may take to end; beside other tests it gets its turn later.
fn at_once() -> Duration {
    Duration::from_millis(if drains() < A_CHECK { 2_000 } else { 50 })
}

/// So many drains are a check, which runs alone.
const A_CHECK: usize = 1000;
