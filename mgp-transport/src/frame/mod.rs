//! Splits bytes into lines (MGP §1.4, stdio).
//!
//! Applies to: both.

mod line;

pub(crate) use line::{Line, LineBuffer};
