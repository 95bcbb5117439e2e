//! The bounds of health answers, and what happens at each (MGP §11.3).
//!
//! Applies to: both.

use std::time::Duration;

/// Bounds of a [`Health`](super::Health).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HealthConfig {
    /// How long a check or a resource may take; a longer check counts as failed, a longer resource is left out.
    ///
    /// More than 1.5 s count as 1.5 s: the whole answer must be there within 2 s. 1 s.
    pub timeout: Duration,
    /// How long an outcome is good for; however often somebody asks, nothing runs again sooner. 1 s.
    pub fresh: Duration,
    /// Checks and resources together; further ones are left out and logged. 128.
    pub probes: usize,
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(1), fresh: Duration::from_secs(1), probes: 128 }
    }
}

/// How long a status may take as a whole.
const WHOLE: Duration = Duration::from_millis(1_500);

impl HealthConfig {
    /// How long one may take.
    pub(super) fn within(&self) -> Duration {
        self.timeout.min(WHOLE)
    }
}
