//! Tests of a client that is authorized by OAuth 2.1. A script plays the servers and the person.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod binding;
mod discovery;
mod machines;
mod people;
mod possession;
mod proofs;
mod renewing;
mod revoking;
mod secrets;
mod sharing;
mod world;
