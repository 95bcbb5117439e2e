//! Counts how many tool lists each agent receives.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

use mgp_types::sync::Mutex;

/// The maximum number of agents whose lists are counted between two computations of the savings. Lists of further
/// agents are not counted.
const MAX_AGENTS: usize = 256;

/// The number of lists that each agent has received since the savings were last computed.
#[derive(Default)]
pub(super) struct ListCounter {
    lists: Mutex<BTreeMap<String, u64>>,
    is_due: AtomicBool,
    /// A lock that a task holds while it changes the stored sums.
    storing: tokio::sync::Mutex<()>,
}

impl ListCounter {
    /// Counts a list that an agent received. Returns `true` if no computation of the savings is scheduled yet; the
    /// caller must then schedule one.
    pub(super) fn count(&self, agent: &str) -> bool {
        let mut lists = self.lists.lock();
        if let Some(count) = lists.get_mut(agent) {
            *count += 1;
        } else if lists.len() < MAX_AGENTS {
            lists.insert(agent.to_owned(), 1);
        }
        !self.is_due.swap(true, Ordering::AcqRel)
    }

    /// Removes and returns the counts, with a guard. The caller must store the sums that these counts change before it
    /// drops the guard.
    pub(super) async fn take(&self) -> (tokio::sync::MutexGuard<'_, ()>, BTreeMap<String, u64>) {
        self.is_due.store(false, Ordering::Release);
        let storing = self.storing.lock().await;
        (storing, mem::take(&mut *self.lists.lock()))
    }
}
