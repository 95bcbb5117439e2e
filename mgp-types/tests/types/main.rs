//! Tests of messages as other programs write them, and of stores that several processes share.

#![expect(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod decode;
mod golden;
mod spec;
mod store_processes;
