//! Tests of a server as its peers see it, one module for each of its parts. Tests that measure a process, or that
//! shut servers down, are programs of their own.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod advice;
mod alone;
#[path = "../../examples/workbench/bench/mod.rs"]
mod bench;
mod carriers;
mod examples;
mod extensions;
mod features;
mod fuzz_server;
mod gates;
mod health;
mod http_auth;
mod macros;
mod mirrored_headers;
mod permissions;
mod raw;
mod resources_prompts;
mod sdk_lifecycle;
mod stdio_kinds;
mod tools;
mod typed_tools;
mod ui;
mod validate;
mod workbench;
