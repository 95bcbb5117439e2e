//! Tests of the commands of `mgp`, run as a person or a script runs them.

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a test fails by panicking, and one prints what it measured"
)]

mod access;
mod audit;
mod begin;
mod callbacks;
mod connect;
#[cfg(unix)]
mod console;
#[cfg(unix)]
mod console_access;
#[cfg(unix)]
mod console_answers;
mod console_load;
#[cfg(unix)]
mod console_story;
mod contract;
#[cfg(unix)]
mod daily;
mod demo;
mod doctor;
#[cfg(target_os = "linux")]
mod every_host;
#[cfg(unix)]
mod first_lists;
#[cfg(unix)]
mod forged;
#[cfg(unix)]
#[expect(dead_code, reason = "other tests use the rest of it")]
#[path = "../world/host.rs"]
mod host;
mod host_edits;
#[cfg(unix)]
mod hostile;
mod idle;
mod import;
#[cfg(unix)]
mod kernel;
#[cfg(unix)]
mod later;
#[cfg(unix)]
mod log_format;
#[cfg(unix)]
mod login;
#[cfg(unix)]
mod outgoing;
#[path = "../world/program.rs"]
mod program;
#[cfg(unix)]
mod registry;
#[cfg(target_os = "linux")]
mod risk;
#[cfg(unix)]
mod running;
mod schema;
mod served_console;
mod setup;
#[cfg(unix)]
mod sse;
mod streams;
#[cfg(unix)]
mod tool_search;
mod trust;
#[cfg(unix)]
mod validate;
#[cfg(unix)]
mod why;
mod world;
