//! Measures wall time and processor time; processor time does not depend on other processes.

use std::time::Duration;

use tokio::time::Instant;

/// A point in time on both clocks.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    wall: Instant,
    processor: Duration,
}

/// A duration on both clocks.
#[derive(Clone, Copy, Default)]
pub(crate) struct Took {
    /// The time that elapsed on the wall clock.
    pub(crate) wall: Duration,
    /// The processor time that this process used.
    pub(crate) processor: Duration,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self { wall: Instant::now(), processor: processor() }
    }

    /// Returns the wall and processor time since this moment.
    pub(crate) fn elapsed(self) -> Took {
        Took { processor: processor().saturating_sub(self.processor), wall: self.wall.elapsed() }
    }
}

/// Returns the processor time of all threads of this process.
#[cfg(unix)]
fn processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let (seconds, rest) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), rest.unwrap_or(0))
}

/// Returns the wall time since the first call, because processor time is not available on this system.
#[cfg(not(unix))]
fn processor() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed()
}
