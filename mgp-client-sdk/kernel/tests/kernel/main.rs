//! Tests of a kernel between hosts and servers in this process, one module for each subject.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod config;
mod errors;
mod extension;
mod route;
#[path = "../../../tests/http/script.rs"]
#[expect(dead_code, reason = "other stories of the same server need all of it")]
mod script;
