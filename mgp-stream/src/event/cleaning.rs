//! The daily removal of durable subscriptions that are not used, and of old events.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mgp_types::store::StoreError;

use super::EventHub;
use super::hub::Hub;

/// The interval at which unused subscriptions and old events are removed.
const INTERVAL: Duration = Duration::from_hours(24);

/// Starts the task that removes unused subscriptions and old events, until the hub is dropped.
pub(super) fn start(hub: &Arc<Hub>) {
    tokio::spawn(run(Arc::downgrade(hub)));
}

async fn run(hub: Weak<Hub>) {
    loop {
        tokio::time::sleep(INTERVAL).await;
        let Some(hub) = hub.upgrade() else { return };
        if let Err(error) = EventHub(hub).remove_unused().await {
            tracing::warn!(%error, "unused durable subscriptions not removed");
        }
    }
}

impl EventHub {
    /// Removes the durable subscriptions that were not used for a month, and the events that are older than a week.
    pub(super) async fn remove_unused(&self) -> Result<(), StoreError> {
        let Some(journal) = self.0.journal.get() else { return Ok(()) };
        let known: Vec<_> = {
            let table = self.0.table.read();
            table.all().filter(|one| one.is_durable()).cloned().collect()
        };
        for used in known.iter().filter(|one| one.is_in_use()) {
            self.record_use(used);
        }
        let stored = journal.store.load().await?.into_iter();
        let stored: HashMap<_, _> = stored.map(|one| (one.id.clone(), one)).collect();
        for one in known {
            if let Some(stored) = stored.get(&one.id) {
                one.forget_removed(stored);
                continue;
            }
            let mut table = self.0.table.write();
            if !one.is_in_use() && table.has(&one) {
                table.remove(&one.id);
                drop(table);
                tracing::info!(subscription = one.id, "unused durable subscription removed");
                one.end();
            }
        }
        Ok(())
    }
}
