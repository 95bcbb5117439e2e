//! The processor time of this process and all its threads. Unlike the time on a clock, it does not depend on other
//! programs on the machine.

use std::time::Duration;

/// A point in the processor time of this process.
pub(super) struct ProcessorTime(Duration);

impl ProcessorTime {
    /// Returns the current point in processor time.
    pub(super) fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let part = |value: i64| value.unsigned_abs();
        Self(Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec)))
    }

    /// Returns the processor time since this point.
    pub(super) fn elapsed(&self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}
