//! Delays before a stream is opened again after a failure.

use std::time::Duration;

use mgp_types::{Backoff, RpcError, random_name};

use crate::config::ListenConfig;

/// The minimum delay once the delays have stopped growing. From then on the number of attempts is not limited, so there
/// must be a pause between them.
const MIN_LAST_DELAY: Duration = Duration::from_millis(10);

/// Doubling delays with some jitter; after a number of failed attempts, all have the maximum length.
#[derive(Debug)]
pub(super) struct RetryDelay {
    config: ListenConfig,
    backoff: Backoff,
    attempts: u32,
}

impl RetryDelay {
    pub(super) fn new(config: ListenConfig) -> Self {
        Self { backoff: Backoff::new(config.retry, config.max_retry), config, attempts: 0 }
    }

    pub(super) fn reset(&mut self) {
        self.attempts = 0;
    }

    /// Resets the number of failed attempts if a stream stayed open for longer than the next delay.
    pub(super) fn stream_ended(&mut self, time: Duration) {
        if time > self.backoff.delay(self.attempts) {
            self.reset();
        }
    }

    /// Returns whether the attempt that has just failed was the last one with a growing delay.
    pub(super) fn is_at_limit(&self) -> bool {
        self.attempts == self.config.attempts
    }

    /// Returns the next delay. It is at least as long as the server requested, within the configured maximum.
    pub(super) fn next(&mut self, error: Option<&RpcError>) -> Duration {
        let max = self.config.max_retry;
        let delay = if self.attempts < self.config.attempts {
            let asked = error.and_then(|error| error.as_recovery()?.retry_after_ms);
            let asked = asked.map_or(Duration::ZERO, Duration::from_millis);
            self.backoff.delay(self.attempts).max(asked.min(max))
        } else {
            max.max(MIN_LAST_DELAY)
        };
        self.attempts = self.attempts.saturating_add(1);
        // Jitter, so that the clients of a server that was down do not all reconnect at the same time.
        delay.saturating_add(delay.mul_f64(random_fraction() / 4.0))
    }
}

fn random_fraction() -> f64 {
    let digits = random_name().unwrap_or_default();
    digits.get(..4).and_then(|digits| u16::from_str_radix(digits, 16).ok()).map_or(0.0, f64::from)
        / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use mgp_types::{ErrorCode, Recovery};

    use super::*;

    #[track_caller]
    fn check(delay: Duration, seconds: u64) {
        let least = Duration::from_secs(seconds);
        assert!(delay >= least && delay <= least + least / 4, "{delay:?} for {least:?}");
    }

    #[test]
    fn delays_grow_to_a_maximum_and_stay_there() {
        let mut retry_delay = RetryDelay::new(ListenConfig::default());
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60, 60, 60] {
            check(retry_delay.next(None), seconds);
        }
        assert!(retry_delay.is_at_limit());
        check(retry_delay.next(None), 60);
        assert!(!retry_delay.is_at_limit());
        retry_delay.stream_ended(Duration::from_secs(59));
        check(retry_delay.next(None), 60);
        retry_delay.stream_ended(Duration::from_secs(61));
        check(retry_delay.next(None), 1);
    }

    #[test]
    fn the_delays_after_the_limit_are_never_zero() {
        let none = Duration::ZERO;
        let config = ListenConfig { retry: none, max_retry: none, attempts: 1 };
        let mut retry_delay = RetryDelay::new(config);
        assert_eq!(retry_delay.next(None), none);
        assert!(retry_delay.next(None) >= MIN_LAST_DELAY);
    }

    #[test]
    fn a_server_may_ask_for_longer_delays() {
        let hint = |ms| {
            let mut hints = Recovery::default_for(ErrorCode::RATE_LIMITED).unwrap();
            hints.retry_after_ms = Some(ms);
            RpcError::new(ErrorCode::RATE_LIMITED, "later").recovery(hints)
        };
        let mut retry_delay = RetryDelay::new(ListenConfig::default());
        check(retry_delay.next(Some(&hint(5000))), 5);
        check(retry_delay.next(Some(&hint(0))), 2);
        check(retry_delay.next(Some(&hint(u64::MAX))), 60);
    }
}
