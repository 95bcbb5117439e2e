//! Tests of tool security.
//!
//! Applies to: both.

mod annotate;
mod assessment;
mod confirm;
mod monotone;
mod validate;
