//! The number of an attempt of a call (MGP §14.6).

use std::time::Duration;

use bytestring::ByteString;

use crate::wire::ErrorCode;

/// The mark of a repeated call, stored in its extensions; a first attempt has none.
///
/// All attempts share the [logical call](super::Context::logical) and the trace; each has its own key.
/// An audit layer further in records each attempt, with these values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryAttempt {
    /// The number of repetitions, this one included.
    pub retry: u32,
    /// The error code of the previous attempt.
    pub previous_code: ErrorCode,
    /// The delay before this attempt.
    pub delay: Duration,
    /// The tool that this call replaces (`fallback_tool`).
    pub instead_of: Option<ByteString>,
}

impl RetryAttempt {
    /// Creates the mark of a further attempt of the same call.
    #[must_use]
    pub const fn new(retry: u32, after: ErrorCode, waited: Duration) -> Self {
        Self { retry, previous_code: after, delay: waited, instead_of: None }
    }

    /// Marks a call of another tool, made after all attempts of this one failed.
    #[must_use]
    pub fn instead_of(mut self, tool: &str) -> Self {
        self.instead_of = Some(tool.into());
        self
    }
}
