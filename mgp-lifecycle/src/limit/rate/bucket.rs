//! One bucket of a rate, as the moment at which it will be full again (GCRA).
//!
//! Applies to: both.

use std::time::Duration;

use super::RateLimit;

/// The pace of a limit, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// How long it takes until the next call may come.
    every: u64,
    /// How far ahead of it calls may be: a burst.
    ahead: u64,
}

/// A call that came too soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooSoon {
    /// How long until it may come; none where none may.
    pub(super) wait: Option<u64>,
    /// Calls the bucket holds.
    pub(super) current: u32,
}

impl Pace {
    pub(super) fn of(limit: &RateLimit) -> Self {
        let window = nanos(limit.window);
        // Rounded up, so that a window never holds one more.
        let every = window.checked_div(u64::from(limit.limit)).unwrap_or(0);
        let is_even = every.saturating_mul(u64::from(limit.limit)) == window;
        let every = if is_even { every } else { every.saturating_add(1) };
        let ahead = if limit.limit == 0 { 0 } else { every.saturating_mul(limit.burst.into()) };
        Self { every, ahead }
    }

    /// When a bucket is full again after one more call; buckets that were never used are full at 0.
    pub(super) fn take(self, full: u64, now: u64) -> Result<u64, TooSoon> {
        let from = full.max(now);
        let next = from.saturating_add(self.every);
        if self.ahead == 0 {
            // A limit, a burst or a window of zero.
            return Err(TooSoon { wait: None, current: 0 });
        }
        let over = next.saturating_sub(now).saturating_sub(self.ahead);
        if over == 0 {
            return Ok(next);
        }
        let current = (from - now).div_ceil(self.every);
        let current = u32::try_from(current).unwrap_or(u32::MAX);
        Err(TooSoon { wait: Some(over), current })
    }

    /// Takes back one call; whatever else was taken since stays.
    pub(super) fn give_back(self, full: u64) -> u64 {
        full.saturating_sub(self.every)
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
    fn a_burst_then_one_at_a_time() {
        let pace = Pace::of(&RateLimit::per_minute(60).burst(3));
        let mut full = 0;
        for _ in 0..3 {
            full = pace.take(full, 100).unwrap();
        }
        assert_eq!(pace.take(full, 100), Err(TooSoon { wait: Some(SECOND), current: 3 }));
        let later = 100 + SECOND / 4;
        let wait = Some(SECOND - SECOND / 4);
        assert_eq!(pace.take(full, later), Err(TooSoon { wait, current: 3 }));
        assert!(pace.take(full, 100 + SECOND).is_ok());
    }

    #[test]
    fn zero_allows_nothing_and_the_largest_figures_are_no_trouble() {
        let none = Err(TooSoon { wait: None, current: 0 });
        assert_eq!(Pace::of(&RateLimit::per_minute(0)).take(0, 5), none);
        assert_eq!(Pace::of(&RateLimit::per_minute(0).burst(9)).take(0, 5), none);
        assert_eq!(Pace::of(&RateLimit::per_minute(9).burst(0)).take(0, 5), none);
        let longest = Pace::of(&RateLimit::every(Duration::MAX, 1).burst(u32::MAX));
        assert!(longest.take(u64::MAX - 3, u64::MAX - 9).is_ok());
        let most = Pace::of(&RateLimit::per_second(u32::MAX));
        assert!(most.take(0, u64::MAX).is_ok());
        assert!(Pace::of(&RateLimit::every(Duration::ZERO, 5)).take(u64::MAX, 0).is_err());
    }

    proptest! {
        /// No stretch of a window's length holds more than the limit and a burst; and who waits as told is let in.
        #[test]
        fn never_more_than_the_limit_and_a_burst(
            limit in 1_u32..50,
            burst in 1_u32..60,
            steps in proptest::collection::vec(0_u64..8 * SECOND, 1..300),
        ) {
            let window = 60 * SECOND;
            let pace = Pace::of(&RateLimit::per_minute(limit).burst(burst));
            let (mut now, mut full, mut came) = (1, 0, Vec::new());
            for step in steps {
                now += step;
                match pace.take(full, now) {
                    Ok(next) => {
                        full = next;
                        came.push(now);
                    }
                    Err(soon) => {
                        let wait = soon.wait.unwrap();
                        prop_assert!(soon.current <= burst);
                        prop_assert!(wait <= window);
                        prop_assert!(pace.take(full, now + wait).is_ok());
                        prop_assert!(pace.take(full, now + wait - 1).is_err());
                    }
                }
                let recent = came.iter().filter(|at| **at + window > now).count();
                prop_assert!(recent <= (limit + burst) as usize, "{recent}");
            }
        }

        #[test]
        fn what_is_given_back_was_never_taken(
            before in 0_u64..200 * SECOND,
            now in 0_u64..200 * SECOND,
        ) {
            let pace = Pace::of(&RateLimit::per_minute(7).burst(5));
            if let Ok(next) = pace.take(before, now) {
                let full = pace.give_back(next);
                prop_assert_eq!(full.max(now), before.max(now));
            }
        }
    }
}
