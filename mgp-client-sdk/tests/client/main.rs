//! What a person who writes a client relies on, one module a story.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod children;
mod connect;
mod contract;
mod dead;
mod ending;
mod health;
mod listening;
mod lists;
mod mgp;
mod patience;
mod questions;
mod schemas;
mod script;
mod send;
mod streams;
mod tasks;
mod workbench;
