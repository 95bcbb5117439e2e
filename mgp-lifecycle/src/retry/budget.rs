//! How many attempts the calls of a server pay for, so that a server in trouble is not buried under them.
//!
//! Applies to: outbound.

use std::time::Duration;

use tokio::time::Instant;

/// How many further attempts the calls of a server pay for, over about a minute.
///
/// Where this is used up calls fail with their own error at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryBudget {
    /// How many further attempts 100 calls pay for. 10.
    pub percent: u32,
    /// How many are free where there are few calls; not in addition to those that are paid for. 10.
    pub floor: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { percent: 10, floor: 10 }
    }
}

/// The time after which about a third of what was counted still counts.
const MEMORY: Duration = Duration::from_mins(1);

/// What was counted; both figures fade at the same pace, so no more attempts are made than all calls paid for.
#[derive(Debug, Default)]
pub(super) struct Spent {
    calls: f64,
    retries: f64,
    /// How many calls there had been when it was looked at last.
    seen: u64,
    at: Option<Instant>,
}

impl Spent {
    /// Takes one attempt, if it is paid for; `calls` is the number of all calls so far.
    pub(super) fn take(&mut self, now: Instant, calls: u64, budget: RetryBudget) -> bool {
        self.fade(now, calls);
        let paid = self.calls * f64::from(budget.percent) / 100.0;
        let affordable = self.retries + 1.0 <= paid.max(f64::from(budget.floor)) + ROUNDING;
        if affordable {
            self.retries += 1.0;
        }
        affordable
    }

    /// Lets time pass; calls that came meanwhile count as if they had come evenly.
    fn fade(&mut self, now: Instant, calls: u64) {
        let ages = self.at.map_or(0.0, |at| {
            now.saturating_duration_since(at).as_secs_f64() / MEMORY.as_secs_f64()
        });
        let kept = (-ages).exp();
        let fresh = if ages > f64::EPSILON { (1.0 - kept) / ages } else { 1.0 };
        #[expect(clippy::cast_precision_loss, reason = "2^53 calls do not come within a minute")]
        let came = calls.saturating_sub(self.seen) as f64;
        self.calls = self.calls * kept + came * fresh;
        self.retries *= kept;
        (self.seen, self.at) = (calls, Some(now));
    }
}

/// What sums of fractions may be wrong by.
const ROUNDING: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;

    fn most(calls: u64, budget: RetryBudget) -> usize {
        let (now, mut spent) = (Instant::now(), Spent::default());
        (0..calls).filter(|made| spent.take(now, made + 1, budget)).count()
    }

    #[test]
    fn a_tenth_of_many_calls_and_the_floor_of_few() {
        let budget = RetryBudget::default();
        assert_eq!(most(10_000, budget), 1_000);
        assert_eq!(most(100, budget), 10);
        assert_eq!(most(50, budget), 10);
        assert_eq!(most(5, budget), 5);
        assert_eq!(most(1_000, RetryBudget { percent: 0, floor: 0 }), 0);
        assert_eq!(most(1_000, RetryBudget { percent: u32::MAX, floor: u32::MAX }), 1_000);
    }

    #[test]
    fn the_floor_comes_back_with_time_and_no_more_than_it() {
        let (mut now, mut spent, budget) =
            (Instant::now(), Spent::default(), RetryBudget::default());
        let mut drain = |now| (0..100).filter(|_| spent.take(now, 1, budget)).count();
        assert_eq!(drain(now), 10);
        assert_eq!(drain(now), 0);
        now += Duration::from_mins(1);
        assert_eq!(drain(now), 6);
        now += Duration::from_hours(1000);
        assert_eq!(drain(now), 10);
    }

    #[test]
    fn calls_of_long_ago_pay_for_nothing() {
        let (now, mut spent, budget) = (Instant::now(), Spent::default(), RetryBudget::default());
        assert!(spent.take(now, 0, budget));
        // A million calls in a day are some 700 in a minute.
        let tomorrow = now + Duration::from_hours(24);
        let taken = (0..10_000).filter(|_| spent.take(tomorrow, 1_000_000, budget)).count();
        assert!((60..=75).contains(&taken), "{taken}");
    }
}
