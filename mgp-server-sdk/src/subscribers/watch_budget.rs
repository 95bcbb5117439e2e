//! The limit for the memory that the subscriptions of one client to resources take, in all its sessions and streams
//! together.

use std::collections::HashMap;
use std::sync::Arc;

use mgp_types::service::Principal;
use mgp_types::sync::Mutex;

/// The maximum size of all subscriptions of one principal, in bytes. A client can open many sessions, so the limit of
/// each session alone does not limit the memory.
const MAX_BYTES: usize = 64 << 20;

/// The size of a subscription without its URI, in bytes. It includes the part that a gateway keeps.
const BASE_BYTES: usize = 2 << 10;

/// The number of copies of its URI that are kept for a subscription.
const URI_COPIES: usize = 4;

/// The size of the subscriptions of each principal, in bytes. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(super) struct WatchBudget(Arc<Mutex<HashMap<Principal, usize>>>);

/// A guard that counts a subscription until the guard is dropped.
pub(crate) struct WatchCharge {
    budget: WatchBudget,
    principal: Principal,
    bytes: usize,
}

impl WatchBudget {
    /// Counts a subscription of a principal to a resource. Returns `None` if the principal would exceed its limit.
    pub(super) fn charge(&self, principal: &Principal, uri: &str) -> Option<WatchCharge> {
        let bytes = uri.len().saturating_mul(URI_COPIES).saturating_add(BASE_BYTES);
        let mut used = self.0.lock();
        let sum = used.get(principal).copied().unwrap_or_default().saturating_add(bytes);
        if sum > MAX_BYTES {
            return None;
        }
        used.insert(principal.clone(), sum);
        drop(used);
        Some(WatchCharge { budget: self.clone(), principal: principal.clone(), bytes })
    }

    /// Returns the number of principals that have subscriptions.
    #[cfg(test)]
    pub(super) fn principals(&self) -> usize {
        self.0.lock().len()
    }
}

impl Drop for WatchCharge {
    fn drop(&mut self) {
        let mut used = self.budget.0.lock();
        let Some(sum) = used.get_mut(&self.principal) else { return };
        *sum = sum.saturating_sub(self.bytes);
        if *sum == 0 {
            used.remove(&self.principal);
        }
    }
}
