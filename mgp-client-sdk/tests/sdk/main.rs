//! Tests of clients and servers of the two SDKs together, one module for each subject.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit_server;
mod callbacks;
mod checkpoints;
mod core_service;
mod data_references;
mod events;
mod http_cuts;
mod layers;
mod limits;
mod retry;
mod transactions;
