//! Tests of the shutdown of a server: it answers the requests that it has accepted, refuses later ones, and ends as
//! soon as possible (MGP §11.4).
//!
//! The environment variable `DRAINS` sets how often each of the two long tests drains a server; the default is 100.

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

/// Returns the number of times that a long test drains a server.
fn drains() -> usize {
    std::env::var("DRAINS").ok().and_then(|count| count.parse().ok()).unwrap_or(100)
}

/// Returns the time within which an idle server must end. It is longer if other tests may run at the same time.
fn at_once() -> Duration {
    Duration::from_millis(if drains() < MIN_CHECK_DRAINS { 2_000 } else { 50 })
}

/// The minimum number of drains of an acceptance check. During an acceptance check, no other test runs.
const MIN_CHECK_DRAINS: usize = 1000;
