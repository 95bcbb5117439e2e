//! The program `mgp`, as a person or a script uses it.
//!
//! Applies to: both.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod audit;
mod begin;
mod connect;
mod doctor;
mod import;
mod index;
#[cfg(unix)]
mod kernel;
#[cfg(unix)]
mod running;
mod schema;
mod trust;
mod world;
