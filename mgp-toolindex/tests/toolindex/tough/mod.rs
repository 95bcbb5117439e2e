//! Tests the index under load: kills, searches while servers change, many changes, hostile definitions, and callers
//! that share connections and names (MGP §16).
//!
//! The environment variables `KILLS`, `ROUNDS`, `CHANGES` and `STEPS` set the amount of work, which is small by
//! default. Each test prints its measurements in a line `tough: …`.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "tests that print measurements")]

mod changes;
mod hostile;
#[cfg(feature = "sqlite")]
mod kills;
mod sessions;
mod threads;
mod tools;

/// Returns a number from the environment, or a default.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}
