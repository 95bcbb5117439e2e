//! Tests of `mgp serve` as people and hosts use it: one kernel for many hosts, the end of kernel and servers, and
//! errors.

#![cfg(target_os = "linux")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests that print what they measured"
)]

mod broken;
mod chaos;
mod ends;
mod events;
mod first;
#[path = "../world/host.rs"]
mod host;
#[path = "../world/program.rs"]
mod program;
mod reach;
mod registering;
mod remote;
mod serving;
mod shared;
#[path = "../world/wire.rs"]
mod wire;
mod world;
