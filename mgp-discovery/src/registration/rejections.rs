//! The rejections of registrations. Each is kept until it ends, even if its registration is removed or replaced before.

use std::collections::BTreeMap;
use std::time::SystemTime;

use mgp_types::store::{Change, with_timeout};
use mgp_types::{Payload, RpcError, Sha256Hash, Timestamp};
use serde::{Deserialize, Serialize};

use super::record::{Creator, Record, Stage};
use super::registrations::{RegistrationState, Turn};
use crate::error::DiscoveryError;

/// The name space of the rejections in the store; the key of each is the hash of its principal and its proposal.
const SPACE: &str = "registration_rejections";

/// The maximum number of rejections of all principals. At this number, callers who are not operators can register
/// nothing until a rejection has ended.
pub(super) const MAX_REJECTIONS: usize = 1024;

#[derive(Serialize, Deserialize)]
struct Rejection {
    /// The principal whose request was rejected.
    by: Creator,
    until: Timestamp,
}

/// The principals of the rejections that have not ended, by the key of the rejection.
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

/// Adds the rejection of a rejected record to the change that stores the record; leaves the change of any other record
/// as it is. If the record does not expire, the rejection ends at `default`.
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
    // Texts can always be encoded.
    Sha256Hash::digest(serde_json::to_string(&whole).unwrap_or_default().as_bytes()).to_string()
}

impl RegistrationState {
    /// Reads the rejections from the store, and removes those that have ended.
    pub(super) async fn rejections(&self, turn: &Turn) -> Result<Rejections, DiscoveryError> {
        let loaded = with_timeout(self.store.answer_timeout(), self.store.load(SPACE)).await?;
        let (mut kept, mut ended) = (BTreeMap::new(), Change::new());
        for stored in loaded.records {
            let Some(value) = stored.value else { continue };
            match value.get::<Rejection>() {
                // If the end cannot be read, treat the rejection as ended, as an expired record is treated.
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

    /// Ends the rejection of a record early, because an operator removes the record.
    pub(super) async fn end_rejection(
        &self,
        turn: &Turn,
        record: &Record,
    ) -> Result<(), DiscoveryError> {
        self.commit(turn, Change::new().remove(SPACE, key(record)), Vec::new()).await
    }
}
