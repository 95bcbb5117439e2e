//! Stores the rests (unsent parts) of long results, so that their callers can read them.
//!
//! The memory for these rests is limited, for each principal and in total. A rest expires, and only the caller of the
//! result can read it.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::service::{CredentialGrant, Principal, TenantId};
use mgp_types::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::part::Rest;

/// The maximum number of bytes per principal. Beyond it, the principal loses its oldest rests.
const MAX_PRINCIPAL_BYTES: usize = 16 << 20;

/// The maximum number of bytes in total. Beyond it, the principal with the most bytes loses its oldest rests.
const MAX_BYTES: usize = 64 << 20;

/// The size, in bytes, that an entry counts at least. This also limits the number of entries.
const MIN_ENTRY_BYTES: usize = 1024;

/// The stored rests of long results, by their ids.
///
/// While the table has an entry, a task removes entries that expire. Only this task removes the last entry, and it then
/// ends.
#[derive(Debug, Default)]
pub(super) struct RestStore(Arc<Mutex<Table>>);

type Table = HashMap<String, StoredRest>;

#[derive(Debug)]
struct StoredRest {
    owner: Principal,
    /// The permissions of the credentials with which the call was made; `None` for a caller without credentials.
    permissions: Option<Vec<String>>,
    rest: Arc<Vec<Rest>>,
    bytes: usize,
    stored_at: Instant,
    expires_at: Instant,
}

impl RestStore {
    /// Stores a rest until it expires, and returns its id; `None` if the rest is too long to be stored.
    ///
    /// # Panics
    /// Panics outside of a Tokio runtime.
    pub(super) fn insert(
        &self,
        owner: &Principal,
        grant: Option<&CredentialGrant>,
        rest: Vec<Rest>,
        keep: Duration,
    ) -> Result<Option<String>, RpcError> {
        let bytes = rest.iter().map(Rest::bytes).sum::<usize>().max(MIN_ENTRY_BYTES);
        if bytes > MAX_PRINCIPAL_BYTES {
            return Ok(None);
        }
        let mut secret = [0; 8];
        getrandom::fill(&mut secret)
            .map_err(|error| RpcError::internal("the system has no randomness").because(error))?;
        let id = mgp_types::to_hex(&secret);
        let now = Instant::now();
        let expires_at = now + keep;
        let permissions = grant.map(|grant| grant.permissions().to_vec());
        let (owner, rest) = (owner.clone(), Arc::new(rest));
        let mut table = self.0.lock();
        if table.is_empty() {
            tokio::spawn(remove_expired(Arc::downgrade(&self.0)));
        }
        table.retain(|_, stored| stored.expires_at > now);
        make_room(&mut table, &owner, bytes);
        let stored_at = now;
        let stored = StoredRest { owner, permissions, rest, bytes, stored_at, expires_at };
        table.insert(id.clone(), stored);
        Ok(Some(id))
    }

    /// Returns a rest, if it belongs to the principal, if the credentials of the principal permit it, and if it has not
    /// expired.
    pub(super) fn get(
        &self,
        owner: &Principal,
        grant: Option<&CredentialGrant>,
        id: &str,
    ) -> Option<Arc<Vec<Rest>>> {
        let table = self.0.lock();
        let stored = table.get(id).filter(|stored| stored.owner == *owner)?;
        if grant.is_some_and(|grant| !grant.permits_outcome(stored.permissions.as_deref())) {
            return None;
        }
        (stored.expires_at > Instant::now()).then(|| Arc::clone(&stored.rest))
    }

    /// Drops the rests of a removed tenant, so that a later tenant with this name cannot read them. Keeps their empty
    /// entries, because only the task that removes expired ones may remove the last entry.
    pub(super) fn forget_tenant(&self, tenant: &TenantId) {
        let now = Instant::now();
        for stored in self.0.lock().values_mut().filter(|one| one.owner.tenant() == tenant) {
            (stored.rest, stored.bytes) = (Arc::default(), MIN_ENTRY_BYTES);
            stored.expires_at = now;
        }
    }

    /// Returns whether an unexpired rest is stored for a principal.
    pub(super) fn has(&self, owner: &Principal) -> bool {
        let now = Instant::now();
        self.0.lock().values().any(|stored| stored.owner == *owner && stored.expires_at > now)
    }
}

/// Removes rests when they expire, until none is left. Without this task, only the next long result would free the
/// memory, and there may never be one.
async fn remove_expired(table: Weak<Mutex<Table>>) {
    while let Some(table) = table.upgrade() {
        let next = {
            let now = Instant::now();
            let mut table = table.lock();
            table.retain(|_, stored| stored.expires_at > now);
            table.values().map(|stored| stored.expires_at).min()
        };
        drop(table);
        let Some(next) = next else { return };
        sleep_until(next).await;
    }
}

/// The stored rests of a principal, ordered from the newest to the oldest.
#[derive(Default)]
struct Share<'a> {
    bytes: usize,
    rests: Vec<(Instant, &'a str, usize)>,
}

/// Removes old rests until a new rest of this size fits.
fn make_room(table: &mut Table, owner: &Principal, bytes: usize) {
    for id in surplus(table, owner, bytes) {
        table.remove(&id);
    }
}

/// Returns the ids of the old rests to remove, so that a new rest of this size fits. Chooses rests of the new rest's
/// owner if the owner has too many bytes, and otherwise of the principal with the most bytes.
fn surplus(table: &Table, owner: &Principal, bytes: usize) -> Vec<String> {
    let mut total = bytes + table.values().map(|stored| stored.bytes).sum::<usize>();
    let own = table.values().filter(|stored| stored.owner == *owner);
    let own = bytes + own.map(|stored| stored.bytes).sum::<usize>();
    if own <= MAX_PRINCIPAL_BYTES && total <= MAX_BYTES {
        return Vec::new();
    }
    // Sort the rests only once, because there may be tens of thousands and other callers wait for the lock of the
    // table.
    let mut shares: HashMap<&Principal, Share<'_>> = HashMap::new();
    for (id, stored) in table {
        let share = shares.entry(&stored.owner).or_default();
        share.bytes += stored.bytes;
        share.rests.push((stored.stored_at, id.as_str(), stored.bytes));
    }
    for share in shares.values_mut() {
        share.rests.sort_unstable_by(|one, other| other.cmp(one));
    }
    let has_too_many = |share: &Share<'_>| share.bytes + bytes > MAX_PRINCIPAL_BYTES;
    let mut ids = Vec::new();
    loop {
        let share = if shares.get(owner).is_some_and(has_too_many) {
            shares.get_mut(owner)
        } else if total > MAX_BYTES {
            shares.values_mut().max_by_key(|share| share.bytes)
        } else {
            None
        };
        let Some(share) = share else { return ids };
        let Some((_, oldest, length)) = share.rests.pop() else { return ids };
        share.bytes -= length;
        total -= length;
        ids.push(oldest.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::mcp::ContentBlock;

    use super::*;

    const KEEP: Duration = Duration::from_mins(1);

    fn rest(mib: usize) -> Vec<Rest> {
        vec![Rest::new(ContentBlock::text("x".repeat(mib << 20)))]
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_is_read_by_its_owner_until_it_expires() {
        let store = RestStore::default();
        let (ann, bob) = (Principal::local().agent("ann"), Principal::local().agent("bob"));
        let id = store.insert(&ann, None, rest(1), KEEP).unwrap().unwrap();
        assert!(store.get(&ann, None, &id).is_some() && store.has(&ann));
        assert!(store.get(&bob, None, &id).is_none() && !store.has(&bob));
        tokio::time::advance(KEEP).await;
        assert!(store.get(&ann, None, &id).is_none() && !store.has(&ann));
    }

    #[tokio::test]
    async fn credentials_for_some_tools_read_only_the_rests_of_calls_with_the_same_permissions() {
        let store = RestStore::default();
        let ann = Principal::local().agent("ann");
        let grant = |permission: &str| CredentialGrant::new([permission], || true);
        let (whole, limited, other) =
            (grant("tools.call"), grant("tools.call:a"), grant("tools.call:b"));
        let has = |id: &str, grant| store.get(&ann, Some(grant), id).is_some();
        let of_limited = store.insert(&ann, Some(&limited), rest(1), KEEP).unwrap().unwrap();
        assert!(has(&of_limited, &limited) && has(&of_limited, &whole));
        assert!(!has(&of_limited, &other));
        let of_whole = store.insert(&ann, None, rest(1), KEEP).unwrap().unwrap();
        assert!(has(&of_whole, &whole) && !has(&of_whole, &limited));
    }

    #[tokio::test(start_paused = true)]
    async fn the_rests_of_a_removed_tenant_cannot_be_read() {
        let store = RestStore::default();
        let (ann, bob) = (Principal::new("acme", "ann"), Principal::local().agent("bob"));
        let of_ann = store.insert(&ann, None, rest(1), KEEP).unwrap().unwrap();
        let of_bob = store.insert(&bob, None, rest(1), KEEP).unwrap().unwrap();
        store.forget_tenant(ann.tenant());
        assert!(store.get(&ann, None, &of_ann).is_none() && !store.has(&ann));
        assert!(store.get(&bob, None, &of_bob).is_some());
        tokio::time::sleep(KEEP + Duration::from_secs(1)).await;
        assert!(store.0.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_rest_takes_no_memory() {
        let store = RestStore::default();
        let ann = Principal::local().agent("ann");
        for _ in 0..2 {
            assert!(store.insert(&ann, None, rest(1), KEEP).unwrap().is_some());
            tokio::time::sleep(KEEP / 2).await;
            assert!(store.insert(&ann, None, rest(1), KEEP).unwrap().is_some());
            tokio::time::sleep(KEEP / 2 + Duration::from_secs(1)).await;
            assert_eq!(store.0.lock().len(), 1);
            tokio::time::sleep(KEEP).await;
            assert!(store.0.lock().is_empty());
        }
    }

    #[tokio::test]
    async fn a_greedy_caller_uses_up_its_own_share() {
        let store = RestStore::default();
        let keep = |name: &str, mib| {
            let agent = Principal::local().agent(name);
            store.insert(&agent, None, rest(mib), KEEP).unwrap()
        };
        assert!(keep("ann", 17).is_none(), "too long for anyone");
        let bob = keep("bob", 4).unwrap();
        let ann: Vec<_> = (0..6).map(|_| keep("ann", 6).unwrap()).collect();
        let has = |name: &str, id| store.get(&Principal::local().agent(name), None, id).is_some();
        assert!(has("bob", &bob) && has("ann", &ann[5]) && has("ann", &ann[4]));
        assert!(!has("ann", &ann[3]));
        for name in ["c", "d", "e", "f"] {
            keep(name, 15).unwrap();
        }
        let bytes: usize = store.0.lock().values().map(|stored| stored.bytes).sum();
        assert!(bytes <= MAX_BYTES && has("bob", &bob), "{bytes}");
    }

    #[tokio::test]
    async fn one_long_rest_takes_the_place_of_very_many_short_ones_at_once() {
        let store = RestStore::default();
        let ann = Principal::local().agent("ann");
        let shorts = MAX_PRINCIPAL_BYTES / MIN_ENTRY_BYTES;
        for _ in 0..shorts {
            let rest = vec![Rest::new(ContentBlock::text("x"))];
            let (owner, id) = (ann.clone(), store.0.lock().len().to_string());
            let (stored_at, rest) = (Instant::now(), Arc::new(rest));
            let (bytes, expires_at) = (MIN_ENTRY_BYTES, stored_at + KEEP);
            let permissions = None;
            let stored = StoredRest { owner, permissions, rest, bytes, stored_at, expires_at };
            store.0.lock().insert(id, stored);
        }
        let begun = Instant::now();
        assert!(store.insert(&ann, None, rest(15), KEEP).unwrap().is_some());
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        let left = store.0.lock().len();
        assert!((900..=1025).contains(&left), "{left}");
    }
}
