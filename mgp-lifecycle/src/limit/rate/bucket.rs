//! One bucket of a rate limit (GCRA): each call empties it a little, and it fills again at the average rate. It is
//! stored as the time when it will be full.

use std::time::Duration;

use super::RateLimit;

/// The parameters of a bucket, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct BucketParams {
    /// The interval between two calls at the average rate, in nanoseconds.
    interval: u64,
    /// The time that calls can be ahead of the average rate; it allows a burst.
    tolerance: u64,
}

/// The refusal of a call that arrived too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooSoon {
    /// The time until the call would be allowed, in nanoseconds; `None` if it will never be.
    pub(super) wait: Option<u64>,
    /// The number of calls that the bucket counts at present.
    pub(super) current: u32,
}

impl BucketParams {
    pub(super) fn of(limit: &RateLimit) -> Self {
        let window = nanos(limit.window);
        // Round up: with a shorter interval, a window could contain one call more than the limit.
        let interval = window.checked_div(u64::from(limit.calls)).unwrap_or(0);
        let is_even = interval.saturating_mul(u64::from(limit.calls)) == window;
        let interval = if is_even { interval } else { interval.saturating_add(1) };
        let tolerance =
            if limit.calls == 0 { 0 } else { interval.saturating_mul(limit.burst.into()) };
        Self { interval, tolerance }
    }

    /// Returns the time when the bucket is full again after one more call at the time `now`, or an error if the bucket
    /// refuses this call. `full_at` is the time when it is full again without the call, or 0 if it was never used.
    pub(super) fn next_full_at(self, full_at: u64, now: u64) -> Result<u64, TooSoon> {
        let from = full_at.max(now);
        let next = from.saturating_add(self.interval);
        if self.tolerance == 0 {
            // The limit, the burst or the window is zero, so no call is ever allowed.
            return Err(TooSoon { wait: None, current: 0 });
        }
        let over = next.saturating_sub(now).saturating_sub(self.tolerance);
        if over == 0 {
            return Ok(next);
        }
        let current = (from - now).div_ceil(self.interval);
        let current = u32::try_from(current).unwrap_or(u32::MAX);
        Err(TooSoon { wait: Some(over), current })
    }

    /// Returns the number of calls that the bucket counts at the time `now`.
    pub(super) fn used(self, full_at: u64, now: u64) -> u32 {
        let ahead = full_at.saturating_sub(now);
        let used = if self.interval == 0 { 0 } else { ahead.div_ceil(self.interval) };
        u32::try_from(used).unwrap_or(u32::MAX)
    }

    /// Returns the time when the bucket is full again, without a call that was counted before.
    pub(super) fn refund(self, full_at: u64) -> u64 {
        full_at.saturating_sub(self.interval)
    }
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_burst_passes_then_one_call_at_a_time() {
        let params = BucketParams::of(&RateLimit::per_minute(60).burst(3));
        let mut full_at = 0;
        for _ in 0..3 {
            full_at = params.next_full_at(full_at, 100).unwrap();
        }
        assert_eq!(
            params.next_full_at(full_at, 100),
            Err(TooSoon { wait: Some(SECOND), current: 3 })
        );
        let later = 100 + SECOND / 4;
        let wait = Some(SECOND - SECOND / 4);
        assert_eq!(params.next_full_at(full_at, later), Err(TooSoon { wait, current: 3 }));
        assert!(params.next_full_at(full_at, 100 + SECOND).is_ok());
    }

    #[test]
    fn zero_allows_nothing_and_the_largest_values_do_not_overflow() {
        let none = Err(TooSoon { wait: None, current: 0 });
        assert_eq!(BucketParams::of(&RateLimit::per_minute(0)).next_full_at(0, 5), none);
        assert_eq!(BucketParams::of(&RateLimit::per_minute(0).burst(9)).next_full_at(0, 5), none);
        assert_eq!(BucketParams::of(&RateLimit::per_minute(9).burst(0)).next_full_at(0, 5), none);
        let longest = BucketParams::of(&RateLimit::every(Duration::MAX, 1).burst(u32::MAX));
        assert!(longest.next_full_at(u64::MAX - 3, u64::MAX - 9).is_ok());
        let most = BucketParams::of(&RateLimit::per_second(u32::MAX));
        assert!(most.next_full_at(0, u64::MAX).is_ok());
        assert!(
            BucketParams::of(&RateLimit::every(Duration::ZERO, 5))
                .next_full_at(u64::MAX, 0)
                .is_err()
        );
    }

    proptest! {
        /// No window contains more calls than the limit plus a burst, and a caller that waits as long as required is
        /// admitted.
        #[test]
        fn never_more_than_the_limit_and_a_burst(
            limit in 1_u32..50,
            burst in 1_u32..60,
            steps in proptest::collection::vec(0_u64..8 * SECOND, 1..300),
        ) {
            let window = 60 * SECOND;
            let params = BucketParams::of(&RateLimit::per_minute(limit).burst(burst));
            let (mut now, mut full_at, mut admitted) = (1, 0, Vec::new());
            for step in steps {
                now += step;
                match params.next_full_at(full_at, now) {
                    Ok(next) => {
                        full_at = next;
                        admitted.push(now);
                    }
                    Err(soon) => {
                        let wait = soon.wait.unwrap();
                        prop_assert!(soon.current <= burst);
                        prop_assert!(wait <= window);
                        prop_assert!(params.next_full_at(full_at, now + wait).is_ok());
                        prop_assert!(params.next_full_at(full_at, now + wait - 1).is_err());
                    }
                }
                let recent = admitted.iter().filter(|at| **at + window > now).count();
                prop_assert!(recent <= (limit + burst) as usize, "{recent}");
            }
        }

        #[test]
        fn a_refund_restores_the_bucket(
            before in 0_u64..200 * SECOND,
            now in 0_u64..200 * SECOND,
        ) {
            let params = BucketParams::of(&RateLimit::per_minute(7).burst(5));
            if let Ok(next) = params.next_full_at(before, now) {
                let full_at = params.refund(next);
                prop_assert_eq!(full_at.max(now), before.max(now));
            }
        }
    }
}
