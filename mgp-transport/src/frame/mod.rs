//! From bytes to lines and no further (MGP §1.4, stdio).
//!
//! Applies to: both.

mod line;

pub(crate) use line::{Line, LineBuffer};
