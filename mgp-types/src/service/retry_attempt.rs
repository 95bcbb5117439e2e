//! A description of one repetition of a call (MGP §14.6).

use std::time::Duration;

use bytestring::ByteString;

use crate::wire::ErrorCode;

/// A description of one repetition of a call, stored in the extensions of the call. The first attempt of a call has no
/// description.
///
/// All attempts share the [logical call](super::Context::logical) and the trace, but each attempt has its own key. An
/// inner audit layer records every attempt, with these values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryAttempt {
    /// The number of the repetition, counted from 1.
    pub retry: u32,
    /// The code of the error with which the previous attempt failed.
    pub previous_code: ErrorCode,
    /// The delay before this attempt.
    pub delay: Duration,
    /// The tool whose attempts all failed, if this call uses another tool instead (`fallback_tool`).
    pub instead_of: Option<ByteString>,
}

impl RetryAttempt {
    /// Creates the description of a repetition from its number, the error code of the previous attempt and the delay
    /// before this attempt.
    #[must_use]
    pub const fn new(retry: u32, after: ErrorCode, waited: Duration) -> Self {
        Self { retry, previous_code: after, delay: waited, instead_of: None }
    }

    /// Records that this call uses another tool, because all attempts of `tool` failed.
    #[must_use]
    pub fn instead_of(mut self, tool: &str) -> Self {
        self.instead_of = Some(tool.into());
        self
    }
}
