//! Applies to: both.
