//! Splits bytes into lines (MGP §1.4, stdio).

mod line;

pub(crate) use line::{Line, LineBuffer};
