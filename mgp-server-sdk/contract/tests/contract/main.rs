//! Tests of contracts as callers of the library use them, one module for each subject.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod schema_forms;
mod specifications;
mod versions;
