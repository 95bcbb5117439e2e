//! Processes on Unix: groups, signals, and the one thread that starts and reaps.
//!
//! MGP §11.

mod group;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod pre_exec;
mod process;
mod spawner;

use std::time::Instant;

#[cfg(target_os = "linux")]
pub(super) use self::keeper::run;
pub(super) use self::process::Process;
pub(super) use self::spawner::start;

/// Reads the real clock, also where a test has paused tokio's.
#[expect(clippy::disallowed_methods, reason = "grace times of real processes pass in real time")]
fn now() -> Instant {
    Instant::now()
}
