//! Which attempt of a call this is (MGP §14.6).

use std::time::Duration;

use bytestring::ByteString;

use super::Start;
use crate::wire::{ErrorCode, Payload};

/// Says, in the extensions of a call, that it is made again; a first attempt has none.
///
/// All attempts share the [logical call](super::Context::logical) and the trace; each has a key of its own.
/// An audit that stands further in records each of them, with what this says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// How often the call was made again, this time included.
    pub retry: u32,
    /// What the attempt before it ended with.
    pub after: ErrorCode,
    /// How long it was waited for.
    pub waited: Duration,
    /// The tool it stands in for (`fallback_tool`).
    pub instead_of: Option<ByteString>,
}

impl Attempt {
    /// One more attempt of the same call.
    #[must_use]
    pub const fn new(retry: u32, after: ErrorCode, waited: Duration) -> Self {
        Self { retry, after, waited, instead_of: None }
    }

    /// A call of another tool, once all attempts of this one had failed.
    #[must_use]
    pub fn instead_of(mut self, tool: &str) -> Self {
        self.instead_of = Some(tool.into());
        self
    }

    /// Notes it in the record of the call.
    pub(super) fn note(&self, start: &Start) {
        let ms = u64::try_from(self.waited.as_millis()).unwrap_or(u64::MAX);
        let notes = [
            ("retry_attempt", Payload::of(&self.retry)),
            ("retry_of_code", Payload::of(&self.after)),
            ("waited_ms", Payload::of(&ms)),
        ];
        for (name, value) in notes {
            if let Ok(value) = value {
                start.note(name, value);
            }
        }
        if let Some(Ok(tool)) = self.instead_of.as_ref().map(|tool| Payload::of(&**tool)) {
            start.note("fallback_for", tool);
        }
    }
}
