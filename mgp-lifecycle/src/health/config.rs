//! The limits of health answers (MGP §11.3).

use std::time::Duration;

/// Limits of a [`Health`](super::Health).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HealthConfig {
    /// The time limit of a check or resource. A check that takes longer counts as failed; the value of a resource that
    /// takes longer is left out. Default: 1 s.
    ///
    /// Values above 1.5 s count as 1.5 s, because the whole answer must be sent within 2 s.
    pub timeout: Duration,
    /// The time that a result is reused; meanwhile its check does not run again. Default: 1 s.
    pub fresh: Duration,
    /// The maximum number of checks and resources in total; further checks and resources are omitted and logged.
    /// Default: 128.
    pub probes: usize,
}

impl Default for HealthConfig {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(1), fresh: Duration::from_secs(1), probes: 128 }
    }
}

/// The time limit of all checks of a health status together.
const STATUS_TIMEOUT: Duration = Duration::from_millis(1_500);

impl HealthConfig {
    /// Returns the time limit that applies to one check: the configured limit, but at most 1.5 s.
    pub(super) fn effective_timeout(&self) -> Duration {
        self.timeout.min(STATUS_TIMEOUT)
    }
}
