//! Servers that are registered while a kernel runs: asked for, approved, run as approved, taken back.
//!
//! Applies to: both.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "tests")]

mod bounds;
mod configured;
mod lasting;
mod leaving;
mod served;
mod story;
mod world;
