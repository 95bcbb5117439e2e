//! The rejections of registrations. Each rejection is kept until it expires, even if its principal removes or replaces
//! the registration earlier; an operator who removes the registration ends it.

use std::collections::BTreeMap;
use std::time::SystemTime;

use mgp_types::store::{Change, with_timeout};
use mgp_types::{Payload, RpcError, Sha256Hash, Timestamp};
use serde::{Deserialize, Serialize};

use super::record::{Creator, Record, Stage};
use super::registrations::{RegistrationState, Turn};
use crate::error::DiscoveryError;

/// The name space of the rejections in the store; the key of a rejection is a hash of its principal and its proposal.
const SPACE: &str = "registration_rejections";

/// The maximum number of rejections of all principals together. When it is reached, only operators can register servers
/// until a rejection expires.
pub(super) const MAX_REJECTIONS: usize = 1024;

#[derive(Serialize, Deserialize)]
struct Rejection {
    /// The principal whose request was rejected.
    by: Creator,
    until: Timestamp,
}

/// The rejections that have not expired: the principal of each, by the key of the rejection.
pub(super) struct Rejections(BTreeMap<String, Creator>);

impl Rejections {
    /// Returns whether the same request of the same principal was rejected.
    pub(super) fn contains(&self, record: &Record) -> bool {
        self.0.contains_key(&key(record))
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    pub(super) fn count_of(&self, by: &Creator) -> usize {
        self.0.values().filter(|creator| *creator == by).count()
    }
}

/// Adds a rejection to a change that stores a rejected record; returns the change of any other record unmodified. If
/// the record does not expire, the rejection expires at `default`.
pub(super) fn add_rejection(
    change: Change,
    record: &Record,
    default: Timestamp,
) -> Result<Change, RpcError> {
    let Stage::Rejected { until, .. } = &record.stage else { return Ok(change) };
    let until = until.clone().unwrap_or(default);
    let rejection = Rejection { by: record.by.clone(), until };
    Ok(change.put(SPACE, key(record), Payload::of(&rejection)?))
}

/// Returns the hash of a record's principal and proposal.
fn key(record: &Record) -> String {
    let whole = (&record.by, record.program.fingerprint().to_string());
    // The default is never used, because texts can always be encoded.
    Sha256Hash::digest(serde_json::to_string(&whole).unwrap_or_default().as_bytes()).to_string()
}

impl RegistrationState {
    /// Reads the rejections from the store, and removes expired and unreadable ones.
    pub(super) async fn rejections(&self, turn: &Turn) -> Result<Rejections, DiscoveryError> {
        let loaded = with_timeout(self.store.answer_timeout(), self.store.load(SPACE)).await?;
        let (mut kept, mut ended) = (BTreeMap::new(), Change::new());
        for stored in loaded.records {
            let Some(value) = stored.value else { continue };
            match value.get::<Rejection>() {
                // Treat a rejection with an unreadable expiry time as expired, as is also done with records.
                Ok(read) if !read.until.is_before(SystemTime::now()).unwrap_or(true) => {
                    kept.insert(stored.key, read.by);
                }
                _ => ended = ended.remove(SPACE, stored.key),
            }
        }
        if !ended.is_empty() {
            self.commit(turn, ended, Vec::new()).await?;
        }
        Ok(Rejections(kept))
    }

    /// Removes the rejection of a record before it expires, because an operator removes the record.
    pub(super) async fn end_rejection(
        &self,
        turn: &Turn,
        record: &Record,
    ) -> Result<(), DiscoveryError> {
        self.commit(turn, Change::new().remove(SPACE, key(record)), Vec::new()).await
    }
}
