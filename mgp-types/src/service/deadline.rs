//! Deadlines of callers.

use std::time::Duration;

use tokio::time::Instant;

/// The instant at which a caller stops waiting, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Creates a deadline that never passes.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Creates a deadline that passes after this time, counted from now.
    #[must_use]
    pub fn after(time: Duration) -> Self {
        Self(Instant::now().checked_add(time))
    }

    /// Returns the earlier of two deadlines.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(a), Some(b)) => Self(Some(a.min(b))),
            (a, b) => Self(a.or(b)),
        }
    }

    /// Returns the instant at which the deadline passes, if it ever passes.
    #[must_use]
    pub fn instant(self) -> Option<Instant> {
        self.0
    }

    /// Returns the time that remains until the deadline, if it ever passes.
    #[must_use]
    pub fn remaining(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }
}
