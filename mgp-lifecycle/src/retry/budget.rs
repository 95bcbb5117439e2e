//! The budget of retries for each server. It prevents retries from overloading a server that already has problems.

use std::time::Duration;

use tokio::time::Instant;

/// The time constant of the decay: within it, the counts fall to about a third.
const DECAY_TIME: Duration = Duration::from_mins(1);

/// The rounding error allowed in sums of fractions.
const ROUNDING_ERROR: f64 = 1e-6;

/// The limit on the share of retries among the calls to a server, over about a minute.
///
/// When the budget is used up, failed calls return their own error without a retry. A retry that is not sent after its
/// wait, e.g. because the circuit breaker opened or the caller left, does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RetryBudget {
    /// Number of retries allowed per 100 calls. Default: 10.
    pub percent: u32,
    /// The number of retries that are always allowed, even if `percent` allows fewer. Default: 10.
    pub floor: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { percent: 10, floor: 10 }
    }
}

/// The counts of calls and retries. Both decay at the same rate, so that old calls do not permit new retries.
#[derive(Debug, Default)]
pub(super) struct BudgetUsage {
    calls: f64,
    retries: f64,
    /// The number of calls at the last update.
    seen: u64,
    at: Option<Instant>,
}

impl BudgetUsage {
    /// Counts one retry and returns `true`, if the budget allows it; `calls` is the number of all calls so far.
    pub(super) fn reserve(&mut self, now: Instant, calls: u64, budget: RetryBudget) -> bool {
        self.decay(now, calls);
        let paid = self.calls * f64::from(budget.percent) / 100.0;
        let affordable = self.retries + 1.0 <= paid.max(f64::from(budget.floor)) + ROUNDING_ERROR;
        if affordable {
            self.retries += 1.0;
        }
        affordable
    }

    /// Subtracts a retry that was counted at `since`, because it is not sent.
    pub(super) fn give_back(&mut self, since: Instant) {
        // Since it was counted, the retry has decayed like all others, so subtract only what is left of it.
        let ages = self.at.map_or(0.0, |at| ages_between(since, at));
        self.retries = (self.retries - (-ages).exp()).max(0.0);
    }

    /// Decays both counts up to `now`; the calls since the last update are assumed to be evenly distributed.
    fn decay(&mut self, now: Instant, calls: u64) {
        let ages = self.at.map_or(0.0, |at| ages_between(at, now));
        let remaining = (-ages).exp();
        let fresh = if ages > f64::EPSILON { (1.0 - remaining) / ages } else { 1.0 };
        #[expect(
            clippy::cast_precision_loss,
            reason = "there are never 2^53 calls within a minute"
        )]
        let new_calls = calls.saturating_sub(self.seen) as f64;
        self.calls = self.calls * remaining + new_calls * fresh;
        self.retries *= remaining;
        (self.seen, self.at) = (calls, Some(now));
    }
}

/// Returns a time as a multiple of [`DECAY_TIME`].
fn ages_between(from: Instant, to: Instant) -> f64 {
    to.saturating_duration_since(from).as_secs_f64() / DECAY_TIME.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn max_retries(calls: u64, budget: RetryBudget) -> usize {
        let (now, mut usage) = (Instant::now(), BudgetUsage::default());
        (0..calls).filter(|made| usage.reserve(now, made + 1, budget)).count()
    }

    #[test]
    fn a_tenth_of_many_calls_and_the_floor_of_few() {
        let budget = RetryBudget::default();
        assert_eq!(max_retries(10_000, budget), 1_000);
        assert_eq!(max_retries(100, budget), 10);
        assert_eq!(max_retries(50, budget), 10);
        assert_eq!(max_retries(5, budget), 5);
        assert_eq!(max_retries(1_000, RetryBudget { percent: 0, floor: 0 }), 0);
        assert_eq!(max_retries(1_000, RetryBudget { percent: u32::MAX, floor: u32::MAX }), 1_000);
    }

    #[test]
    fn the_floor_is_refilled_with_time_and_never_exceeded() {
        let (mut now, mut usage, budget) =
            (Instant::now(), BudgetUsage::default(), RetryBudget::default());
        let mut drain = |now| (0..100).filter(|_| usage.reserve(now, 1, budget)).count();
        assert_eq!(drain(now), 10);
        assert_eq!(drain(now), 0);
        now += Duration::from_mins(1);
        assert_eq!(drain(now), 6);
        now += Duration::from_hours(1000);
        assert_eq!(drain(now), 10);
    }

    #[test]
    fn a_retry_that_is_not_sent_is_given_back_as_far_as_it_still_counts() {
        let (now, mut usage, budget) =
            (Instant::now(), BudgetUsage::default(), RetryBudget { percent: 0, floor: 2 });
        let later = now + Duration::from_mins(1);
        assert!(usage.reserve(now, 1, budget) && usage.reserve(later, 1, budget));
        usage.give_back(now);
        assert!(usage.reserve(later, 1, budget) && !usage.reserve(later, 1, budget));
        usage.give_back(later);
        usage.give_back(later);
        assert_eq!((0..10).filter(|_| usage.reserve(later, 1, budget)).count(), 2);
    }

    #[test]
    fn old_calls_pay_for_nothing() {
        let (now, mut usage, budget) =
            (Instant::now(), BudgetUsage::default(), RetryBudget::default());
        assert!(usage.reserve(now, 0, budget));
        // A million calls in a day are about 700 in a minute, so about 70 retries are allowed.
        let tomorrow = now + Duration::from_hours(24);
        let taken = (0..10_000).filter(|_| usage.reserve(tomorrow, 1_000_000, budget)).count();
        assert!((60..=75).contains(&taken), "{taken}");
    }
}
