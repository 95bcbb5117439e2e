//! Tests of `mgp serve` as people and hosts use it: one kernel for many hosts, the end of kernel and servers, and
//! errors.

#![cfg(target_os = "linux")]
#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests that print what they measured"
)]

mod bounds;
mod broken;
mod chaos;
mod delegation;
mod ends;
mod events;
mod exports;
mod first;
mod first_process;
#[path = "../world/host.rs"]
mod host;
mod judged;
mod kills;
mod locked;
mod notify;
mod openapi;
#[path = "../world/program.rs"]
mod program;
mod reach;
mod registering;
mod reloads;
mod remote;
mod retry;
mod serving;
mod shared;
mod upgrade;
#[path = "../world/wire.rs"]
mod wire;
mod world;
