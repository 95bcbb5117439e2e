//! Tests of servers that are restarted: real children, misbehaving children, and many kills (MGP §11.5).

#![cfg(unix)]
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "the test prints its measurements")]

mod kills;
mod misbehaving;
mod program;
mod restarts;
mod url;
mod world;
