//! For whom a server has worked: what it says later, of no call, may tell of each of them.
//!
//! Applies to: outbound.

use std::sync::{Arc, Mutex, PoisonError};

use mgp_types::service::Principal;

/// Whose calls a server has taken since it was put in its place; two are as good as many.
#[derive(Clone, Debug, Default)]
pub(crate) struct Users(Arc<Mutex<Of>>);

#[derive(Debug, Default)]
enum Of {
    #[default]
    Nobody,
    One(Principal),
    Several,
}

impl Users {
    /// Notes that it works for somebody.
    pub(super) fn note(&self, principal: &Principal) {
        let mut of = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*of {
            Of::Nobody => *of = Of::One(principal.clone()),
            Of::One(one) if one != principal => *of = Of::Several,
            Of::One(_) | Of::Several => {}
        }
    }

    /// Whether it has worked for nobody else.
    pub(crate) fn are_at_most(&self, principal: &Principal) -> bool {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Of::Nobody => true,
            Of::One(one) => one == principal,
            Of::Several => false,
        }
    }
}
