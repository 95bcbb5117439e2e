//! What each principal has used in this period, and which calls go on in another round.
//!
//! Applies to: both.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytestring::ByteString;
use mgp_types::Timestamp;

use super::super::caller::Caller;
use super::{Quota, QuotaExceeded, QuotaUse};

/// How many calls may wait for their next round; the oldest gives way, and its next round is charged as a call of its own.
const OPEN_MAX: usize = 1024;

/// The books of one quota.
pub(super) struct Books {
    quota: Quota,
    now: Box<dyn Fn() -> SystemTime + Send + Sync>,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// Which period this is about, counted from 1970.
    period: u128,
    used: HashMap<Caller, Used, ahash::RandomState>,
    /// What those used together that came when there was no room.
    shared: Used,
    open: Open,
}

#[derive(Clone, Copy, Debug, Default)]
struct Used {
    calls: u64,
    units: u64,
}

/// Calls whose round ended with questions, by their logical name.
#[derive(Debug, Default)]
struct Open {
    calls: HashMap<ByteString, (u64, Caller, u64)>,
    ages: BTreeMap<u64, ByteString>,
    next: u64,
}

/// What became of a call that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Begun {
    /// It was charged in this period.
    Charged(u128),
    /// An earlier round was, and so many units with it.
    Continued(u64),
}

impl Books {
    pub(super) fn new(quota: Quota) -> Self {
        Self::at(quota, SystemTime::now)
    }

    /// Books with a clock of their own.
    pub(super) fn at(quota: Quota, now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self { quota, now: Box::new(now), kept: Mutex::default() }
    }

    /// Charges a principal for a call, unless it is a further round of one.
    pub(super) fn begin(
        &self,
        caller: &Caller,
        logical: Option<&ByteString>,
    ) -> Result<Begun, QuotaExceeded> {
        let mut kept = self.kept();
        if let Some(logical) = logical
            && let Some(units) = kept.open.resume(logical, caller)
        {
            return Ok(Begun::Continued(units));
        }
        let period = kept.period;
        let used = kept.of(caller, self.quota.callers);
        if used.calls >= self.quota.calls {
            let used = used.calls;
            return Err(self.exceeded("calls", self.quota.calls, used, period));
        }
        used.calls += 1;
        Ok(Begun::Charged(period))
    }

    /// Charges a principal for units.
    pub(super) fn add(&self, caller: &Caller, units: u64) -> Result<(), QuotaExceeded> {
        let mut kept = self.kept();
        let period = kept.period;
        let used = kept.of(caller, self.quota.callers);
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

    /// Takes back what was charged in a period, if that is still the one.
    pub(super) fn give_back(&self, caller: &Caller, period: u128, calls: u64, units: u64) {
        let mut kept = self.kept();
        if kept.period == period {
            let used = kept.of(caller, self.quota.callers);
            used.calls = used.calls.saturating_sub(calls);
            used.units = used.units.saturating_sub(units);
        }
    }

    /// Keeps in mind that a call goes on, and what it was charged for so far.
    pub(super) fn keep_open(&self, logical: ByteString, caller: Caller, units: u64) {
        self.kept().open.keep(logical, caller, units);
    }

    /// What a principal has used.
    pub(super) fn used(&self, caller: &Caller) -> QuotaUse {
        let kept = self.kept();
        let used = kept.used.get(caller).copied().unwrap_or_default();
        let resets_at = self.end_of(kept.period);
        QuotaUse { calls: used.calls, units: used.units, resets_at }
    }

    /// The period that is now.
    pub(super) fn period(&self) -> u128 {
        self.kept().period
    }

    fn exceeded(&self, kind: &'static str, quota: u64, used: u64, period: u128) -> QuotaExceeded {
        let resets_at = self.end_of(period);
        QuotaExceeded { kind, quota, used, period: self.quota.period, resets_at }
    }

    fn length(&self) -> Duration {
        self.quota.period.max(Duration::from_secs(1))
    }

    /// When a period ends.
    fn end_of(&self, period: u128) -> Timestamp {
        let end = (period + 1).saturating_mul(self.length().as_nanos());
        let end = Duration::from_nanos(u64::try_from(end).unwrap_or(u64::MAX));
        UNIX_EPOCH.checked_add(end).unwrap_or(UNIX_EPOCH).into()
    }

    /// The books of the period that is now: with each the counts start from zero.
    fn kept(&self) -> MutexGuard<'_, Kept> {
        let since = (self.now)().duration_since(UNIX_EPOCH).unwrap_or_default();
        let period = since.as_nanos() / self.length().as_nanos();
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.period != period {
            kept.period = period;
            kept.used.clear();
            kept.shared = Used::default();
        }
        kept
    }
}

impl Kept {
    fn of(&mut self, caller: &Caller, bound: usize) -> &mut Used {
        if self.used.len() >= bound && !self.used.contains_key(caller) {
            return &mut self.shared;
        }
        self.used.entry(caller.clone()).or_default()
    }
}

impl Open {
    fn keep(&mut self, logical: ByteString, caller: Caller, units: u64) {
        self.next += 1;
        self.ages.insert(self.next, logical.clone());
        if let Some((age, ..)) = self.calls.insert(logical, (self.next, caller, units)) {
            self.ages.remove(&age);
        }
        while self.calls.len() > OPEN_MAX
            && let Some((_, oldest)) = self.ages.pop_first()
        {
            self.calls.remove(&oldest);
        }
    }

    /// Goes on with a call: it is charged for once more if its caller sends the same round again.
    fn resume(&mut self, logical: &ByteString, caller: &Caller) -> Option<u64> {
        let (age, of, units) = self.calls.get(logical)?;
        if of != caller {
            return None;
        }
        let (age, units) = (*age, *units);
        self.ages.remove(&age);
        self.calls.remove(logical);
        Some(units)
    }
}

impl fmt::Debug for Books {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.quota.fmt(f)
    }
}

/// Shared by the layer and the charges of its calls.
pub(super) type Shared = Arc<Books>;

#[cfg(test)]
mod tests {
    use mgp_types::service::Principal;

    use super::*;

    #[test]
    fn what_waits_for_its_next_round_is_bounded_and_belongs_to_its_caller() {
        let caller = |name: &str| Caller::of(&Principal::new("t", name));
        let mut open = Open::default();
        for number in 0..=OPEN_MAX as u64 {
            open.keep(number.to_string().into(), caller("ann"), number);
        }
        assert_eq!((open.calls.len(), open.ages.len()), (OPEN_MAX, OPEN_MAX));
        assert_eq!(open.resume(&"0".into(), &caller("ann")), None, "the oldest gave way");
        assert_eq!(open.resume(&"7".into(), &caller("bob")), None);
        assert_eq!(open.resume(&"7".into(), &caller("ann")), Some(7));
        assert_eq!(open.resume(&"7".into(), &caller("ann")), None, "each round once");
        open.keep("8".into(), caller("ann"), 1);
        assert_eq!((open.calls.len(), open.ages.len()), (OPEN_MAX - 1, OPEN_MAX - 1));
    }

    #[test]
    fn principals_that_find_no_room_share_one_quota() {
        let caller = |number: u8| Caller::of(&Principal::new("t", format!("s{number}")));
        let books = Books::new(Quota::per_day(2).callers(2));
        assert!(books.begin(&caller(0), None).is_ok());
        assert!(books.begin(&caller(1), None).is_ok());
        assert!(books.begin(&caller(2), None).is_ok());
        assert!(books.begin(&caller(3), None).is_ok());
        assert!(books.begin(&caller(4), None).is_err());
        assert!(books.begin(&caller(0), None).is_ok());
    }
}
