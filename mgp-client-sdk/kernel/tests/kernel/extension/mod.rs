//! Tests of extensions beyond MGP through a kernel.

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
