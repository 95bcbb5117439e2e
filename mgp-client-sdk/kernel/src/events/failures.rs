//! The events that the kernel could not deliver and has given up. They are stored, so that operators can see them.

use mgp_server_sdk::ReadEvent;
use mgp_types::mgp::KernelWebhookFailure;
use mgp_types::store::{Change, Store, StoreError};
use mgp_types::{Payload, Timestamp};

/// The part of the store that keeps these events. A key is the name of the delivery, a space and the event's number.
const SPACE: &str = "events.failed";

/// The maximum number of stored events for each delivery.
const MAX_FAILURES: usize = 100;

/// Stores an event that a delivery gave up, and drops the oldest stored one if there are too many.
pub(super) async fn add(
    store: &dyn Store,
    delivery: &str,
    event: &ReadEvent,
    error: String,
) -> Result<(), StoreError> {
    let failure = KernelWebhookFailure::new(Timestamp::now(), error, event.event.clone());
    let failure = Payload::of(&failure).map_err(StoreError::failed)?;
    let mut change = Change::new().put(SPACE, format!("{delivery} {:020}", event.seq), failure);
    let mut keys = keys(store).await?;
    keys.retain(|key| delivery_of(key) == delivery);
    for oldest in keys.iter().take((keys.len() + 1).saturating_sub(MAX_FAILURES)) {
        change = change.remove(SPACE, oldest.clone());
    }
    store.commit(change).await.map(drop)
}

/// Returns the stored events, each with the name of its delivery. The events of a delivery are in the order in which
/// they occurred.
pub(super) async fn load(
    store: &dyn Store,
) -> Result<Vec<(String, KernelWebhookFailure)>, StoreError> {
    let mut records = store.load(SPACE).await?.records;
    records.sort_by(|one, other| one.key.cmp(&other.key));
    let read = records.into_iter().filter_map(|record| {
        let failure = record.value.as_ref()?.get::<KernelWebhookFailure>().ok()?;
        Some((delivery_of(&record.key).to_owned(), failure))
    });
    Ok(read.collect())
}

/// Drops the stored events of deliveries that are not configured.
pub(super) async fn retain(
    store: &dyn Store,
    is_configured: impl Fn(&str) -> bool,
) -> Result<(), StoreError> {
    let mut keys = keys(store).await?;
    keys.retain(|key| !is_configured(delivery_of(key)));
    if keys.is_empty() {
        return Ok(());
    }
    let change = keys.into_iter().fold(Change::new(), |change, key| change.remove(SPACE, key));
    store.commit(change).await.map(drop)
}

/// Returns the keys of the stored events in their order.
async fn keys(store: &dyn Store) -> Result<Vec<String>, StoreError> {
    let records = store.load(SPACE).await?.records.into_iter();
    let mut keys: Vec<_> =
        records.filter(|record| record.value.is_some()).map(|record| record.key).collect();
    keys.sort();
    Ok(keys)
}

fn delivery_of(key: &str) -> &str {
    key.rsplit_once(' ').map_or(key, |(delivery, _)| delivery)
}
