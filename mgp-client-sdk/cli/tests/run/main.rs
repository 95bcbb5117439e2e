//! `mgp serve` as people and hosts meet it: one kernel for many hosts, its end, its children's end, and what is said when
//! something is wrong.
//!
//! Applies to: both.

#![cfg(target_os = "linux")]
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test that says what it measured")]

mod broken;
mod chaos;
mod ends;
mod first;
mod registering;
mod serving;
mod shared;
mod world;
