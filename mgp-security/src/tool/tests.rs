//! Tests of tool security.
//!
//! Applies to: both.

mod assessment;
