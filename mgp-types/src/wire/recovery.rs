//! What a caller may do about an error (MGP §14.5).
//!
//! Applies to: both.

use super::ErrorCode;

/// Recovery hints of an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovery {}

/// Kind of error.
#[derive(Clone, Debug, PartialEq)]
pub enum Category {}

/// How to wait between attempts.
#[derive(Clone, Debug, PartialEq)]
pub enum RetryStrategy {}

impl Recovery {
    /// The hints that go with a code.
    #[must_use]
    pub fn default_for(_code: ErrorCode) -> Option<Self> {
        None
    }
}
