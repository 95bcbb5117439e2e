//! Tests of streamed results, over each transport and in each era, with and without a hop between client and server
//! (MGP §12).

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::format_collect,
    reason = "a test fails by panicking, and prints its seed"
)]

mod cancelled;
mod chunks;
mod faulty;
mod foreign;
mod interleavings;
mod paced;
mod progress;
mod stdio;
mod world;
