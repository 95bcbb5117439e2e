//! Tests.
//!
//! Applies to: both.
