//! A counter of open questions, per caller and in total (MGP §4.4).

use std::collections::HashMap;
use std::sync::Arc;

use mgp_types::service::Principal;
use mgp_types::sync::{Mutex, MutexGuard};

/// The number of open questions, per caller and in total, with their limits.
#[derive(Debug)]
pub(super) struct Pending {
    open: Mutex<Open>,
    each: usize,
    all: usize,
}

#[derive(Debug, Default)]
struct Open {
    by: HashMap<Principal, usize>,
    all: usize,
}

/// An open question, which is counted until it is dropped.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    pending: Arc<Pending>,
    principal: Principal,
}

impl Pending {
    pub(super) fn new(each: usize, all: usize) -> Self {
        Self { open: Mutex::default(), each, all }
    }

    /// Counts a new question, or returns `None` if there are too many.
    pub(super) fn open(self: &Arc<Self>, principal: &Principal) -> Option<OpenQuestion> {
        let mut open = self.lock();
        let own = open.by.get(principal).copied().unwrap_or(0);
        if open.all >= self.all || own >= self.each {
            return None;
        }
        open.all += 1;
        open.by.insert(principal.clone(), own + 1);
        Some(OpenQuestion { pending: Arc::clone(self), principal: principal.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let mut open = self.pending.lock();
        open.all = open.all.saturating_sub(1);
        if let Some(own) = open.by.get_mut(&self.principal) {
            *own = own.saturating_sub(1);
            if *own == 0 {
                open.by.remove(&self.principal);
            }
        }
    }
}
