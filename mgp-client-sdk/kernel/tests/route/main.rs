//! Everything but tools, through the kernel: servers of this process below, hosts in memory above.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asking;
mod changes;
mod flow;
mod hops;
mod lists;
mod tasks;
mod tenants;
mod tenants_mixed;
mod world;
