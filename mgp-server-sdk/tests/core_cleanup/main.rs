//! Calls, connections and misbehaving peers leave nothing behind.

#![expect(clippy::unwrap_used, reason = "a test")]

mod crossing;
mod drops;
mod flood;
mod memory;
mod pair;
mod raw;
mod slow_consumer;
mod slow_reader;
