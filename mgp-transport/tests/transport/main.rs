//! Tests of connections, child processes and HTTP, one module for each subject. A test that counts the children and
//! descriptors of its process is a program of its own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod batches;
mod child;
mod connection_ends;
mod data_references;
mod fuzz_lines;
mod held_answers;
mod http_fetch;
mod http_sse;
mod pings;
mod stdio_kinds_raw;
mod stream_ends;
