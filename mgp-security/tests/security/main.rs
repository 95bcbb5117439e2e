//! Tests of access, permissions, audit and the other parts of governance, one module for each subject.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access_attack;
mod access_changes;
mod access_layer;
mod access_worlds;
mod audit_cancel;
mod code_rules;
mod configured;
mod file_urls;
mod guard;
mod kills;
mod lies;
mod local_hosts;
mod review;
mod tooldef;
mod two_processes;
mod verdict;
mod while_asked;
