//! Stores the rests of long results, so that their callers can read them.
//!
//! The memory for them is limited, for each principal and in total. A rest expires, and only its caller can read it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::RpcError;
use mgp_types::service::Principal;
use mgp_types::sync::Mutex;
use tokio::time::Instant;

use super::part::Rest;

/// The maximum number of bytes per principal; if it is exceeded, the principal's oldest rests are dropped.
const MAX_PRINCIPAL_BYTES: usize = 16 << 20;

/// The maximum number of bytes in total; if it is exceeded, the oldest rests of the principal with the most bytes are
/// dropped.
const MAX_BYTES: usize = 64 << 20;

/// The minimum number of bytes counted per entry, which limits the number of entries.
const MIN_ENTRY_BYTES: usize = 1024;

/// The rests of results, by their ids.
#[derive(Debug, Default)]
pub(super) struct RestStore(Mutex<HashMap<String, StoredRest>>);

#[derive(Debug)]
struct StoredRest {
    owner: Principal,
    rest: Arc<Vec<Rest>>,
    bytes: usize,
    stored_at: Instant,
    expires_at: Instant,
}

impl RestStore {
    /// Keeps a rest and returns its id, or `None` if it is too long to be kept.
    pub(super) fn insert(
        &self,
        owner: &Principal,
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
        let (owner, rest) = (owner.clone(), Arc::new(rest));
        let mut table = self.0.lock();
        table.retain(|_, stored| stored.expires_at > now);
        make_room(&mut table, &owner, bytes);
        table.insert(id.clone(), StoredRest { owner, rest, bytes, stored_at: now, expires_at });
        Ok(Some(id))
    }

    /// Returns a rest, if it belongs to the principal and has not expired.
    pub(super) fn get(&self, owner: &Principal, id: &str) -> Option<Arc<Vec<Rest>>> {
        let table = self.0.lock();
        let stored = table.get(id).filter(|stored| stored.owner == *owner)?;
        (stored.expires_at > Instant::now()).then(|| Arc::clone(&stored.rest))
    }

    /// Returns whether an unexpired rest is stored for a principal.
    pub(super) fn has(&self, owner: &Principal) -> bool {
        let now = Instant::now();
        self.0.lock().values().any(|stored| stored.owner == *owner && stored.expires_at > now)
    }
}

/// Removes old rests until a new rest of this size fits: rests of its owner if the owner has too many bytes, or else
/// rests of the principal with the most bytes.
fn make_room(table: &mut HashMap<String, StoredRest>, owner: &Principal, bytes: usize) {
    loop {
        let mut used: HashMap<&Principal, usize> = HashMap::new();
        for stored in table.values() {
            *used.entry(&stored.owner).or_default() += stored.bytes;
        }
        let is_full = used.values().sum::<usize>() + bytes > MAX_BYTES;
        let largest = used.iter().max_by_key(|(_, bytes)| **bytes).map(|(owner, _)| *owner);
        let of = if used.get(owner).is_some_and(|used| used + bytes > MAX_PRINCIPAL_BYTES) {
            Some(owner)
        } else {
            largest.filter(|_| is_full)
        };
        let of = table.iter().filter(|(_, stored)| Some(&stored.owner) == of);
        let oldest = of.min_by_key(|(_, stored)| stored.stored_at).map(|(id, _)| id.clone());
        let Some(oldest) = oldest else { return };
        table.remove(&oldest);
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
        let id = store.insert(&ann, rest(1), KEEP).unwrap().unwrap();
        assert!(store.get(&ann, &id).is_some() && store.has(&ann));
        assert!(store.get(&bob, &id).is_none() && !store.has(&bob));
        tokio::time::advance(KEEP).await;
        assert!(store.get(&ann, &id).is_none() && !store.has(&ann));
    }

    #[test]
    fn a_greedy_caller_uses_up_its_own_share() {
        let store = RestStore::default();
        let keep = |name: &str, mib| {
            let agent = Principal::local().agent(name);
            store.insert(&agent, rest(mib), KEEP).unwrap()
        };
        assert!(keep("ann", 17).is_none(), "too long for anyone");
        let bob = keep("bob", 4).unwrap();
        let ann: Vec<_> = (0..6).map(|_| keep("ann", 6).unwrap()).collect();
        let has = |name: &str, id| store.get(&Principal::local().agent(name), id).is_some();
        assert!(has("bob", &bob) && has("ann", &ann[5]) && has("ann", &ann[4]));
        assert!(!has("ann", &ann[3]));
        for name in ["c", "d", "e", "f"] {
            keep(name, 15).unwrap();
        }
        let bytes: usize = store.0.lock().values().map(|stored| stored.bytes).sum();
        assert!(bytes <= MAX_BYTES && has("bob", &bob), "{bytes}");
    }
}
