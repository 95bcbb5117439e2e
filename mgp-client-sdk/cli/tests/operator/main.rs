//! Tests of operators at the local socket: the processes that may act as an operator, and the proof that changes
//! require.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod edits;
#[path = "../world/host.rs"]
mod host;
mod inside;
#[path = "../world/program.rs"]
mod program;
mod proof;
mod pty;
mod reused;
mod setting;
#[path = "../world/wire.rs"]
mod wire;
#[expect(dead_code, reason = "the tests of `mgp serve` use the rest of it")]
#[path = "../run/world.rs"]
mod world;
