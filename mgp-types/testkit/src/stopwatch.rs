//! A stopwatch for time limits that must hold on a machine that pauses.

use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use crate::until::now;

/// The interval at which a thread of this process checks that the process runs.
const TICK: Duration = Duration::from_millis(5);
/// The longest time between two checks that does not count as a pause.
const MAX_GAP: Duration = Duration::from_millis(25);

static PAUSES: LazyLock<Mutex<Pauses>> = LazyLock::new(|| {
    std::thread::spawn(watch);
    Mutex::new(Pauses { last: now(), total: Duration::ZERO })
});

/// The pauses of this process that were detected so far.
#[derive(Debug)]
struct Pauses {
    /// The time of the last check.
    last: Instant,
    total: Duration,
}

impl Pauses {
    /// Adds the time since the last check, if it was a pause; returns the total.
    fn check(&mut self, now: Instant) -> Duration {
        let gap = now.duration_since(self.last);
        self.last = now;
        if gap > MAX_GAP {
            self.total += gap.saturating_sub(TICK);
        }
        self.total
    }
}

/// Checks again and again, until the process ends.
fn watch() {
    loop {
        std::thread::sleep(TICK);
        check();
    }
}

/// Returns the time, and the total of the pauses before it.
fn check() -> (Instant, Duration) {
    let mut pauses = PAUSES.lock().expect("no thread panics while it holds the lock");
    let now = now();
    (now, pauses.check(now))
}

/// A measurement of real time that does not include the time in which this process did not run, e.g. because the
/// machine was suspended or ran other processes. The product cannot cause such a pause by blocking a thread.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    begun: Instant,
    pauses_before: Duration,
}

impl Stopwatch {
    /// Starts a measurement.
    #[must_use]
    pub fn start() -> Self {
        let (begun, pauses_before) = check();
        Self { begun, pauses_before }
    }

    /// Returns the time since the start without the pauses.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        let (now, pauses) = check();
        now.duration_since(self.begun + pauses.saturating_sub(self.pauses_before))
    }

    /// Returns the duration of the pauses since the start.
    #[must_use]
    pub fn paused(&self) -> Duration {
        check().1.saturating_sub(self.pauses_before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_long_gap_is_a_pause() {
        let begun = now();
        let mut pauses = Pauses { last: begun, total: Duration::ZERO };
        assert_eq!(pauses.check(begun + MAX_GAP), Duration::ZERO);
        let pause = Duration::from_secs(2);
        assert_eq!(pauses.check(begun + MAX_GAP + TICK + pause), pause);
        let watch = Stopwatch::start();
        crate::until_blocking("time passes", || watch.elapsed() > Duration::from_millis(100));
    }
}
