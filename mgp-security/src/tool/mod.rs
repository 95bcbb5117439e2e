//! Tool security: what a tool may do, who confirms it, and which checks its arguments pass (MGP §4).
//!
//! Applies to: both.

mod assessment;

pub use assessment::Assessment;
