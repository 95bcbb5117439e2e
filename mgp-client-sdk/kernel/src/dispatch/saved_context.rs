//! Counts the tokens that tool search saved each agent on each day: the tokens of all its tools minus those of the list
//! that the agent received.
//!
//! A request for a list only raises a counter. The tokens are computed some seconds later, and once more when the
//! kernel stops.

use std::collections::BTreeMap;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mgp_types::mgp::KernelSavedDay;
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, Timestamp};

const SPACE: &str = "kernel_saved_context";

/// The time after which the savings of counted lists are computed.
pub(super) const SETTLE_DELAY: Duration = Duration::from_secs(5);

/// The maximum number of days that are kept for each agent.
const MAX_DAYS: usize = 60;
/// The maximum number of agents whose lists are counted until the savings are computed; lists of further agents are not
/// counted.
const MAX_AGENTS: usize = 256;

/// The number of lists that each agent has received since the savings were last computed.
#[derive(Default)]
pub(crate) struct SavedContext {
    lists: Mutex<BTreeMap<String, u64>>,
    is_due: AtomicBool,
    /// A lock that a task holds while it changes the stored sums.
    settling: tokio::sync::Mutex<()>,
}

impl SavedContext {
    /// Counts a list that an agent received. Returns `true` if `settle` must be called after [`SETTLE_DELAY`].
    pub(super) fn count(&self, agent: &str) -> bool {
        let mut lists = self.lists.lock();
        if let Some(count) = lists.get_mut(agent) {
            *count += 1;
        } else if lists.len() < MAX_AGENTS {
            lists.insert(agent.to_owned(), 1);
        }
        !self.is_due.swap(true, Ordering::AcqRel)
    }

    /// Computes how many tokens the counted lists saved, and adds them to the stored sums of today; `costs` returns the
    /// tokens of an agent's list and of all its tools.
    pub(super) async fn settle<C>(&self, store: &dyn Store, costs: impl Fn(String) -> C)
    where
        C: Future<Output = Option<(u64, u64)>>,
    {
        self.is_due.store(false, Ordering::Release);
        let _turn = self.settling.lock().await;
        let lists = mem::take(&mut *self.lists.lock());
        for (agent, lists) in lists {
            let Some((listed, all)) = costs(agent.clone()).await else { continue };
            let saved = all.saturating_sub(listed).saturating_mul(lists);
            if let Err(error) = add(store, &agent, saved, lists).await {
                tracing::warn!(%error, "saved context not stored");
            }
        }
    }
}

/// Returns the stored days of an agent, the oldest first.
pub(super) async fn stored_days(
    store: &dyn Store,
    agent: &str,
) -> Result<Vec<KernelSavedDay>, StoreError> {
    let prefix = format!("{agent}/");
    let records = store.load(SPACE).await?.records.into_iter();
    let own = records.filter(|record| record.key.starts_with(&prefix));
    let mut days: Vec<KernelSavedDay> = own.filter_map(|record| record.value?.get().ok()).collect();
    days.sort_by(|one, other| one.day.cmp(&other.day));
    Ok(days)
}

async fn add(store: &dyn Store, agent: &str, saved: u64, lists: u64) -> Result<(), StoreError> {
    let today: String = Timestamp::now().to_string().chars().take(10).collect();
    let mut days = stored_days(store, agent).await?;
    let (mut sum, mut change) = (KernelSavedDay::new(today.as_str(), 0_u64, 0_u64), Change::new());
    if days.last().is_some_and(|last| last.day == today) {
        sum = days.pop().unwrap_or(sum);
    }
    sum.saved = sum.saved.saturating_add(saved);
    sum.lists = sum.lists.saturating_add(lists);
    for old in days.iter().rev().skip(MAX_DAYS - 1) {
        change = change.remove(SPACE, format!("{agent}/{}", old.day));
    }
    let value = Payload::of(&sum).map_err(StoreError::failed)?;
    store.commit(change.put(SPACE, format!("{agent}/{today}"), value)).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use mgp_types::store::MemoryStore;

    use super::*;

    #[tokio::test]
    async fn the_sums_of_a_day_grow_and_old_days_are_removed() {
        let store = MemoryStore::new();
        for day in 0..100 {
            let day = format!("2020-{:02}-{:02}", 1 + day / 28, 1 + day % 28);
            let value = Payload::of(&KernelSavedDay::new(day.as_str(), 1_u64, 1_u64)).unwrap();
            let change = Change::new().put(SPACE, format!("ann/{day}"), value);
            store.commit(change).await.unwrap();
        }
        add(&store, "ann", 300, 2).await.unwrap();
        add(&store, "ann", 100, 1).await.unwrap();
        add(&store, "bob", 7, 1).await.unwrap();
        let days = stored_days(&store, "ann").await.unwrap();
        let today = days.last().unwrap();
        assert_eq!((days.len(), today.saved, today.lists), (MAX_DAYS, 400, 3));
        assert_eq!(stored_days(&store, "bob").await.unwrap().len(), 1);
    }
}
