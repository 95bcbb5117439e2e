//! The references that servers returned, with the callers that received them.

use std::collections::HashMap;

use mgp_types::proposal::DataReference;
use mgp_types::service::{Principal, ServerId, TenantId};
use mgp_types::sync::Mutex;
use tokio::time::Instant;

/// The maximum number of references per caller. A further reference replaces the caller's oldest one.
const MAX_PER_CALLER: usize = 128;

/// The maximum number of references of all callers together. A further reference replaces the oldest one of the caller
/// with the most references.
pub(super) const MAX_REFERENCES: usize = 1024;

/// The maximum number of bytes of data in memory per caller. The kernel does not keep larger data; if further data do
/// not fit, they replace the caller's oldest data.
pub(super) const MAX_CALLER_BYTES: usize = 16 << 20;

/// The maximum number of bytes of data in memory of all callers together. If further data do not fit, they replace the
/// oldest data of the caller with the most bytes.
pub(super) const MAX_BYTES: usize = 64 << 20;

/// A reference that a server returned to a caller.
#[derive(Clone)]
pub(super) struct KnownReference {
    /// The caller that received the reference; only this caller can use it.
    pub(super) owner: Principal,
    pub(super) origin: ServerId,
    /// The server's own name of the tool that returned the reference.
    pub(super) tool: String,
    /// The reference in the form that the caller received, without its URL.
    pub(super) reference: DataReference,
    /// The number of bytes of the data that the kernel keeps in memory; 0 if the server of the tool keeps the data.
    pub(super) bytes: usize,
    /// The id of the data at the kernel's own server for references.
    pub(super) id: String,
    /// The URL of the data at the kernel's own server for references. All calls with the reference get the same URL, so
    /// that confirmations and idempotency keys of these calls stay valid.
    pub(super) url: String,
    pub(super) expires_at: Instant,
}

impl KnownReference {
    fn is_replaced_by(&self, new: &Self) -> bool {
        self.owner == new.owner
            && self.origin == new.origin
            && self.reference.ref_id == new.reference.ref_id
    }
}

/// The references of all callers, the oldest first.
#[derive(Default)]
pub(super) struct KnownReferences(Mutex<Vec<KnownReference>>);

impl KnownReferences {
    /// Removes references until there is room for a new one. Returns the ids of the removed references. Call this
    /// before the data of the new reference are stored.
    ///
    /// First removes a reference with the same id that the same caller received from the same server. Then removes old
    /// references: of the caller if it exceeds its limits, or else of the caller with the most references or bytes.
    pub(super) fn make_room(&self, new: &KnownReference) -> Vec<String> {
        let now = Instant::now();
        let mut all = self.0.lock();
        all.retain(|known| known.expires_at > now);
        let mut dropped: Vec<_> = all.extract_if(.., |known| known.is_replaced_by(new)).collect();
        while let Some(at) = next_to_drop(&all, new) {
            dropped.push(all.remove(at));
        }
        dropped.into_iter().map(|known| known.id).collect()
    }

    /// Adds a reference after a call of [`make_room`](Self::make_room) for it. If other calls have meanwhile added
    /// references of the same caller, server and id, removes these and returns their ids.
    pub(super) fn insert(&self, new: KnownReference) -> Vec<String> {
        let mut all = self.0.lock();
        let dropped = all.extract_if(.., |known| known.is_replaced_by(&new));
        let dropped = dropped.map(|known| known.id).collect();
        all.push(new);
        dropped
    }

    /// Removes the references of a tenant, and returns their ids.
    pub(super) fn remove_tenant(&self, tenant: &TenantId) -> Vec<String> {
        let mut all = self.0.lock();
        let removed = all.extract_if(.., |known| known.owner.tenant() == tenant);
        removed.map(|known| known.id).collect()
    }

    /// Returns a reference of a caller. Returns `None` if it is unknown, or if `origin` is `None` and several servers
    /// use the id.
    pub(super) fn get(
        &self,
        owner: &Principal,
        ref_id: &str,
        origin: Option<&str>,
    ) -> Option<KnownReference> {
        let now = Instant::now();
        let all = self.0.lock();
        let mut found = all.iter().filter(|known| {
            known.owner == *owner
                && known.reference.ref_id == ref_id
                && known.expires_at > now
                && origin.is_none_or(|origin| known.origin.as_str() == origin)
        });
        let first = found.next()?;
        found.next().is_none().then(|| first.clone())
    }
}

/// Returns the index of the next reference to remove to make room for a new reference; `None` if there is room already.
fn next_to_drop(all: &[KnownReference], new: &KnownReference) -> Option<usize> {
    let mut counts = HashMap::<&Principal, usize>::new();
    let mut bytes = HashMap::<&Principal, usize>::new();
    for known in all {
        *counts.entry(&known.owner).or_default() += 1;
        *bytes.entry(&known.owner).or_default() += known.bytes;
    }
    let largest = |used: &HashMap<&Principal, usize>| {
        used.iter().max_by_key(|(_, used)| **used).map(|(owner, _)| (*owner).clone())
    };
    let own = |used: &HashMap<&Principal, usize>| used.get(&new.owner).copied().unwrap_or_default();
    // Consider only references with bytes in memory, because the removal of any other reference makes no room for data.
    let (owner, min_bytes) = if own(&bytes) + new.bytes > MAX_CALLER_BYTES {
        (Some(new.owner.clone()), 1)
    } else if bytes.values().sum::<usize>() + new.bytes > MAX_BYTES {
        (largest(&bytes), 1)
    } else if own(&counts) >= MAX_PER_CALLER {
        (Some(new.owner.clone()), 0)
    } else if all.len() >= MAX_REFERENCES {
        (largest(&counts), 0)
    } else {
        return None;
    };
    let owner = owner?;
    all.iter().position(|known| known.owner == owner && known.bytes >= min_bytes)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn known(agent: &str, origin: &str, ref_id: &str) -> KnownReference {
        let reference =
            DataReference::new(ref_id.to_owned(), origin.to_owned(), "text/plain".to_owned());
        KnownReference {
            owner: Principal::local().agent(agent),
            origin: origin.into(),
            tool: "export".to_owned(),
            reference,
            bytes: 0,
            id: format!("{agent} {origin} {ref_id}"),
            url: String::new(),
            expires_at: Instant::now() + Duration::from_mins(1),
        }
    }

    /// Adds a reference to `mib` MiB of data; returns the ids of the references that were removed to make room.
    fn add(all: &KnownReferences, agent: &str, ref_id: &str, mib: usize) -> Vec<String> {
        let mut new = known(agent, "a", ref_id);
        new.bytes = mib << 20;
        let dropped = all.make_room(&new);
        assert!(all.insert(new).is_empty());
        dropped
    }

    #[tokio::test(start_paused = true)]
    async fn a_reference_is_found_by_its_owner_until_it_expires() {
        let all = KnownReferences::default();
        let (ada, bob) = (Principal::local().agent("ada"), Principal::local().agent("bob"));
        assert!(all.insert(known("ada", "a", "r")).is_empty());
        assert_eq!(all.insert(known("ada", "a", "r")), ["ada a r"], "replaced");
        assert!(all.get(&ada, "r", None).is_some() && all.get(&bob, "r", None).is_none());
        all.insert(known("ada", "b", "r"));
        assert!(all.get(&ada, "r", None).is_none(), "two servers use the id");
        assert_eq!(all.get(&ada, "r", Some("b")).unwrap().id, "ada b r");
        tokio::time::advance(Duration::from_mins(1)).await;
        assert!(all.get(&ada, "r", Some("b")).is_none());
    }

    #[test]
    fn the_references_of_a_removed_tenant_are_unknown_to_a_later_one() {
        let all = KnownReferences::default();
        let mut of_acme = known("ada", "a", "r");
        of_acme.owner = Principal::new("acme", "ada");
        let owner = of_acme.owner.clone();
        all.insert(of_acme);
        all.insert(known("ada", "a", "r"));
        assert_eq!(all.remove_tenant(owner.tenant()), ["ada a r"]);
        assert!(all.get(&owner, "r", None).is_none());
        assert!(all.get(&Principal::local().agent("ada"), "r", None).is_some());
    }

    #[test]
    fn the_oldest_reference_of_a_caller_makes_room() {
        let all = KnownReferences::default();
        all.insert(known("bob", "a", "r"));
        let dropped: Vec<_> = (0..=MAX_PER_CALLER)
            .flat_map(|count| add(&all, "ada", &count.to_string(), 0))
            .collect();
        assert_eq!(dropped, ["ada a 0"]);
        assert_eq!(add(&all, "ada", "7", 0), ["ada a 7"], "replaced");
        assert!(all.get(&Principal::local().agent("bob"), "r", None).is_some());
    }

    #[test]
    fn a_caller_with_much_data_replaces_its_own_and_not_that_of_others() {
        let all = KnownReferences::default();
        let bob = Principal::local().agent("bob");
        add(&all, "bob", "r", 4);
        add(&all, "ada", "without bytes", 0);
        let of_ada = (0..5).flat_map(|count| add(&all, "ada", &count.to_string(), 5));
        assert_eq!(of_ada.collect::<Vec<_>>(), ["ada a 0", "ada a 1"]);
        for agent in ["c", "d"] {
            assert!(add(&all, agent, "r", 16).is_empty(), "{agent}");
        }
        // The table has 51 MiB, so 14 more exceed its limit of 64 MiB. The callers with the most data have 16 MiB each,
        // so one of them loses data.
        let dropped = add(&all, "e", "r", 14);
        assert!(dropped == ["c a r"] || dropped == ["d a r"], "{dropped:?}");
        assert!(all.get(&bob, "r", None).is_some());
    }

    #[test]
    fn callers_with_many_references_do_not_exclude_others() {
        let all = KnownReferences::default();
        for caller in 0..MAX_REFERENCES / MAX_PER_CALLER {
            for count in 0..MAX_PER_CALLER {
                assert!(add(&all, &caller.to_string(), &count.to_string(), 0).is_empty());
            }
        }
        let dropped = add(&all, "bob", "r", 1);
        assert!(matches!(&dropped[..], [one] if one.ends_with(" a 0")), "{dropped:?}");
        assert_eq!(all.0.lock().len(), MAX_REFERENCES);
    }
}
