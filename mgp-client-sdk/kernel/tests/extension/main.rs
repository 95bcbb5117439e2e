//! Tests of extensions beyond MGP through a kernel.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod checkpoint;
mod intent;
mod matrix;
mod references;
#[path = "../route/world.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod world;
