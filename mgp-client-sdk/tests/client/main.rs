//! Tests of the behaviour that authors of clients rely on, one module for each topic.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attack;
mod children;
mod connect;
mod contract;
mod disconnected;
mod drain;
mod governed;
mod health;
mod listening;
mod lists;
mod mgp;
mod permission_flow;
mod permission_gate;
mod questions;
mod schemas;
mod script;
mod send;
mod streams;
mod tasks;
mod timeouts;
mod traces;
mod workbench;
