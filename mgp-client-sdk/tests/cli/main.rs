//! The program `mgp`, as a person or a script uses it.
//!
//! Applies to: both.

mod access;
mod begin;
mod connect;
mod doctor;
mod import;
mod index;
mod schema;
mod trust;
mod world;
