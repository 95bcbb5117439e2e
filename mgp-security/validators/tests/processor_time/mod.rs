//! The processor time of this process, with all its threads: other programs on the machine do not lengthen it, unlike
//! the time on a clock.

use std::time::Duration;

/// A moment in the processor time of this process.
pub(super) struct ProcessorTime(Duration);

impl ProcessorTime {
    /// Returns the moment that is now.
    pub(super) fn now() -> Self {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let part = |value: i64| value.unsigned_abs();
        Self(Duration::from_secs(part(time.tv_sec)) + Duration::from_nanos(part(time.tv_nsec)))
    }

    /// Returns the processor time since this moment.
    pub(super) fn elapsed(&self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}
