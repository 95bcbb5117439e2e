//! Shutdown: accepted requests are answered, later ones are refused, and the server ends as soon
//! as possible (MGP §11.4).
//!
//! `DRAINS` sets the number of drains of each of the two long tests; the default is 100.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod announced;
mod http;
mod idle;
mod load;
mod stdio;
mod unread;
#[path = "../http_faults/wire.rs"]
#[expect(dead_code, reason = "another test uses the rest")]
mod wire;
mod world;

use std::time::Duration;

/// Returns the number of drains of a long test.
fn drains() -> usize {
    std::env::var("DRAINS").ok().and_then(|count| count.parse().ok()).unwrap_or(100)
}

/// Returns the time limit within which an idle server must end; it is longer if other tests run at the same time.
fn at_once() -> Duration {
    Duration::from_millis(if drains() < A_CHECK { 2_000 } else { 50 })
}

/// The number of drains from which on the test is run alone, as an acceptance check.
const A_CHECK: usize = 1000;
