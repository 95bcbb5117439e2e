//! Counts the tokens that each agent has saved through tool search on each day: the tokens of all its tools minus those
//! of the list that it received.
//!
//! A request for a list only increments a counter. The kernel computes the tokens some seconds later, when an operator
//! requests the sums, and when it stops.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mgp_toolindex::max_tokens_of_definition;
use mgp_types::mgp::KernelSavedDay;
use mgp_types::service::{Context, Principal};
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::{Payload, Timestamp};

use super::dispatcher::{Dispatcher, DispatcherParts};
use super::list_costs::list_costs;

const SPACE: &str = "kernel_saved_context";

/// The delay before the savings of counted lists are computed.
const STORE_DELAY: Duration = Duration::from_secs(5);

/// The maximum number of days that are kept for each agent.
const MAX_DAYS: usize = 60;
/// The maximum number of days that are kept for all agents together.
const MAX_STORED: usize = 100 * MAX_DAYS;

/// Counts a list request. A separate task computes the saved tokens later, so that the request does not wait for it.
pub(super) fn count_list(dispatcher: &Dispatcher, cx: &Context) {
    let is_local = cx.principal.tenant() == Principal::local().tenant();
    if !is_local || !dispatcher.parts().list_counter.count(cx.principal.name()) {
        return;
    }
    let parts = Arc::downgrade(dispatcher.shared_parts());
    drop(tokio::spawn(async move {
        tokio::time::sleep(STORE_DELAY).await;
        if let Some(parts) = parts.upgrade() {
            store_savings(&parts).await;
        }
    }));
}

/// Computes how many tokens the counted lists saved, and adds them to the stored sums of today.
async fn store_savings(parts: &Arc<DispatcherParts>) {
    let (_storing, lists) = parts.list_counter.take().await;
    let mut sums = Vec::new();
    for (agent, lists) in lists {
        let (parts, name) = (Arc::clone(parts), agent.clone());
        // Use an estimate: the tables for exact counts need much memory and take a second to load.
        let costs = move || list_costs(&parts, &name, max_tokens_of_definition);
        let Ok((listed, all)) = tokio::task::spawn_blocking(costs).await else { continue };
        let saved = all.saturating_sub(listed).saturating_mul(lists);
        sums.push(SavedTokens { agent, saved, lists });
    }
    if let Err(error) = add(&**parts.fleet.context().governance.store(), &sums).await {
        tracing::warn!(%error, "saved context not stored");
    }
}

impl Dispatcher {
    /// Computes and stores the tokens that the lists counted so far have saved.
    pub(crate) async fn store_saved_context(&self) {
        store_savings(self.shared_parts()).await;
    }

    /// Returns the number of tokens that an agent has saved through tool search on each of the last days, the oldest
    /// day first.
    pub(crate) async fn saved_days(&self, agent: &str) -> Result<Vec<KernelSavedDay>, StoreError> {
        self.store_saved_context().await;
        stored_days(&**self.parts().fleet.context().governance.store(), agent).await
    }
}

/// The number of tokens that an agent saved through short lists, and the number of these lists.
struct SavedTokens {
    agent: String,
    saved: u64,
    lists: u64,
}

/// Returns the stored days of an agent, the oldest first.
async fn stored_days(store: &dyn Store, agent: &str) -> Result<Vec<KernelSavedDay>, StoreError> {
    let records = store.load(SPACE).await?.records.into_iter();
    let own = records.filter(|record| split(&record.key).0 == agent);
    let mut days: Vec<KernelSavedDay> = own.filter_map(|record| record.value?.get().ok()).collect();
    days.sort_by(|one, other| one.day.cmp(&other.day));
    Ok(days)
}

/// Splits a key into the agent and the day. The name of an agent can contain slashes.
fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or((key, ""))
}

/// Adds numbers to the sums of today, and removes the days beyond the limits.
async fn add(store: &dyn Store, sums: &[SavedTokens]) -> Result<(), StoreError> {
    if sums.is_empty() {
        return Ok(());
    }
    let today: String = Timestamp::now().to_string().chars().take(10).collect();
    let records = store.load(SPACE).await?.records.into_iter();
    let mut stored: BTreeMap<String, Option<Payload>> =
        records.map(|record| (record.key, record.value)).collect();
    let mut change = Change::new();
    for SavedTokens { agent, saved, lists } in sums {
        let key = format!("{agent}/{today}");
        let before = stored.get(&key).and_then(|value| value.as_ref()?.get().ok());
        let mut sum: KernelSavedDay =
            before.unwrap_or_else(|| KernelSavedDay::new(today.as_str(), 0_u64, 0_u64));
        sum.saved = sum.saved.saturating_add(*saved);
        sum.lists = sum.lists.saturating_add(*lists);
        let value = Payload::of(&sum).map_err(StoreError::failed)?;
        change = change.put(SPACE, key.clone(), value);
        stored.insert(key, None);
    }
    for key in surplus(stored.keys(), &today) {
        change = change.remove(SPACE, key);
    }
    store.commit(change).await.map(drop)
}

/// Returns the keys of the stored days that exceed the limits, i.e. that the caller must remove.
fn surplus<'a>(keys: impl Iterator<Item = &'a String>, today: &str) -> Vec<&'a str> {
    let mut by_agent = BTreeMap::<&str, Vec<&str>>::new();
    for key in keys {
        by_agent.entry(split(key).0).or_default().push(key);
    }
    let mut removed = Vec::new();
    let mut kept = Vec::new();
    for days in by_agent.into_values() {
        kept.extend(take_surplus(days, today, MAX_DAYS, &mut removed));
    }
    take_surplus(kept, today, MAX_STORED, &mut removed);
    removed
}

/// Moves the keys of days beyond `max` to `removed`, and returns the other keys. Removes days in the future first,
/// because they were stored while the clock was wrong, and then the oldest days.
fn take_surplus<'a>(
    mut days: Vec<&'a str>,
    today: &str,
    max: usize,
    removed: &mut Vec<&'a str>,
) -> Vec<&'a str> {
    days.sort_by_key(|&key| {
        let day = split(key).1;
        (day <= today, day)
    });
    let kept = days.split_off(days.len().saturating_sub(max));
    removed.append(&mut days);
    kept
}

#[cfg(test)]
mod tests {
    use mgp_types::store::MemoryStore;

    use super::*;

    async fn put(store: &MemoryStore, agent: &str, day: &str) {
        let value = Payload::of(&KernelSavedDay::new(day, 1_u64, 1_u64)).unwrap();
        let change = Change::new().put(SPACE, format!("{agent}/{day}"), value);
        store.commit(change).await.unwrap();
    }

    async fn add_one(store: &MemoryStore, agent: &str, saved: u64, lists: u64) {
        add(store, &[SavedTokens { agent: agent.to_owned(), saved, lists }]).await.unwrap();
    }

    #[tokio::test]
    async fn the_sums_of_a_day_grow_and_old_days_are_removed() {
        let store = MemoryStore::new();
        for day in 0..100 {
            put(&store, "ann", &format!("2020-{:02}-{:02}", 1 + day / 28, 1 + day % 28)).await;
        }
        add_one(&store, "ann", 300, 2).await;
        add_one(&store, "ann", 100, 1).await;
        add_one(&store, "bob", 7, 1).await;
        let days = stored_days(&store, "ann").await.unwrap();
        let today = days.last().unwrap();
        assert_eq!((days.len(), today.saved, today.lists), (MAX_DAYS, 400, 3));
        assert_eq!(stored_days(&store, "bob").await.unwrap().len(), 1);
    }

    #[tokio::test]
    async fn a_day_after_today_and_an_agent_with_a_slash_change_no_sum_of_another() {
        let store = MemoryStore::new();
        put(&store, "ann", "9999-12-31").await;
        add_one(&store, "ann", 300, 2).await;
        add_one(&store, "ann/x", 7, 1).await;
        add_one(&store, "ann", 100, 1).await;
        let sums = async |agent: &str| {
            let days = stored_days(&store, agent).await.unwrap();
            days.iter().map(|day| (day.saved, day.lists)).collect::<Vec<_>>()
        };
        assert_eq!(sums("ann").await, [(400, 3), (1, 1)]);
        assert_eq!(sums("ann/x").await, [(7, 1)]);
        for day in 0..MAX_DAYS {
            put(&store, "ann", &format!("2020-{:02}-{:02}", 1 + day / 28, 1 + day % 28)).await;
        }
        add_one(&store, "ann", 0, 0).await;
        let days = stored_days(&store, "ann").await.unwrap();
        assert_eq!((days.len(), days.last().unwrap().saved), (MAX_DAYS, 400));
    }

    #[tokio::test]
    async fn the_days_of_agents_that_do_not_return_are_bounded() {
        let store = MemoryStore::new();
        for agent in 0..MAX_STORED + 10 {
            put(&store, &format!("agent-{agent}"), "2020-01-01").await;
        }
        add_one(&store, "ann", 7, 1).await;
        assert_eq!(store.load(SPACE).await.unwrap().records.len(), MAX_STORED);
        assert_eq!(stored_days(&store, "ann").await.unwrap()[0].saved, 7);
    }
}
