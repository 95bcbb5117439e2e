//! Tests of extensions beyond MGP through a kernel.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod intent;
mod manifest;
mod matrix;
mod media;
mod provenance;
mod recommend;
mod session_state;
#[path = "../route/world.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod world;
