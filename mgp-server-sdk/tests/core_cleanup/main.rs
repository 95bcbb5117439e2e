//! What calls, connections and peers with bad manners leave behind: nothing (DESIGN §3 A, D, F).

#![expect(clippy::unwrap_used, reason = "a test")]

mod crossing;
mod drops;
mod flood;
mod memory;
mod pair;
mod raw;
mod slow_consumer;
mod slow_reader;
