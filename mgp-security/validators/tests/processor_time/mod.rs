//! The processor time of this process, with all its threads: other programs on the machine do not lengthen it, unlike
//! the time on a clock.

use std::time::Duration;

/// Returns the processor time that this process has used.
pub(super) fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap())
}
