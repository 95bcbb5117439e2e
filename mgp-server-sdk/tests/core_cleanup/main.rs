//! Tests that calls, connections and misbehaving peers leave no tasks, memory or other resources behind.

#![expect(clippy::unwrap_used, reason = "a test")]

mod drops;
mod flood;
mod memory;
mod pair;
mod raw;
mod slow_consumer;
mod slow_reader;
