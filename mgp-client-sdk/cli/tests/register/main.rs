//! Tests of servers registered at run time: requested, approved, used, deregistered.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod bounds;
mod configured;
mod lasting;
mod leaving;
mod served;
mod story;
#[path = "../world/wire.rs"]
mod wire;
mod world;
