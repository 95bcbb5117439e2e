//! Processes on Unix: process groups, signals, and the thread that starts and reaps all children.
//!
//! Implements MGP §11 for Unix.

mod group;
#[cfg(target_os = "linux")]
mod keeper;
mod open_files;
#[cfg(target_os = "linux")]
mod pre_exec;
mod process;
mod spawner;

use std::time::Instant;

#[cfg(target_os = "linux")]
pub(super) use self::keeper::run;
pub use self::open_files::raise_open_files;
pub(super) use self::process::Process;
pub(super) use self::spawner::start;

/// Returns the time of the system's clock, even in tests that pause tokio's clock.
#[expect(clippy::disallowed_methods, reason = "grace times of real processes pass in real time")]
fn now() -> Instant {
    Instant::now()
}
