//! How many tool calls run at once (MGP §14.3: 3001).
//!
//! Applies to: both.

mod concurrency;

pub use concurrency::{Limit, LimitConfig, LimitLayer};
