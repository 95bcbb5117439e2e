//! What the kernel refuses, as its callers, its operator and its log see it (MGP §3–§6, §14).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod codes;
mod present;
mod project;
mod refused;
mod seen;
mod serving;
mod tries;
#[expect(dead_code, reason = "it is the world of other stories too")]
#[path = "../flow/world.rs"]
mod world;
