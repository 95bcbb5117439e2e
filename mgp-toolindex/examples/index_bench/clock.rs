//! Time as a search takes it: on the processor, whatever else the machine does, and on the wall.
//!
//! Applies to: both.

use std::time::Duration;

use tokio::time::Instant;

/// A moment on both clocks.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    wall: Instant,
    processor: Duration,
}

/// How long something took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Took {
    /// The time that passed.
    pub(crate) wall: Duration,
    /// The time this process ran.
    pub(crate) processor: Duration,
}

impl Moment {
    /// Now.
    pub(crate) fn now() -> Self {
        Self { wall: Instant::now(), processor: processor() }
    }

    /// What passed since then.
    pub(crate) fn elapsed(self) -> Took {
        Took { processor: processor().saturating_sub(self.processor), wall: self.wall.elapsed() }
    }
}

/// How long all threads of this process ran so far: a change has several.
#[cfg(unix)]
fn processor() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let (seconds, rest) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), rest.unwrap_or(0))
}

/// How long they ran, where nobody counts it: as long as they were there.
#[cfg(not(unix))]
fn processor() -> Duration {
    static START: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
    START.elapsed()
}
