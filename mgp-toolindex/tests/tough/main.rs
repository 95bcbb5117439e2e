//! The index under stress: kills, searches while servers come and go, changes without end, hostile definitions,
//! callers who share what can be shared (MGP §16).
//!
//! `KILLS`, `ROUNDS`, `CHANGES` and `STEPS` in the environment say how much of it; without them it is little.
//! Each story ends with a line `tough: …` of what it measured.
//!
//! Applies to: both.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "tests that say what they measured")]

mod changes;
mod hostile;
#[cfg(feature = "sqlite")]
mod kills;
#[cfg(feature = "sqlite")]
mod process;
mod sessions;
mod threads;
mod tools;

/// A number of the environment, or what it is without.
fn wanted(name: &str, without: u64) -> u64 {
    std::env::var(name).map_or(without, |text| text.parse().unwrap())
}
