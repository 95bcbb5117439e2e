//! The table of idempotency keys: which calls are running, which have ended, and how much is stored for each caller.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytestring::ByteString;
use mgp_types::Timestamp;
use mgp_types::proposal::IdempotencyKey;
use mgp_types::service::{Principal, TenantId};
use tokio::sync::watch;

use super::IdempotencyLimits;
use super::stored::{StoredEnd, StoredKey, now_ms};
use crate::error::LifecycleError;

#[derive(Clone, Debug)]
pub(super) struct KeyedCall {
    pub(super) key: IdempotencyKey,
    /// The hash of caller, server, tool and key.
    pub(super) id: String,
    pub(super) owner: String,
    /// The hash of the arguments of the call.
    pub(super) arguments: String,
    /// The lifetime of the key in milliseconds, if the caller chose one.
    pub(super) ttl_ms: Option<u64>,
    /// The id that all rounds (requests) and retries of one logical call share; `None` if the call has none yet.
    pub(super) logical: Option<ByteString>,
    /// `true` if a second run of the call does no harm.
    pub(super) may_repeat: bool,
    /// `true` if the call undoes a step of a transaction.
    pub(super) is_compensation: bool,
    /// The transaction of which the call is a step; empty if the call is not a step.
    pub(super) transaction: String,
    /// The hash of the session state that the call has.
    pub(super) state: Option<String>,
}

/// The decision about a tool call that has an idempotency key.
pub(super) enum Claim {
    /// The call must run, and its outcome must be stored with this key; the sender must be dropped when the run ends.
    Run(StoredKey, watch::Sender<()>),
    /// An equal call is running; the channel is closed when that call ends.
    Wait(watch::Receiver<()>),
    /// An equal call has ended. The call is answered with the result of that call, which began at this time.
    Replay(StoredEnd, Timestamp),
}

struct Entry {
    key: StoredKey,
    /// Signals the end of the run; `None` if the call is not running.
    running: Option<watch::Receiver<()>>,
    /// The logical id of the call that is running, or of the call whose last run ended with questions. The next round
    /// of that call then continues it.
    logical: Option<ByteString>,
    /// The sequence number of the key's result; `None` if no result is stored.
    place: Option<u64>,
    /// `true` if the tenant of the key was removed while the call was running: the result is then not stored.
    is_removed: bool,
}

/// The amount that is stored for one caller: how many keys, how many bytes, and which results.
#[derive(Default)]
struct Usage {
    keys: usize,
    bytes: usize,
    /// The keys of the caller that have a result, oldest first.
    results: BTreeMap<u64, String>,
}

pub(super) struct KeyTable {
    limits: IdempotencyLimits,
    entries: HashMap<String, Entry>,
    expiry: BTreeSet<(u64, String)>,
    owners: HashMap<String, Usage>,
    bytes: usize,
    places: u64,
}

impl Entry {
    /// Returns whether the key belongs to a call with other arguments.
    fn is_of_another(&self, call: &KeyedCall) -> bool {
        !self.key.arguments.is_empty() && self.key.arguments != call.arguments
    }

    /// Returns whether the key belongs to a step of another transaction than the call. That transaction may have undone
    /// the step, so the result of the step must not answer the call.
    fn is_of_another_transaction(&self, call: &KeyedCall) -> bool {
        self.key.transaction.as_ref().is_some_and(|transaction| *transaction != call.transaction)
    }
}

impl KeyTable {
    pub(super) fn new(limits: IdempotencyLimits) -> Self {
        let (entries, owners) = (HashMap::new(), HashMap::new());
        Self { limits, entries, expiry: BTreeSet::new(), owners, bytes: 0, places: 0 }
    }

    /// Adds a key that was read from the store.
    pub(super) fn restore(&mut self, id: &str, mut key: StoredKey) {
        let end = key.end.take();
        self.insert(id.to_owned(), key, None, None);
        if let Some(end) = end {
            self.end(id, end);
        }
    }

    /// Checks that the key of a call was not used with other arguments; changes nothing.
    pub(super) fn check(&self, call: &KeyedCall) -> Result<(), LifecycleError> {
        let Some(entry) = self.entries.get(&call.id) else { return Ok(()) };
        let is_kept = entry.running.is_some() || entry.key.expires_ms > now_ms();
        if is_kept && entry.is_of_another(call) {
            return Err(LifecycleError::IdempotencyConflict);
        }
        Ok(())
    }

    /// Decides how to treat a call. Also returns the keys that have expired, to be removed from the store.
    pub(super) fn claim(
        &mut self,
        call: &KeyedCall,
    ) -> (Vec<String>, Result<Claim, LifecycleError>) {
        let now = now_ms();
        let expired = self.remove_expired(now);
        (expired, self.decide(call, now))
    }

    fn decide(&mut self, call: &KeyedCall, now: u64) -> Result<Claim, LifecycleError> {
        let Some(entry) = self.entries.get_mut(&call.id) else {
            return self.begin(call, now);
        };
        if entry.is_of_another(call) || entry.is_of_another_transaction(call) {
            return Err(LifecycleError::IdempotencyConflict);
        }
        if let Some(running) = &entry.running {
            return Ok(Claim::Wait(running.clone()));
        }
        let began_at = entry.key.began_at();
        if let Some(end) = &entry.key.end {
            let mut end = end.clone();
            if entry.key.state != call.state {
                end.remove_session_state();
            }
            return Ok(Claim::Replay(end, began_at));
        }
        // The request with the answer to a question continues the call, so it may run. Any other call with this key
        // repeats a run whose outcome is unknown, so it may run only if a second run does no harm.
        let continues = call.logical.is_some() && call.logical == entry.logical;
        if !continues && !call.may_repeat {
            return Err(LifecycleError::UnknownOutcome(began_at));
        }
        let (sender, running) = watch::channel(());
        entry.running = Some(running);
        entry.logical.clone_from(&call.logical);
        Ok(Claim::Run(entry.key.clone(), sender))
    }

    fn begin(&mut self, call: &KeyedCall, now: u64) -> Result<Claim, LifecycleError> {
        let of_caller = self.owners.get(&call.owner).map_or(0, |usage| usage.keys);
        let is_full =
            of_caller >= self.limits.caller_keys || self.entries.len() >= self.limits.keys;
        if is_full && !call.is_compensation {
            return Err(LifecycleError::TooManyKeys);
        }
        let millis = |ttl| mgp_types::millis(ttl);
        let ttl = call.ttl_ms.unwrap_or(millis(self.limits.ttl)).min(millis(self.limits.max_ttl));
        let key = StoredKey {
            owner: call.owner.clone(),
            arguments: call.arguments.clone(),
            transaction: Some(call.transaction.clone()),
            state: call.state.clone(),
            began_ms: now,
            expires_ms: now.saturating_add(ttl),
            end: None,
        };
        let (sender, running) = watch::channel(());
        self.insert(call.id.clone(), key.clone(), Some(running), call.logical.clone());
        Ok(Claim::Run(key, sender))
    }

    fn insert(
        &mut self,
        id: String,
        key: StoredKey,
        running: Option<watch::Receiver<()>>,
        logical: Option<ByteString>,
    ) {
        self.owners.entry(key.owner.clone()).or_default().keys += 1;
        self.expiry.insert((key.expires_ms, id.clone()));
        self.entries.insert(id, Entry { key, running, logical, place: None, is_removed: false });
    }

    /// Marks a run as interrupted: it is unknown whether the run had an effect. `has_asked` is `true` if the run ended
    /// with questions to the caller, whose answers continue the call.
    pub(super) fn interrupt(&mut self, id: &str, has_asked: bool) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.running = None;
            if !has_asked {
                entry.logical = None;
            }
        }
    }

    /// Records the end of a run. Returns the keys that must be written to the store, with their new content: this key,
    /// and the keys whose results were removed to make room.
    pub(super) fn end(&mut self, id: &str, end: StoredEnd) -> Vec<(String, StoredKey)> {
        let Some(entry) = self.entries.get_mut(id) else { return Vec::new() };
        entry.running = None;
        let owner = entry.key.owner.clone();
        let bytes = end.bytes();
        let fits = bytes <= self.limits.result && !entry.is_removed;
        entry.key.end = Some(if fits { end } else { StoredEnd::default() });
        let mut changed = vec![(id.to_owned(), entry.key.clone())];
        if fits {
            self.places += 1;
            entry.place = Some(self.places);
            self.bytes += bytes;
            let usage = self.owners.entry(owner.clone()).or_default();
            usage.bytes += bytes;
            usage.results.insert(self.places, id.to_owned());
        }
        while let Some(full) = self.full_owner(&owner) {
            let Some(dropped) = self.drop_result(&full) else { break };
            changed.push(dropped);
        }
        changed
    }

    /// Returns the caller whose oldest result must be removed to make room, if any.
    fn full_owner(&self, owner: &str) -> Option<String> {
        if self.owners.get(owner).is_some_and(|usage| usage.bytes > self.limits.caller_results) {
            return Some(owner.to_owned());
        }
        let largest = || self.owners.iter().max_by_key(|(_, usage)| usage.bytes);
        (self.bytes > self.limits.results).then(largest)?.map(|(owner, _)| owner.clone())
    }

    fn drop_result(&mut self, owner: &str) -> Option<(String, StoredKey)> {
        let id = self.owners.get(owner)?.results.values().next()?.clone();
        self.forget_result(&id);
        let entry = self.entries.get_mut(&id)?;
        entry.key.end = Some(StoredEnd::default());
        Some((id, entry.key.clone()))
    }

    /// Stops counting the result of a key: subtracts its size, and removes it from its caller's list of results.
    fn forget_result(&mut self, id: &str) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        let Some(place) = entry.place.take() else { return };
        let bytes = entry.key.end.as_ref().map_or(0, StoredEnd::bytes);
        self.bytes -= bytes;
        if let Some(usage) = self.owners.get_mut(&entry.key.owner) {
            usage.bytes -= bytes;
            usage.results.remove(&place);
        }
    }

    pub(super) fn remove(&mut self, id: &str) {
        self.forget_result(id);
        let Some(Entry { key, .. }) = self.entries.remove(id) else { return };
        self.expiry.remove(&(key.expires_ms, id.to_owned()));
        if let Some(usage) = self.owners.get_mut(&key.owner) {
            usage.keys -= 1;
            if usage.keys == 0 {
                self.owners.remove(&key.owner);
            }
        }
    }

    /// Ensures that the results of the running calls of a tenant will not be stored.
    pub(super) fn drop_later_results(&mut self, tenant: &TenantId) {
        let running = self.entries.values_mut().filter(|entry| entry.running.is_some());
        let of_tenant = running.filter(|entry| entry.key.is_of(tenant));
        of_tenant.for_each(|entry| entry.is_removed = true);
    }

    /// Returns the ids of a tenant's keys whose calls have ended.
    pub(super) fn ended_of(&self, tenant: &TenantId) -> Vec<String> {
        let of_tenant = self.ended().filter(|(_, entry)| entry.key.is_of(tenant));
        of_tenant.map(|(id, _)| id.clone()).collect()
    }

    /// Returns the caller of each key whose call has ended.
    pub(super) fn callers(&self) -> Vec<Principal> {
        self.ended().filter_map(|(_, entry)| entry.key.caller()).collect()
    }

    fn ended(&self) -> impl Iterator<Item = (&String, &Entry)> {
        let has_ended = |entry: &Entry| entry.running.is_none() && entry.key.end.is_some();
        self.entries.iter().filter(move |(_, entry)| has_ended(entry))
    }

    /// Removes the expired keys whose calls are not running, and returns their ids.
    fn remove_expired(&mut self, now: u64) -> Vec<String> {
        let is_idle = |id: &str| self.entries.get(id).is_some_and(|entry| entry.running.is_none());
        let due = self.expiry.iter().take_while(|(expires, _)| *expires <= now);
        let expired: Vec<_> = due.filter(|(_, id)| is_idle(id)).map(|(_, id)| id.clone()).collect();
        for id in &expired {
            self.remove(id);
        }
        expired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_whose_transaction_was_not_recorded_still_answers_a_repeated_step() {
        let key = |recorded: &str| -> StoredKey {
            let stored = r#"{"owner":"o","arguments":"a",RECORDED"began_ms":1,"expires_ms":2000000000000000,"end":{}}"#;
            serde_json::from_str(&stored.replace("RECORDED", recorded)).unwrap()
        };
        let step = KeyedCall {
            key: IdempotencyKey("k".to_owned()),
            id: "k".to_owned(),
            owner: "o".to_owned(),
            arguments: "a".to_owned(),
            ttl_ms: None,
            logical: None,
            may_repeat: false,
            is_compensation: false,
            transaction: "tx".to_owned(),
            state: None,
        };
        for (recorded, is_replayed) in
            [("", true), (r#""transaction":"tx","#, true), (r#""transaction":"","#, false)]
        {
            let mut table = KeyTable::new(IdempotencyLimits::default());
            table.restore(&step.id, key(recorded));
            let claimed = table.claim(&step).1;
            assert_eq!(matches!(claimed, Ok(Claim::Replay(..))), is_replayed, "{recorded}");
        }
    }
}
