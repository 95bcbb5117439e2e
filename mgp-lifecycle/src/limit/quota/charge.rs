//! Charges one call to a quota, and refunds the charge.

use std::sync::Arc;

use bytestring::ByteString;
use mgp_types::service::Context;
use mgp_types::sync::Mutex;

use super::super::caller::Caller;
use super::super::open_calls::RoundUse;
use super::QuotaExceeded;
use super::counters::{BeginResult, QuotaCounters};

/// The charge for a call, which inner layers and handlers find among the call's extensions.
#[derive(Debug)]
pub(super) struct Charge {
    counters: Arc<QuotaCounters>,
    caller: Caller,
    /// The charge for the same call to the quota of an outer layer, if any.
    outer: Option<Arc<Self>>,
    state: Mutex<ChargeState>,
}

#[derive(Debug)]
struct ChargeState {
    /// The period in which the call was charged. `None` if an earlier round was charged instead, or after a refund.
    charged: Option<u128>,
    /// The logical id of the call, if an earlier round of the call was charged and this round was not refunded.
    reopen: Option<ByteString>,
    /// The rounds of the call after the first round, and the units that were charged in all rounds.
    used: RoundUse,
    /// The units that earlier rounds already paid and this round has not used yet. Each round runs the handler from the
    /// start, so the handler charges the same units again; up to this number, they cost nothing.
    paid: u64,
}

impl Charge {
    /// Charges for the call, unless it is a further round of a call that was already charged.
    pub(super) fn begin(
        counters: &Arc<QuotaCounters>,
        cx: &Context,
    ) -> Result<Self, QuotaExceeded> {
        let caller = Caller::of(&cx.principal);
        let state = match counters.begin(&caller, cx.logical.as_ref())? {
            BeginResult::Charged(period) => {
                let used = RoundUse::default();
                ChargeState { charged: Some(period), reopen: None, used, paid: 0 }
            }
            BeginResult::Continued(used) => {
                let paid = used.units;
                ChargeState { charged: None, reopen: cx.logical.clone(), used, paid }
            }
        };
        let outer = cx.extensions.get_shared::<Self>();
        Ok(Self { counters: Arc::clone(counters), caller, outer, state: Mutex::new(state) })
    }

    /// Charges units either to this quota and all outer quotas, or to none of them.
    pub(super) fn add(&self, units: u64) -> Result<(), QuotaExceeded> {
        let mut state = self.state.lock();
        let paid = units.min(state.paid);
        let due = units - paid;
        let period = self.counters.period();
        if due > 0 {
            self.counters.add(&self.caller, due)?;
        }
        if let Some(outer) = &self.outer
            && let Err(exceeded) = outer.add(units)
        {
            self.counters.refund(&self.caller, period, 0, due);
            return Err(exceeded);
        }
        state.paid -= paid;
        state.used.units = state.used.units.saturating_add(due);
        Ok(())
    }

    /// Refunds the charge for the call, but not its units, because the call never ran. If an earlier round was charged,
    /// instead lets this round be repeated without another charge.
    pub(super) fn refund(&self) {
        let mut state = self.state.lock();
        if let Some(period) = state.charged.take() {
            self.counters.refund(&self.caller, period, 1, 0);
        } else if let Some(logical) = state.reopen.take() {
            self.counters.keep_open(logical, self.caller.clone(), state.used);
        }
    }

    /// Records that the call will continue in another round.
    pub(super) fn keep_open(&self, logical: ByteString) {
        let used = self.state.lock().used;
        self.counters.keep_open(logical, self.caller.clone(), used);
    }
}

/// Guard of a call that waits for a permit. If it is dropped before the call starts, the charge is refunded.
#[derive(Debug)]
pub(in super::super) struct UnstartedGuard(Option<Arc<Charge>>);

impl UnstartedGuard {
    pub(in super::super) fn of(cx: &Context) -> Self {
        Self(cx.extensions.get_shared::<Charge>())
    }

    /// Keeps the charge, because the call is now starting.
    pub(in super::super) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for UnstartedGuard {
    fn drop(&mut self) {
        let mut next = self.0.as_ref();
        while let Some(charge) = next {
            charge.refund();
            next = charge.outer.as_ref();
        }
    }
}
