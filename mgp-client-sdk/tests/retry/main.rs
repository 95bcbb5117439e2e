//! Calls that are retried, through real gates and real servers (MGP §14.6).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contract;
mod hostile;
mod rounds;
mod traffic;
mod world;
