//! Delays that double up to a maximum.

use std::time::Duration;

/// Delays for retries: each delay is twice as long as the previous delay, up to a maximum.
///
/// ```
/// use std::time::Duration;
/// use mgp_types::Backoff;
///
/// let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
/// let delays: Vec<_> = (0..4).map(|_| backoff.next_delay().as_secs()).collect();
/// assert_eq!(delays, [1, 2, 4, 5]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    attempts: u32,
}

impl Backoff {
    /// Creates delays that begin with `first` and double with each attempt, but are never longer than `max`.
    #[must_use]
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, attempts: 0 }
    }

    /// Returns the delay before the attempt with this number, counted from zero; does not change the counter of
    /// attempts.
    #[must_use]
    pub fn delay(&self, attempt: u32) -> Duration {
        let factor = 1_u32.checked_shl(attempt).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.max)
    }

    /// Returns the delay before the next attempt, and increments the counter of attempts.
    pub fn next_delay(&mut self) -> Duration {
        let delay = self.delay(self.attempts);
        self.attempts = self.attempts.saturating_add(1);
        delay
    }

    /// Resets the counter of attempts, e.g. after a success, so that the next delay is again the shortest delay.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

/// Converts a duration to whole milliseconds, the unit used in messages; saturates at `u64::MAX`.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_never_overflows() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        assert_eq!(backoff.delay(31), Duration::from_secs(30));
        assert_eq!(backoff.delay(u32::MAX), Duration::from_secs(30));
        backoff.next_delay();
        backoff.reset();
        assert_eq!(backoff.next_delay(), Duration::from_secs(1));
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
