//! What one call was charged for, and how it is taken back.
//!
//! Applies to: both.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytestring::ByteString;
use mgp_types::service::Context;

use super::super::caller::Caller;
use super::QuotaExceeded;
use super::books::{Begun, Books, Shared};

/// What a call was charged for; gates and handlers further in find it in the extensions.
#[derive(Debug)]
pub(super) struct Charge {
    books: Shared,
    caller: Caller,
    /// The same of a quota further out.
    outer: Option<Arc<Self>>,
    so_far: Mutex<SoFar>,
}

#[derive(Debug)]
struct SoFar {
    /// The period the call itself was charged in; none where an earlier round was, or it was given back.
    charged: Option<u128>,
    /// Units of all rounds.
    units: u64,
    /// Units of earlier rounds, which this round has not come to yet.
    paid: u64,
}

impl Charge {
    /// Charges for a call.
    pub(super) fn begin(books: &Shared, cx: &Context) -> Result<Self, QuotaExceeded> {
        let caller = Caller::of(&cx.principal);
        let so_far = match books.begin(&caller, cx.logical.as_ref())? {
            Begun::Charged(period) => SoFar { charged: Some(period), units: 0, paid: 0 },
            Begun::Continued(units) => SoFar { charged: None, units, paid: units },
        };
        let outer = cx.extensions.get_shared::<Self>();
        Ok(Self { books: Arc::clone(books), caller, outer, so_far: Mutex::new(so_far) })
    }

    /// Charges for units, to all quotas or to none.
    pub(super) fn add(&self, units: u64) -> Result<(), QuotaExceeded> {
        let mut so_far = self.so_far();
        let paid = units.min(so_far.paid);
        let due = units - paid;
        let period = self.books.period();
        if due > 0 {
            self.books.add(&self.caller, due)?;
        }
        if let Some(outer) = &self.outer
            && let Err(exceeded) = outer.add(units)
        {
            self.books.give_back(&self.caller, period, 0, due);
            return Err(exceeded);
        }
        so_far.paid -= paid;
        so_far.units = so_far.units.saturating_add(due);
        Ok(())
    }

    /// Takes back the call, not its units: it never ran.
    pub(super) fn give_back(&self) {
        if let Some(period) = self.so_far().charged.take() {
            self.books.give_back(&self.caller, period, 1, 0);
        }
    }

    /// Keeps in mind that the call goes on in another round.
    pub(super) fn goes_on(&self, logical: ByteString) {
        let units = self.so_far().units;
        Books::keep_open(&self.books, logical, self.caller.clone(), units);
    }

    fn so_far(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that waits and has not started: where it never does, it is charged to nobody.
#[derive(Debug)]
pub(in super::super) struct Unstarted(Option<Arc<Charge>>);

impl Unstarted {
    pub(in super::super) fn of(cx: &Context) -> Self {
        Self(cx.extensions.get_shared::<Charge>())
    }

    /// It starts.
    pub(in super::super) fn starts(mut self) {
        self.0 = None;
    }
}

impl Drop for Unstarted {
    fn drop(&mut self) {
        let mut next = self.0.as_ref();
        while let Some(charge) = next {
            charge.give_back();
            next = charge.outer.as_ref();
        }
    }
}
