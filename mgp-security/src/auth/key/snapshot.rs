//! The keys of a store in memory, from which requests are decided.

use std::collections::HashMap;
use std::time::SystemTime;

use subtle::ConstantTimeEq;

use super::error::KeyStoreError;
use super::record::KeyRecord;
use super::text::{Hash, KeyText};
use crate::auth::authenticated::{Authenticated, Credential};
use crate::auth::refused::AuthRefused;

/// The records of the store as they were when `KeyStore::stamp` returned a given number.
#[derive(Default)]
pub(super) struct Snapshot {
    pub(super) stamp: u64,
    /// `true` if the store cannot be read. Then no key is valid, because any of them might have been revoked in the
    /// store.
    pub(super) broken: bool,
    /// The first expiry of the keys that were not ended yet.
    next_expiry: Option<SystemTime>,
    pub(super) entries: HashMap<String, Entry>,
}

/// A key in a [`Snapshot`].
pub(super) struct Entry {
    hash: Hash,
    pub(super) caller: Authenticated,
    pub(super) is_revoked: bool,
    /// `true` if the key was ended because it had expired; `is_revoked` is then `true` as well.
    pub(super) is_expired: bool,
}

impl Snapshot {
    pub(super) fn of(records: Vec<KeyRecord>, stamp: u64) -> Result<Self, KeyStoreError> {
        let entries = records.into_iter().map(|record| {
            let id = record.id().to_owned();
            let grant = record.grant();
            let expires = match grant.expiry() {
                None => None,
                Some(time) => Some(time.to_system_time().ok_or_else(|| {
                    KeyStoreError::Other(
                        format!("the expiry of the key `{id}` is not a valid time").into(),
                    )
                })?),
            };
            let caller = Authenticated::new(
                grant.principal(),
                Credential::Key { id: id.clone() },
                grant.permissions().to_vec(),
                expires,
            );
            let (is_revoked, is_expired) = (record.revoked().is_some(), record.is_expired());
            Ok((id, Entry { hash: *record.hash(), caller, is_revoked, is_expired }))
        });
        let entries: HashMap<_, _> = entries.collect::<Result<_, KeyStoreError>>()?;
        let live = entries.values().filter(|entry| !entry.is_revoked);
        let next_expiry = live.filter_map(|entry| entry.caller.expires()).min();
        Ok(Self { stamp, broken: false, next_expiry, entries })
    }

    /// Creates the snapshot of a store that cannot be read.
    pub(super) fn unreadable(stamp: u64) -> Self {
        Self { stamp, broken: true, ..Self::default() }
    }

    /// Returns whether any key has expired and was not ended yet.
    pub(super) fn has_expired(&self, now: SystemTime) -> bool {
        self.next_expiry.is_some_and(|end| end <= now)
    }

    /// Decides about a key with one hash, one lookup and one comparison, whether or not the key exists, so that the
    /// time taken does not reveal which ids exist.
    pub(super) fn decide(
        &self,
        key: KeyText<'_>,
        now: SystemTime,
    ) -> Result<Authenticated, AuthRefused> {
        if self.broken {
            return Err(AuthRefused::Unavailable);
        }
        let hash = key.hash();
        let entry = self.entries.get(key.id);
        let expected = entry.map_or(&[0; 32], |entry| &entry.hash);
        let is_same = bool::from(expected.ct_eq(&hash));
        let entry = entry.filter(|_| is_same).ok_or(AuthRefused::NOT_VALID)?;
        if entry.is_expired {
            return Err(AuthRefused::Expired);
        }
        if entry.is_revoked {
            tracing::warn!(key = key.id, "denied a revoked API key");
            return Err(AuthRefused::NOT_VALID);
        }
        if entry.caller.has_expired(now) {
            return Err(AuthRefused::Expired);
        }
        Ok(entry.caller.clone())
    }
}
