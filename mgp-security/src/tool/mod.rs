//! Tool security: what a tool may do, who confirms it, and which checks its arguments pass (MGP §4).
//!
//! Applies to: both.

mod assessment;
mod clues;
mod words;

pub use assessment::Assessment;

#[cfg(test)]
mod tests;
