//! Tests of requests and notifications through a kernel, between hosts and servers in this process.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asking;
mod callbacks;
mod changes;
mod contracts;
mod eras;
mod events;
mod flow;
mod hops;
mod lists;
mod members;
mod skills_apps;
mod structured;
mod system_tools;
mod tasks;
mod tenants;
mod tenants_mixed;
mod traces;
mod world;
