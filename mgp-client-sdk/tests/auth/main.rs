//! Stories of a client that is authorised by OAuth 2.1, told against a scripted world.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod binding;
mod discover;
mod machines;
mod people;
mod possession;
mod proofs;
mod renewing;
mod secrets;
mod sharing;
mod world;
