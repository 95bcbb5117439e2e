//! Tests of extensions beyond MGP through a kernel.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod checkpoint;
mod confirmation;
mod dialects;
mod errors;
mod idempotency;
mod intent;
mod manifest;
mod matrix;
mod media;
mod provenance;
mod recommend;
mod references;
mod scopes;
mod session_state;
mod transactions;
#[path = "../route/world.rs"]
#[expect(dead_code, reason = "other tests use the rest")]
mod world;
