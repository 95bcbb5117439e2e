//! Servers that are started again: stories with real children, children with bad manners, and a thousand kills
//! (MGP §11.5).
//!
//! Applies to: outbound.

#![cfg(unix)]
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test that says what it measured")]

mod kills;
mod program;
mod story;
mod url;
mod world;
mod zoo;
