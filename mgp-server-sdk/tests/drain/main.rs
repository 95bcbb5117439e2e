//! A server that ends: whatever it accepted is answered, nothing is accepted afterwards, and nobody waits for nothing (MGP §11.4).
//!
//! `DRAINS` says how many drains each of the two long stories takes; 100 without it.
//!
//! Applies to: inbound.

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

/// How many drains a long story takes.
fn drains() -> usize {
    std::env::var("DRAINS").ok().and_then(|count| count.parse().ok()).unwrap_or(100)
}
