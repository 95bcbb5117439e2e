//! The counters of a quota: the use by each principal in the current period, and the calls that will continue in
//! another round (request).

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytestring::ByteString;
use mgp_types::Timestamp;
use mgp_types::sync::{Mutex, MutexGuard};

use super::super::caller::Caller;
use super::super::open_calls::{OpenCalls, RoundUse};
use super::{Quota, QuotaExceeded, QuotaUse};

pub(super) struct QuotaCounters {
    quota: Quota,
    now: Box<dyn Fn() -> SystemTime + Send + Sync>,
    state: Mutex<CounterState>,
}

#[derive(Debug, Default)]
struct CounterState {
    /// The index of the current period, counted from 1970.
    period: u128,
    used: HashMap<Caller, Usage, ahash::RandomState>,
    /// The use by all principals that are not counted separately.
    shared: Usage,
    open: OpenCalls,
}

#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    calls: u64,
    units: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BeginResult {
    /// The call was charged in this period.
    Charged(u128),
    /// The call is a further round of a call that was already charged. Contains how much the earlier rounds used.
    Continued(RoundUse),
}

impl QuotaCounters {
    pub(super) fn new(quota: Quota) -> Self {
        Self::with_clock(quota, SystemTime::now)
    }

    pub(super) fn with_clock(
        quota: Quota,
        now: impl Fn() -> SystemTime + Send + Sync + 'static,
    ) -> Self {
        Self { quota, now: Box::new(now), state: Mutex::default() }
    }

    /// Charges a principal for a call, unless it is a further round of a call that was already charged.
    pub(super) fn begin(
        &self,
        caller: &Caller,
        logical: Option<&ByteString>,
    ) -> Result<BeginResult, QuotaExceeded> {
        let mut state = self.current();
        if let Some(logical) = logical
            && let Some(used) = state.open.resume(logical, caller)
        {
            return Ok(BeginResult::Continued(used));
        }
        let period = state.period;
        let used = state.usage(caller, self.quota.callers);
        if used.calls >= self.quota.calls {
            let used = used.calls;
            return Err(self.exceeded("calls", self.quota.calls, used, period));
        }
        used.calls += 1;
        Ok(BeginResult::Charged(period))
    }

    /// Charges a principal for units.
    pub(super) fn add(&self, caller: &Caller, units: u64) -> Result<(), QuotaExceeded> {
        let mut state = self.current();
        let period = state.period;
        let used = state.usage(caller, self.quota.callers);
        let sum = used.units.saturating_add(units);
        match self.quota.units {
            Some(quota) if sum > quota => {
                let used = used.units;
                Err(self.exceeded("units", quota, used, period))
            }
            _ => {
                used.units = sum;
                Ok(())
            }
        }
    }

    /// Refunds a charge if it was made in the current period.
    pub(super) fn refund(&self, caller: &Caller, period: u128, calls: u64, units: u64) {
        let mut state = self.current();
        if state.period == period {
            let used = state.usage(caller, self.quota.callers);
            used.calls = used.calls.saturating_sub(calls);
            used.units = used.units.saturating_sub(units);
        }
    }

    /// Records that a call will continue in another round, and how much it has used so far.
    pub(super) fn keep_open(&self, logical: ByteString, caller: Caller, used: RoundUse) {
        self.current().open.insert(logical, caller, used);
    }

    pub(super) fn used(&self, caller: &Caller) -> QuotaUse {
        let state = self.current();
        let used = state.used.get(caller).copied().unwrap_or_default();
        let resets_at = self.end_of(state.period);
        QuotaUse { calls: used.calls, units: used.units, resets_at }
    }

    pub(super) fn period(&self) -> u128 {
        self.current().period
    }

    fn exceeded(&self, kind: &'static str, quota: u64, used: u64, period: u128) -> QuotaExceeded {
        let resets_at = self.end_of(period);
        QuotaExceeded { kind, quota, used, period: self.quota.period, resets_at }
    }

    fn length(&self) -> Duration {
        self.quota.period.max(Duration::from_secs(1))
    }

    fn end_of(&self, period: u128) -> Timestamp {
        let end = (period + 1).saturating_mul(self.length().as_nanos());
        let end = Duration::from_nanos(u64::try_from(end).unwrap_or(u64::MAX));
        UNIX_EPOCH.checked_add(end).unwrap_or(UNIX_EPOCH).into()
    }

    /// Returns the counters of the current period; a new period resets them. If the clock was set back, they continue
    /// until the end of the next period at most.
    fn current(&self) -> MutexGuard<'_, CounterState> {
        let since = (self.now)().duration_since(UNIX_EPOCH).unwrap_or_default();
        let period = since.as_nanos() / self.length().as_nanos();
        let mut state = self.state.lock();
        if state.period < period {
            state.period = period;
            state.used.clear();
            state.shared = Usage::default();
        } else {
            state.period = state.period.min(period + 1);
        }
        state
    }
}

impl CounterState {
    fn usage(&mut self, caller: &Caller, bound: usize) -> &mut Usage {
        if self.used.len() >= bound && !self.used.contains_key(caller) {
            return &mut self.shared;
        }
        self.used.entry(caller.clone()).or_default()
    }
}

mgp_types::opaque_debug!(QuotaCounters { quota });

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use mgp_types::service::Principal;

    use super::*;

    #[test]
    fn a_quota_that_is_used_up_stays_so_if_the_clock_is_set_back() {
        let hours = Arc::new(AtomicU64::new(48));
        let clock = Arc::clone(&hours);
        let counters = QuotaCounters::with_clock(Quota::per_day(1), move || {
            UNIX_EPOCH + Duration::from_hours(clock.load(Ordering::Relaxed))
        });
        let caller = Caller::of(&Principal::new("t", "s"));
        assert!(counters.begin(&caller, None).is_ok());
        for (hour, is_allowed) in [(47, false), (48, false), (72, true), (0, false), (48, true)] {
            hours.store(hour, Ordering::Relaxed);
            assert_eq!(counters.begin(&caller, None).is_ok(), is_allowed, "{hour}");
        }
    }

    #[test]
    fn principals_beyond_the_bound_share_one_quota() {
        let caller = |number: u8| Caller::of(&Principal::new("t", format!("s{number}")));
        let counters = QuotaCounters::new(Quota::per_day(2).callers(2));
        assert!(counters.begin(&caller(0), None).is_ok());
        assert!(counters.begin(&caller(1), None).is_ok());
        assert!(counters.begin(&caller(2), None).is_ok());
        assert!(counters.begin(&caller(3), None).is_ok());
        assert!(counters.begin(&caller(4), None).is_err());
        assert!(counters.begin(&caller(0), None).is_ok());
    }
}
