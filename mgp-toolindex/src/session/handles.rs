//! Sessions of stateless requests. Each has a handle that only its principal can use (MGP §16.7).
//!
//! A handle consists of 128 random bits, so it cannot be guessed. Only its digest is stored, so the timing of look-ups
//! reveals nothing about other handles. Unused handles expire, and their number is limited per principal and in total.
//! At the limit of a principal, its least recently used handle is removed. At the total limit, the least recently used
//! handle of the principal with the most handles is removed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::service::{Principal, TenantId};
use mgp_types::sync::Mutex;
use tokio::time::Instant;

use super::cache::Cache;
use crate::error::SessionError;

/// The limits of sessions with a handle.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionLimits {
    /// The time after which an unused session expires. Default: one hour.
    pub idle: Duration,
    /// The maximum number of sessions of a principal. Default: 32.
    pub max_per_principal: usize,
    /// The maximum number of sessions in total. Default: 10,000.
    pub max_total: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { idle: Duration::from_hours(1), max_per_principal: 32, max_total: 10_000 }
    }
}

type Digest = [u8; 32];

#[derive(Debug, Default)]
pub(super) struct Handles(Mutex<HashMap<Digest, Handle>>);

#[derive(Debug)]
struct Handle {
    principal: Principal,
    used: Instant,
    cache: Arc<Cache>,
}

impl Handles {
    /// Opens a session for a principal; returns its handle and its empty cache.
    pub(super) fn open(
        &self,
        principal: &Principal,
        limits: &SessionLimits,
    ) -> Result<(String, Arc<Cache>), SessionError> {
        let mut secret = [0; 16];
        getrandom::fill(&mut secret).map_err(|_| SessionError::NoRandomness)?;
        let name = mgp_types::to_hex(&secret);
        let cache = Arc::new(Cache::default());
        let handle = Handle {
            principal: principal.clone(),
            used: Instant::now(),
            cache: Arc::clone(&cache),
        };
        let mut table = self.0.lock();
        enforce_limits(&mut table, principal, limits);
        table.insert(digest(&name), handle);
        Ok((name, cache))
    }

    /// Finds the session of a handle; returns an error if the handle is unknown, has expired or belongs to another
    /// principal.
    pub(super) fn find(
        &self,
        name: &str,
        principal: &Principal,
        limits: &SessionLimits,
    ) -> Result<Arc<Cache>, SessionError> {
        let digest = digest(name);
        let mut table = self.0.lock();
        let handle = table.get_mut(&digest).filter(|handle| handle.principal == *principal);
        let handle = handle.ok_or(SessionError::UnknownHandle)?;
        if handle.used.elapsed() >= limits.idle {
            table.remove(&digest);
            return Err(SessionError::UnknownHandle);
        }
        handle.used = Instant::now();
        Ok(Arc::clone(&handle.cache))
    }

    pub(super) fn remove_tenant(&self, tenant: &TenantId) {
        self.0.lock().retain(|_, handle| handle.principal.tenant() != tenant);
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

fn digest(name: &str) -> Digest {
    *blake3::hash(name.as_bytes()).as_bytes()
}

/// Makes room for another session of the principal if a limit is reached. Removes expired sessions and, if that is not
/// enough, one old session by the rule in the documentation of this module.
fn enforce_limits(
    table: &mut HashMap<Digest, Handle>,
    principal: &Principal,
    limits: &SessionLimits,
) {
    let own = table.values().filter(|handle| handle.principal == *principal).count();
    if own < limits.max_per_principal && table.len() < limits.max_total {
        return;
    }
    table.retain(|_, handle| handle.used.elapsed() < limits.idle);
    let own = table.values().filter(|handle| handle.principal == *principal).count();
    if own >= limits.max_per_principal {
        remove_oldest(table, principal);
    } else if table.len() >= limits.max_total {
        let mut counts: HashMap<&Principal, usize> = HashMap::new();
        for handle in table.values() {
            *counts.entry(&handle.principal).or_default() += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, count)| *count);
        if let Some(principal) = most.map(|(principal, _)| principal.clone()) {
            remove_oldest(table, &principal);
        }
    }
}

fn remove_oldest(table: &mut HashMap<Digest, Handle>, principal: &Principal) {
    let own = table.iter().filter(|(_, handle)| handle.principal == *principal);
    if let Some(oldest) = own.min_by_key(|(_, handle)| handle.used).map(|(digest, _)| *digest) {
        table.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn who(name: &str) -> Principal {
        Principal::new("here", name)
    }

    #[tokio::test(start_paused = true)]
    async fn a_handle_works_only_for_its_principal_and_expires() {
        let (handles, limits) = (Handles::default(), SessionLimits::default());
        let (name, cache) = handles.open(&who("ann"), &limits).unwrap();
        assert_eq!(name.len(), 32);
        assert!(Arc::ptr_eq(&handles.find(&name, &who("ann"), &limits).unwrap(), &cache));
        for (name, principal) in [
            (name.as_str(), who("bob")),
            (name.as_str(), who("ann").agent("x")),
            (name.as_str(), Principal::new("there", "ann")),
            ("", who("ann")),
            (&name[1..], who("ann")),
        ] {
            assert!(handles.find(name, &principal, &limits).is_err(), "{name} {principal:?}");
        }
        tokio::time::advance(Duration::from_mins(59)).await;
        assert!(handles.find(&name, &who("ann"), &limits).is_ok());
        tokio::time::advance(Duration::from_hours(1)).await;
        assert!(handles.find(&name, &who("ann"), &limits).is_err());
        assert_eq!(handles.len(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_handles_of_a_removed_tenant_are_unknown_to_a_later_one() {
        let (handles, limits) = (Handles::default(), SessionLimits::default());
        let there = Principal::new("there", "ann");
        let (gone, kept) = (
            handles.open(&who("ann"), &limits).unwrap().0,
            handles.open(&there, &limits).unwrap().0,
        );
        handles.remove_tenant(who("ann").tenant());
        assert!(handles.find(&gone, &who("ann"), &limits).is_err());
        assert!(handles.find(&kept, &there, &limits).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_of_one_principal_removes_only_its_own_sessions() {
        let handles = Handles::default();
        let limits =
            SessionLimits { max_per_principal: 4, max_total: 6, ..SessionLimits::default() };
        let open = |name: &str| handles.open(&who(name), &limits).unwrap().0;
        let (ann, mallory) = (open("ann"), open("mallory"));
        for _ in 0..100 {
            tokio::time::advance(Duration::from_secs(1)).await;
            open("mallory");
        }
        assert_eq!(handles.len(), 5);
        assert!(handles.find(&ann, &who("ann"), &limits).is_ok());
        assert!(handles.find(&mallory, &who("mallory"), &limits).is_err());
        let (bob, eve) = (open("bob"), open("eve"));
        assert_eq!(handles.len(), 6);
        for (name, principal) in [(&ann, "ann"), (&bob, "bob"), (&eve, "eve")] {
            assert!(handles.find(name, &who(principal), &limits).is_ok(), "{principal}");
        }
    }
}
