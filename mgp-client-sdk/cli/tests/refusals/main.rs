//! Tests of the kernel's refusals, as callers, operators and the audit log see them (MGP §3–§6, §14).

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod callers;
mod codes;
mod escalation;
#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "../world/host.rs"]
mod host;
mod http2;
mod person;
mod presence;
mod project;
mod recorded;
mod refusal;
mod serving;
mod tenants;
mod tool_paths;
#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "../world/wire.rs"]
mod wire;
mod word;
#[expect(dead_code, reason = "the flows use the rest of it")]
#[path = "../world/stdio.rs"]
mod world;
